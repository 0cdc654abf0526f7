/** What a user sees and does, in a real workbench with the real server and the embedded model. */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test as plainTest } from "node:test";
import type { Locator } from "playwright-core";
import { Editor } from "./editor.js";
import { serversBelow } from "./processes.js";
import { choose } from "./quickInput.js";
import { doUntil, until } from "./until.js";
import { ARTEFACTS, EXTENSION, Workbench } from "./workbench.js";

const VSIX = join(EXTENSION, "dist", "speclsp.vsix");

function greeting(who: string): string {
  return (
    `def greet_${who}(name: str) -> str:\n` +
    `    greeting = f"Hello, {name}, and welcome to the shop!"\n` +
    `    return greeting\n\n\n`
  );
}

const SAMPLE = `"""A shop's greetings."""\n\n\n${["customer", "supplier", "visitor"].map(greeting).join("")}`;
/** Bodies of which the embedded model suggests two lines, whichever key it was asked at before. */
const PARTS = SAMPLE.replaceAll(
  / {4}greeting = .*\n {4}return greeting\n/g,
  `    message = "Hello " + name\n    return message\n`,
);
const LINES_5000 = Array.from({ length: 1000 }, (_, idx) =>
  greeting(`visitor_${String(idx)}`),
).join("");

let workbench: Workbench;
let editor: Editor;
let folder: string;
let garden: string;
/** A workspace of both folders. */
let both: string;
let bothWindow: Editor | undefined;

before(async () => {
  mkdirSync(ARTEFACTS, { recursive: true });
  workbench = await Workbench.start({
    vsix: VSIX,
    settings: { "workbench.colorTheme": "Default Dark Modern" },
  });
  folder = workbench.folder("shop", {
    "greetings.py": SAMPLE,
    "windows.py": SAMPLE.replaceAll("\n", "\r\n"),
    "astral.py": SAMPLE.replaceAll("shop", "😀"),
    "large.py": LINES_5000,
    "parts.py": PARTS,
    "list.py": SAMPLE,
    "toggle.py": SAMPLE,
    "killed.py": SAMPLE,
    "late.py": SAMPLE,
  });
  garden = workbench.folder("garden", { "plants.py": SAMPLE.replaceAll("greet", "water") });
  both = join(workbench.root, "both.code-workspace");
  writeFileSync(both, JSON.stringify({ folders: [{ path: folder }, { path: garden }] }));
  editor = await Editor.open(workbench, folder, join(folder, "greetings.py"));
});

/** A second window, with both folders, for the tests from the first one that needs it. */
async function secondWindow(): Promise<Editor> {
  return (bothWindow ??= await Editor.open(workbench, both, join(garden, "plants.py")));
}

after(async () => {
  console.log(`ghost text had to be asked for ${String(Editor.nAsked)} times`);
  console.log(`lists had to be opened again ${String(Editor.nReopened)} times`);
  console.log(`windows without their folders were loaded again ${String(Editor.nReloaded)} times`);
  await workbench.close();
});

/** A test that leaves a picture behind where it fails. */
function test(name: string, body: () => Promise<void>): void {
  void plainTest(name, async () => {
    try {
      await body();
    } catch (error) {
      await workbench.evidence(`failed: ${name}`);
      throw error;
    }
  });
}

/** Open the status bar item's menu, and read it. */
async function openMenu(): Promise<{ title: string; all: string }> {
  await editor.status.click();
  const row = editor.page.locator(".quick-input-list .monaco-list-row");
  // The list of the command palette stays in the page until the menu's takes its place.
  await row.filter({ hasText: /no automatic suggestions for a while|min left/ }).waitFor();
  const all = await row.evaluateAll((nodes) => nodes.map((node) => node.textContent).join("\n"));
  return { title: await editor.page.locator(".quick-input-title").first().innerText(), all };
}

/** Other windows have servers and counts of their own. */
const SINCE = "In this window, since its server started";

/** Type a function's head, which has a body like the others. */
async function typeHead(who: string): Promise<void> {
  await editor.toEnd();
  await editor.type(`def greet_${who}(name: str) -> str:\n`);
}

