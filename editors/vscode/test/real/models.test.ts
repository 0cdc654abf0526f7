/** From a fresh profile to a model: the walkthrough, the download, the status. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test as plainTest } from "node:test";
import type { Locator } from "playwright-core";
import { Editor } from "./editor.js";
import { Hub } from "./hub.js";
import { choose } from "./quickInput.js";
import { until } from "./until.js";
import { ARTEFACTS, EXTENSION, Workbench } from "./workbench.js";

const SAMPLE = ["customer", "supplier", "visitor"]
  .map(
    (who) => `def greet_${who}(name: str) -> str:\n    greeting = name\n    return greeting\n\n\n`,
  )
  .join("");

let hub: Hub;
let workbench: Workbench;
let editor: Editor;
let cache: string;

before(async () => {
  mkdirSync(ARTEFACTS, { recursive: true });
  hub = await Hub.start();
  cache = mkdtempSync(join(tmpdir(), "speclsp-hub-"));
  workbench = await Workbench.start({
    vsix: join(EXTENSION, "dist", "speclsp.vsix"),
    env: { HF_ENDPOINT: hub.url, HF_HOME: cache, HF_HUB_DISABLE_XET: "1" },
  });
  const folder = workbench.folder("shop", { "greetings.py": SAMPLE });
  editor = await Editor.open(workbench, folder, join(folder, "greetings.py"));
});

after(async () => {
  hub.close();
  await workbench.close();
  rmSync(cache, { recursive: true, force: true });
});

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

function notification(text: RegExp): Locator {
  return editor.page.locator(".notifications-toasts .notification-list-item", { hasText: text });
}

async function press(shown: Locator, button: string): Promise<void> {
  await shown.locator(".monaco-button", { hasText: button }).first().click();
}

/** The button of the walkthrough's step on models. */
async function findModel(): Promise<void> {
  const page = editor.page;
  await page.locator(".getting-started-step", { hasText: "Choose a model" }).first().click();
  await page
    .locator(".getting-started-step .monaco-button", { hasText: "Find a Model for This Computer" })
    .first()
    .click();
}

/** The files of the user's settings, wherever an editor that is served keeps them. */
function settingsFiles(): string[] {
  return ["User", "Machine"]
    .map((kind) => join(workbench.root, "data", kind, "settings.json"))
    .filter((file) => existsSync(file));
}

function settings(): string {
  return settingsFiles()
    .map((file) => readFileSync(file, "utf8"))
    .join("\n");
}

const OFFER = /found → Qwen.* GB\. Download\?/;

test("a fresh profile has the trial model, and the offer of a real one", async () => {
  assert.match(await editor.spokenStatus(), /ready, trial model: choose a real one/);
  await notification(OFFER).first().waitFor();
  await editor.picture("model-offer");
});

test("a download that the server offers is shown, and can be cancelled", async () => {
  await hub.tell("hold");
  const before = settingsFiles().map((file) => [file, readFileSync(file, "utf8")] as const);
  for (const [file, text] of before) {
    const known = JSON.parse(text) as Record<string, unknown>;
    writeFileSync(file, JSON.stringify({ ...known, "speclsp.model": "qwen2.5-coder-0.5b-q8_0" }));
  }
  await press(notification(/is not downloaded/).first(), "Download");
  const progress = notification(/Downloading Qwen/).first();
  await progress.waitFor();
  await press(progress, "Cancel");
  await progress.waitFor({ state: "detached" });
  // The hub holds on: a file that went on now could be complete before its server hears of it.
  for (const [file, text] of before) writeFileSync(file, text);
  await editor.untilStatus(/ready, trial model/);
});

test("the walkthrough downloads a model; cancelling keeps the trial model", async () => {
  await editor.command("speclsp: First Steps");
  await hub.tell("hold");
  await findModel();
  await press(notification(OFFER).first(), "Download");
  const progress = notification(/Downloading Qwen/).first();
  await progress.waitFor();
  await editor.picture("model-download");
  await press(progress, "Cancel");
  await progress.waitFor({ state: "detached" });
  assert.match(await editor.spokenStatus(), /trial model/);
  assert.doesNotMatch(settings(), /speclsp\.model/);
});

test("the download goes on, and the model is used from then on", async () => {
  await findModel();
  await press(notification(OFFER).first(), "Download");
  await notification(/Downloading Qwen/)
    .first()
    .waitFor();
  await editor.openFile("greetings.py");
  await editor.toEnd();
  await editor.type("def greet_guest(name: str) -> str:\n");
  const text = await editor.untilGhost();
  const trialTextGoes = editor.ghostGoes();
  await hub.tell("go");
  await notification(/Qwen.* is ready/)
    .first()
    .waitFor();
  await editor.untilStatus(/^speclsp: ready(?!, trial)/);
  assert.match(settings(), /"speclsp\.model": "qwen/);
  // The cursor rests where the trial model suggested: the new model is asked without a key.
  await until("the new model suggests", () =>
    / completion \w+: /.test(workbench.log().split("engine ready").at(-1) ?? ""),
  );
  await trialTextGoes;
  assert.equal(await editor.untilGhost(), text, "the stand-in is the same model");
  await editor.command("speclsp: First Steps");
  await until("the walkthrough's step is done", () =>
    editor.page
      .locator(".getting-started-step", { hasText: "Choose a model" })
      .locator(".codicon-getting-started-step-checked")
      .first()
      .isVisible(),
  );
  await editor.picture("model-ready");
  await editor.openFile("greetings.py");
});

test("the list of models tells which one is in use", async () => {
  await choose(editor.page, "F1", ">speclsp: Choose Model", "speclsp: Choose Model");
  const rows = editor.page.locator(".quick-input-list .monaco-list-row");
  await rows
    .filter({ hasText: /recommended, in use/ })
    .first()
    .waitFor();
  await editor.picture("model-list");
  await editor.type("GGUF file"); // rows that the list has no room for are not drawn
  await rows.filter({ hasText: "A GGUF file of mine" }).first().waitFor();
  await editor.keys("Escape");
});
