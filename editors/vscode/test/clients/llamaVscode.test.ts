/**
 * llama.vscode itself, in a real workbench, with `speclsp http` as its server.
 *
 * SPECLSP_LLAMA_VSCODE    the VSIX that was made of its checkout (tests/clients/test_llama_vscode.py)
 * SPECLSP_CLIENTS_FOLDER  where the cells of the table and what the plugin sent are written
 * SPECLSP_CLIENTS_MODEL   another model than the trial model, with which less is tried
 */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test as plainTest } from "node:test";
import { Editor } from "../real/editor.js";
import { until } from "../real/until.js";
import { ARTEFACTS, Workbench } from "../real/workbench.js";
import { HttpServer } from "./httpServer.js";

const VSIX = process.env["SPECLSP_LLAMA_VSCODE"] ?? "";
const MODEL = process.env["SPECLSP_CLIENTS_MODEL"] ?? "";
const OUTPUT = process.env["SPECLSP_CLIENTS_FOLDER"] ?? ARTEFACTS;
const NAME = "llama.vscode";
const OF_A_MODEL = new Set(["shown", "whole", "undone", "all requests are answered"]);

function greeting(who: string, word = "Hello"): string {
  return (
    `export function greet${who}(name: string): string {\n` +
    `  const greeting = "${word}, " + name + ", and welcome to the shop!";\n` +
    `  return greeting;\n}\n\n`
  );
}

const WHO = ["Customer", "Supplier", "Visitor"];
const SAMPLE = WHO.map((who) => greeting(who)).join("");
const inWords = (word: string): string => WHO.map((who) => greeting(who, word)).join("");

const FILES: Record<string, string> = {
  "accepted.ts": SAMPLE,
  "words.ts": SAMPLE,
  "lines.ts": SAMPLE,
  "dismissed.ts": SAMPLE,
  "typed.ts": SAMPLE,
  "other.ts": SAMPLE,
  "accents.ts": inWords("Café"),
  "emoji.ts": inWords("👋"),
  "cjk.ts": inWords("你好"),
  "windows.ts": SAMPLE.replaceAll("\n", "\r\n"),
  "tabs.ts": SAMPLE.replaceAll("\n  ", "\n\t"),
  "empty.ts": "",
  "large.ts": SAMPLE.repeat(Math.ceil(2_000_000 / SAMPLE.length)),
  "bare.ts": SAMPLE.trimEnd(),
  "closed.ts": SAMPLE,
  "afterwards.ts": SAMPLE,
};

let server: HttpServer;
let workbench: Workbench;
let editor: Editor;
let folder: string;
/** The requests until something was typed, accepted and undone. */
let nOfShortSession = 0;
const found: Record<string, string> = {};

/** A cell of the table, and a picture where it is `no`. */
function test(feature: string, body: () => Promise<void>): void {
  const skip =
    (VSIX === "" && "no checkout") ||
    (MODEL !== "" && !OF_A_MODEL.has(feature) && "it is tried with the trial model");
  void plainTest(`${NAME}: ${feature}`, { skip }, async () => {
    try {
      await body();
      found[feature] ??= "yes";
    } catch (error) {
      found[feature] = "no";
      await workbench.evidence(`failed: ${NAME} ${feature}`);
      throw error;
    }
  });
}

before(async () => {
  if (VSIX === "") return;
  mkdirSync(ARTEFACTS, { recursive: true });
  const model = MODEL === "" ? ["--min-probability", "0"] : ["--model", MODEL];
  server = await HttpServer.start(model);
  workbench = await Workbench.start({
    vsix: VSIX,
    // The lines of docs/http.md.
    settings: {
      "llama-vscode.endpoint": server.url,
      "llama-vscode.ask_install_llamacpp": false,
    },
  });
  folder = workbench.folder("shop", FILES);
  editor = await Editor.open(workbench, folder, fileOf("accepted.ts"), async ({ page }) => {
    // Its first start shows a page about itself.
    const information = page.locator(".tab", { hasText: "Information" });
    await information.waitFor();
    await information.click({ button: "middle" });
    await information.waitFor({ state: "detached" });
  });
});

after(async () => {
  if (VSIX === "") return;
  await workbench.close();
  await server.close();
  const asked = server.exchanges;
  console.log(
    `${String(asked.length)} requests, ${String(asked.filter((one) => one.status !== 200).length)} not answered by 200`,
  );
  write("sent.json", asked.slice(0, nOfShortSession));
  write("found.json", found);
});

function write(name: string, data: unknown): void {
  writeFileSync(join(OUTPUT, name), `${JSON.stringify(data, undefined, 1)}\n`);
}

function fileOf(name: string): string {
  return join(folder, name);
}

/** Type a function's head at the end of a file, and return the suggestion for its body. */
async function typeHead(who: string, name?: string): Promise<string> {
  if (name !== undefined) await editor.openFile(name);
  await editor.toEnd();
  await editor.type(`export function greet${who}(name: string): string {\n`);
  return editor.untilGhost();
}

/** What stands behind a function's head in a saved file. */
function bodyOf(name: string, who: string): string {
  return readFileSync(fileOf(name), "utf8").split(`greet${who}(name: string): string {`)[1] ?? "";
}

/** The file, saved, once it has a text behind a function's head. */
async function untilBody(name: string, who: string, text: string): Promise<string> {
  const head = `greet${who}(name: string): string {`;
  return editor.saved(fileOf(name), (saved) =>
    (saved.split(head)[1] ?? "").replaceAll("\r", "").trimStart().startsWith(text.trim()),
  );
}