test("Tab accepts what was shown, and nothing else is in the file", async () => {
  await typeHead("guest");
  const ghost = await editor.untilGhost();
  await editor.picture("ghost-text");
  assert.match(ghost, /^greeting = /);
  await editor.keys("Tab");
  const head = `${SAMPLE}def greet_guest(name: str) -> str:\n    `;
  const text = await editor.saved(join(folder, "greetings.py"), (saved) =>
    saved.startsWith(head + (ghost.split("\n")[0] ?? "")),
  );
  const lines = ghost.split("\n").map((line) => line.trim());
  assert.deepEqual(
    text
      .slice(head.length)
      .trimEnd()
      .split("\n")
      .map((line) => line.trim()),
    lines,
  );
});

test("the status bar shows the state and the latest latency, and no share", async () => {
  await editor.untilStatus(/ready.*latest suggestion in \d+ milliseconds/);
  assert.match(await editor.status.innerText(), /speclsp \d+ ms · trial model$/);
});

test("the menu tells what is on, what it will do, and which model runs where", async () => {
  // The status bar's figures follow what was accepted.
  const rows = await until("the menu counts what was accepted", async () => {
    const shown = await openMenu();
    if (/accepted 1 of/.test(shown.all)) return shown;
    await editor.keys("Escape");
    return undefined;
  });
  assert.match(rows.title, /^speclsp: ready.* · trial model on CPU$/);
  for (const row of [
    /Snooze.*no automatic suggestions for a while/,
    /Suggestions everywhere: on.*switch off/,
    /Suggestions in this workspace: on.*switch off/,
    /Suggestions for Python: on.*switch off/,
    /Choose a model.*one that fits this computer/,
    /Show statistics.*accepted 1 of \d+ .*latency \d+ ms/,
    /Help/,
  ]) {
    assert.match(rows.all, row);
  }
  assert.equal(`${rows.title}\n${rows.all}`.match(/trial model/gi)?.length, 1);
  await editor.picture("menu");
  await editor.keys("Escape");
});

test("a word and a line are accepted, and the server hears of it", async () => {
  await editor.openFile("parts.py");
  await typeHead("friend");
  const first = (await editor.untilGhost()).split("\n")[0] ?? "";
  await editor.keys("Control+ArrowRight");
  const word = await until("a word goes from grey to text", async () => {
    const rest = (await editor.ghost()).split("\n")[0] ?? "";
    return rest !== "" && rest !== first && first.endsWith(rest)
      ? first.slice(0, -rest.length)
      : undefined;
  });
  assert.equal(word.trim(), "message");
  await editor.untilGhost();
  await editor.keys("Control+Alt+ArrowRight");
  const head = `${PARTS}def greet_friend(name: str) -> str:\n    `;
  await editor.saved(join(folder, "parts.py"), (saved) => saved.startsWith(`${head}${first}\n`));

  await editor.command("speclsp: Show Statistics");
  const partly = await until("the panel shows partial acceptances", async () => {
    const figure = await editor.figure("Accepted in part");
    return figure !== "" && figure !== "0" ? figure : undefined;
  });
  // Word and line are of one suggestion.
  assert.equal(partly, "1");
});

test("a suggestion that is typed through counts once", async () => {
  await editor.page.locator(".tab", { hasText: "parts.py" }).first().click();
  await editor.toEnd();
  await editor.keys("Escape", "Enter", "Home");
  await typeHead("stranger");
  const ghost = (await editor.untilGhost()).split("\n")[0] ?? "";
  const nShown = async (): Promise<number> =>
    Number(/ of ([\d,]+)/.exec(await editor.figure("Accepted"))?.[1]);
  await editor.page.waitForTimeout(2500); // it counts after half a second, the panel asks each second
  const before = await nShown();
  assert.ok(before > 0);
  for (const key of ghost.slice(0, 8)) {
    await editor.type(key);
    await editor.untilGhost();
  }
  await editor.page.waitForTimeout(2500);
  assert.equal(await nShown(), before);
  await editor.keys("Tab");
  await editor.page.waitForTimeout(2500);
  assert.ok((await nShown()) - before <= 1, "what follows it may count, too");
});

test("the panel has what was accepted and the latency first, explanations under Details", async () => {
  const panel = editor.panel;
  const names = await panel.locator("#figures dt").allInnerTexts();
  assert.deepEqual(names, [
    "Accepted",
    "Accepted in part",
    "Latency, median",
    "Characters accepted",
    "Characters typed over",
  ]);
  assert.equal(await panel.locator("h2").first().innerText(), SINCE);
  for (const figure of await panel.locator("#figures dd").all()) {
    const { height, line } = await figure.evaluate((dd) => ({
      height: dd.getBoundingClientRect().height,
      line: 2 * parseFloat(getComputedStyle(dd).fontSize),
    }));
    assert.ok(height < line, "a figure stands on one line");
  }
  const { labels, curve } = await panel.locator("#latency").evaluate((svg) => ({
    labels: Math.max(
      ...[...svg.querySelectorAll(".label")].map((label) => label.getBoundingClientRect().right),
    ),
    curve: svg.querySelector(".line")?.getBoundingClientRect().left ?? 0,
  }));
  assert.ok(labels <= curve, "the curve crosses no label");
  const median = await editor.figure("Latency, median");
  assert.match(median, /^\d+ ms$/);
  assert.ok((await panel.locator("#latency-text").innerText()).includes(`median ${median}`));
  assert.equal(await panel.locator("#details").isVisible(), false);
  await panel.locator("summary").click();
  await panel.locator("#details").waitFor();
  const all = await panel.locator("#details > div").count();
  assert.equal(await panel.locator("#details .remark").count(), all);
  await editor.picture("statistics-details");
  await panel.locator("summary").click();
});

test("the panel draws, narrow too, and a screen reader can read it", async () => {
  const panel = editor.panel;
  assert.match(await panel.locator("#latency-text").innerText(), /median \d+ ms/);
  assert.notEqual(await panel.locator("#latency .line").getAttribute("points"), "");
  assert.match(await panel.locator("main").ariaSnapshot(), /heading "Latency"/);
  await editor.picture("statistics");
  // The narrowest that a split editor gets.
  await editor.showSideBar(false);
  await editor.page.setViewportSize({ width: 620, height: 700 });
  const size = await until("the panel has become narrow", async () => {
    const found = await panel
      .locator("html")
      .evaluate((html) => [html.clientWidth, html.scrollWidth]);
    return (found[0] ?? 0) < 320 ? found : undefined;
  });
  await editor.page.waitForTimeout(300);
  await editor.picture("statistics-narrow");
  assert.equal(size[1], size[0], "nothing hangs over");
  await editor.page.setViewportSize({ width: 1100, height: 700 });
  await editor.showSideBar(true);
  const tab = editor.page.locator(".tab", { hasText: "speclsp Statistics" });
  await tab.click({ button: "middle" });
  await tab.waitFor({ state: "detached" });
});

test("candidates are cycled and dismissed", async () => {
  await editor.openFile("list.py");
  await editor.toEnd();
  await editor.type("def ");
  await editor.keys("Alt+\\");
  const first = await editor.untilGhost();
  const second = await editor.keyUntil("Alt+]", "another candidate", async () => {
    const now = await editor.ghost();
    return now !== "" && now !== first ? now : undefined;
  });
  await editor.keyUntil("Alt+[", "the first candidate again", async () =>
    (await editor.ghost()) === first ? true : undefined,
  );
  assert.notEqual(second, first);
  await editor.picture("candidates");
  await editor.keys("Escape");
  await editor.untilNoGhost();
});

test("the suggestion list and ghost text stand beside each other", async () => {
  await editor.toEnd();
  await editor.type("\ngree");
  const row = editor.page.locator(".suggest-widget.visible .monaco-list-row.focused .label-name");
  await editor.keyUntil("Control+Space", "the list opens", () => row.isVisible());
  const ghost = await editor.untilGhost();
  const selected = (await row.innerText()).trim();
  await editor.picture("suggestion-list");
  // What the list would insert comes first.
  assert.ok(`gree${ghost}`.startsWith(selected), `${selected}: ${ghost}`);
  await editor.keys("Tab");
  await editor.saved(join(folder, "list.py"), (saved) => saved.trimEnd().endsWith(selected));
});

test("the suggestion at a place is explained, with the settings that are set", async () => {
  await editor.openFile("killed.py");
  await editor.toEnd();
  await editor.command("speclsp: Explain the Suggestion Here");
  const shown = editor.page.locator(".editor-instance .monaco-editor .view-lines").first();
  const line = String(SAMPLE.split("\n").length);
  await until("the explanation is shown", async () => {
    const text = (await shown.innerText()).replaceAll("\u00a0", " ");
    return text.includes(`killed.py:${line}:1`) && text.includes("--min-probability 0");
  });
  assert.doesNotMatch(await shown.innerText(), /Usage:|Error:/);
  await editor.picture("explanation");
  await editor.keys("Control+F4");
});