test("shown", async () => {
  assert.match(await typeHead("Guest"), /^(const greeting =|return greeting)/);
  await editor.picture("llama.vscode");
});

test("whole", async () => {
  const ghost = await editor.untilGhost();
  await editor.keys("Tab");
  await untilBody("accepted.ts", "Guest", ghost.split("\n")[0] ?? "");
});

test("undone", async () => {
  const before = readFileSync(fileOf("accepted.ts"), "utf8");
  await editor.keys("Control+Z");
  await editor.saved(fileOf("accepted.ts"), (saved) => saved.length < before.length);
  nOfShortSession = server.exchanges.length;
});

test("word", async () => {
  const ghost = await typeHead("Friend", "words.ts");
  await editor.keys("Control+ArrowRight");
  await untilBody("words.ts", "Friend", ghost.split(" ")[0] ?? "");
  assert.equal(bodyOf("words.ts", "Friend").replace("}", "").trim(), ghost.split(" ")[0]);
});

test("line", async () => {
  const ghost = await typeHead("Neighbour", "lines.ts");
  const line = ghost.split("\n")[0] ?? "";
  await editor.keys("Shift+Tab");
  await untilBody("lines.ts", "Neighbour", line);
  assert.equal(bodyOf("lines.ts", "Neighbour").replace(/}\s*$/, "").trim(), line);
});

test("dismissed", async () => {
  await typeHead("Tenant", "dismissed.ts");
  await editor.keys("Escape");
  await editor.untilNoGhost();
  await editor.page.waitForTimeout(1000);
  assert.equal(await editor.ghost(), "");
});

test("typed-through", async () => {
  const ghost = await typeHead("Stranger", "typed.ts");
  const nAsked = server.exchanges.length;
  for (const key of ghost.slice(0, 5)) {
    await editor.type(key);
    await editor.untilGhost();
  }
  await editor.keys("Tab");
  await untilBody("typed.ts", "Stranger", ghost.split("\n")[0] ?? "");
  console.log(`typed through with ${String(server.exchanges.length - nAsked)} requests`);
});

test("other-buffer", async () => {
  await editor.openFile("other.ts");
  await editor.toEnd();
  await editor.type("export function greetLandlord(name: string): string {\n");
  await editor.openFile("dismissed.ts");
  await editor.page.waitForTimeout(2000);
  assert.equal(await editor.ghost(), "", "a late answer is not drawn into another file");
  assert.ok((await typeHead("Landlord", "afterwards.ts")) !== "");
});

for (const [feature, file, word] of [
  ["accents", "accents.ts", "Café"],
  ["emoji", "emoji.ts", "👋"],
  ["cjk", "cjk.ts", "你好"],
] as const) {
  test(feature, async () => {
    await editor.openFile(file);
    await editor.toEnd();
    await editor.type("export function greetGuest(name: string): string {\n");
    await editor.page.keyboard.insertText(`const greeting = "${word}, `);
    await editor.type('" + n');
    const ghost = (await editor.untilGhost()).split("\n")[0] ?? "";
    await editor.keys("Tab");
    await untilBody(file, "Guest", `const greeting = "${word}, " + n${ghost}`);
  });
}

for (const [feature, file] of [
  ["crlf", "windows.ts"],
  ["tabs", "tabs.ts"],
  ["large", "large.ts"],
] as const) {
  test(feature, async () => {
    const ghost = await typeHead("Guest", file);
    assert.doesNotMatch(ghost, /\r|\^M/);
    await editor.keys("Tab");
    const text = await untilBody(file, "Guest", ghost.split("\n")[0] ?? "");
    if (feature === "crlf") assert.doesNotMatch(text, /[^\r]\n/);
    if (feature === "tabs") assert.match(text, /Guest\(name: string\): string \{\n\t\S/);
  });
}

test("no-newline", async () => {
  await editor.openFile("bare.ts");
  await editor.toEnd();
  await editor.type("\n");
  const ghost = await typeHead("Guest");
  await editor.keys("Tab");
  await untilBody("bare.ts", "Guest", ghost.split("\n")[0] ?? "");
});

test("empty", async () => {
  await editor.openFile("empty.ts");
  await editor.toEnd();
  const nAsked = server.exchanges.length;
  await editor.type("export ");
  // Whether there is text in an empty file is the model's.
  await until("it is asked", () => server.exchanges.length > nAsked);
  await until("it is answered", () => server.exchanges.at(-1)?.status === 200);
  await editor.saved(fileOf("empty.ts"), (saved) => saved === "export ");
});

test("closed", async () => {
  await editor.openFile("closed.ts");
  await editor.toEnd();
  await editor.type("export function greetNobody(name: string): string {\n");
  await editor.saved(fileOf("closed.ts"), (saved) => saved.includes("greetNobody"));
  await editor.type("c");
  await editor.saved(fileOf("closed.ts"), (saved) => /greetNobody.*\n\s*c/.test(saved));
  const tab = editor.page.locator(".tab", { hasText: "closed.ts" });
  await editor.command("View: Close Editor");
  await tab.waitFor({ state: "detached" });
  assert.ok((await typeHead("Everybody", "afterwards.ts")) !== "");
});

test("all requests are answered", () => {
  // A request that the plugin gave up has no status.
  const refused = server.exchanges.filter((one) => one.status !== 200 && one.status !== 0);
  assert.deepEqual(refused, []);
  return Promise.resolve();
});