test("suggestions are switched off and on", async () => {
  await editor.openFile("toggle.py");
  await editor.toEnd();
  await editor.keys("Shift+Alt+\\");
  await editor.untilStatus(/^speclsp: (off for this file|switched off)$/);
  assert.match(await editor.status.innerText(), /speclsp off$/);
  await typeHead("nobody");
  await editor.page.waitForTimeout(1000);
  assert.equal(await editor.ghost(), "");
  await editor.command("speclsp: Switch Suggestions Off or On Everywhere");
  await editor.untilStatus(/ready/);
  await editor.type("g");
  await editor.untilGhost();
});

test("a snooze stops what comes by itself, and nothing else", async () => {
  await editor.openFile("toggle.py");
  const snooze = async (choice: string): Promise<void> => {
    await choose(editor.page, "F1", ">speclsp: Snooze", "speclsp: Snooze");
    await editor.page
      .locator(".quick-input-list .monaco-list-row", { hasText: choice })
      .first()
      .click();
  };
  await snooze("5 minutes");
  await editor.untilStatus(/snoozed, 5 min left/);
  assert.match(await editor.status.innerText(), /speclsp snoozed 5 min$/);
  const menu = await openMenu();
  assert.match(menu.all, /End the snooze.*5 min left/);
  await editor.keys("Escape");
  await typeHead("sleeper");
  await editor.page.waitForTimeout(1000);
  assert.equal(await editor.ghost(), "");
  await editor.keys("Alt+\\");
  await editor.untilGhost();
  await snooze("End the snooze");
  await editor.untilStatus(/ready/);
});

test("the walkthrough opens a sample, and is ticked by what is accepted there", async () => {
  await editor.command("speclsp: First Steps");
  const step = editor.page.locator(".getting-started-step", { hasText: "Accept a suggestion" });
  const ticked = (of: Locator): Locator =>
    of.locator(".codicon-getting-started-step-checked").first();
  await ticked(editor.page.locator(".getting-started-step", { hasText: "Install" })).waitFor();
  await step.first().click();
  await editor.picture("walkthrough");
  await step.locator(".monaco-button", { hasText: "Try a Suggestion" }).first().click();
  const ghost = await editor.untilGhost();
  assert.match(ghost, /^greeting = /);
  const tab = editor.page.locator(".tab.active .label-name");
  assert.match(await tab.innerText(), /^try-speclsp/);
  await editor.picture("sample");
  await editor.keys("Tab");
  await editor.untilNoGhost();
  await editor.command("speclsp: First Steps");
  await ticked(step).waitFor();
});

test("a message about a wrong path goes when the path is right", async () => {
  const files = ["User", "Machine"].map((kind) =>
    join(workbench.root, "data", kind, "settings.json"),
  );
  const right = files.map((file) => readFileSync(file, "utf8"));
  for (const [idx, file] of files.entries()) {
    const known = JSON.parse(right[idx] ?? "{}") as Record<string, unknown>;
    const path = "/nowhere/speclsp";
    writeFileSync(file, JSON.stringify({ ...known, "speclsp.server.path": path }));
  }
  const toast = editor.page.locator(".notifications-toasts .notification-list-item", {
    hasText: "there is no executable /nowhere/speclsp",
  });
  await toast.first().waitFor();
  const tip = editor.page.locator(".hover-contents", { hasText: "Server Settings" }).first();
  await doUntil(
    "the tooltip offers the setting",
    async () => {
      await editor.page.mouse.move(0, 0); // a tooltip closes where the item changes under it
      await editor.status.hover();
    },
    () => tip.isVisible(),
  );
  await editor.picture("wrong-path");
  for (const [idx, file] of files.entries()) writeFileSync(file, right[idx] ?? "");
  await editor.untilStatus(/speclsp: ready/);
  await toast.first().waitFor({ state: "hidden" });
});

test("a prompt that takes longer is asked for again without a key", async () => {
  await editor.openFile("late.py");
  await typeHead("friend");
  await editor.untilGhost();
  const files = ["User", "Machine"].map((kind) =>
    join(workbench.root, "data", kind, "settings.json"),
  );
  const former = files.map((file) => readFileSync(file, "utf8"));
  for (const [idx, file] of files.entries()) {
    const known = JSON.parse(former[idx] ?? "{}") as Record<string, unknown>;
    writeFileSync(file, JSON.stringify({ ...known, "speclsp.deadlineMs": 1 }));
  }
  const nLate = (): number => workbench.log().match(/ completion \w+: deadline/g)?.length ?? 0;
  await doUntil(
    "time runs out",
    () => editor.type("@"),
    () => nLate() > 0,
  );
  await editor.page.waitForTimeout(2000);
  const before = nLate();
  await editor.type("@");
  await until("one key is followed by three requests", () => nLate() >= before + 3);
  for (const [idx, file] of files.entries()) writeFileSync(file, former[idx] ?? "");
  await editor.untilStatus(/speclsp: ready/);
});

test("a server that is killed comes back, and nothing is lost", async () => {
  await editor.openFile("killed.py");
  await typeHead("friend");
  await editor.untilGhost();
  const [server] = serversBelow(workbench.pid);
  assert.ok(server);
  process.kill(server, "SIGKILL");
  // Typed while nothing answers, and not a key after that.
  await editor.type("g");
  await until("another server runs", () =>
    serversBelow(workbench.pid).some((pid) => pid !== server),
  );
  await editor.untilStatus(/speclsp: ready/);
  const ghost = await editor.untilGhost();
  await editor.keys("Tab");
  const head = `${SAMPLE}def greet_friend(name: str) -> str:\n    g`;
  await editor.saved(join(folder, "killed.py"), (saved) =>
    saved.startsWith(head + (ghost.split("\n")[0] ?? "")),
  );
});

for (const [what, file, end] of [
  ["a file with CRLF", "windows.py", "\r\n"],
  ["a file with characters beyond the first plane", "astral.py", "\n"],
  ["a file of 5,000 lines", "large.py", "\n"],
] as const) {
  test(`${what} gets its suggestion where it belongs`, async () => {
    await editor.openFile(file);
    const before = readFileSync(join(folder, file), "utf8");
    await typeHead("relative");
    const ghost = await editor.untilGhost();
    assert.doesNotMatch(ghost, /\r|\^M/);
    await editor.keys("Tab");
    const head = `${before}def greet_relative(name: str) -> str:${end}    `;
    const text = await editor.saved(join(folder, file), (saved) =>
      saved.startsWith(head + (ghost.split("\n")[0] ?? "")),
    );
    if (end === "\r\n") assert.doesNotMatch(text, /[^\r]\n/);
  });
}

test("two folders in one window, two windows beside each other", async () => {
  const second = await secondWindow();
  const explorer = second.page.locator(".explorer-folders-view");
  for (const name of ["shop", "garden"])
    await explorer.getByText(name, { exact: true }).first().waitFor();
  await second.toEnd();
  await second.type("def water_friend(name: str) -> str:\n");
  const ghost = await second.untilGhost();
  await second.keys("Tab");
  const head = "def water_friend(name: str) -> str:\n    ";
  await second.saved(join(garden, "plants.py"), (saved) =>
    saved.includes(head + (ghost.split("\n")[0] ?? "")),
  );
  await second.openFile("parts.py");
  await second.toEnd();
  await second.type("def greet_twice(name: str) -> str:\n");
  await second.untilGhost();
  // The first window goes on as before.
  await editor.openFile("toggle.py");
  await editor.toEnd();
  await editor.keys("Enter", "Home");
  await typeHead("afterwards");
  await editor.untilGhost();
  await until("each window has one server", () => serversBelow(workbench.pid).length === 2);
  await second.picture("two-folders");
});

test("two windows share one engine, and outlive it", async () => {
  const second = await secondWindow();
  await second.openFile("plants.py");
  await editor.openFile("toggle.py");
  const suggestTo = async (window: Editor, head: string): Promise<void> => {
    await window.toEnd();
    await window.keys("Escape", "Enter", "Home");
    await window.type(head);
    await window.untilGhost();
  };
  await suggestTo(second, "def water_guest(name: str) -> str:\n");
  await suggestTo(editor, "def greet_neighbour(name: str) -> str:\n");
  const engine = await until("one engine has two windows", async () => {
    const [first, ...others] = await workbench.engines();
    return others.length === 0 && first?.n_windows === 2 ? first : undefined;
  });
  const servers = serversBelow(workbench.pid);
  process.kill(engine.pid, "SIGKILL");
  await suggestTo(second, "def water_tenant(name: str) -> str:\n");
  await suggestTo(editor, "def greet_landlord(name: str) -> str:\n");
  const after = await workbench.engines();
  assert.deepEqual(
    after.map((status) => [status.n_windows, status.pid === engine.pid]),
    [[2, false]],
  );
  assert.deepEqual(serversBelow(workbench.pid).sort(), servers.sort());
});
