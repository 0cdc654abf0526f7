/**
 * Runs in the extension host: the extension through the editor's own API, with the real server.
 *
 * What a user sees is tried in the page; here is what the page cannot ask for.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as vscode from "vscode";
import type { Api } from "../../src/extension.js";
import type { SessionStats } from "../../src/statistics.js";
import { serversBelow } from "../real/processes.js";
import { until } from "../real/until.js";

const BODY = `    greeting = f"Hello, {name}, and welcome to the shop!"\n    return greeting\n`;
const SAMPLE = ["customer", "supplier", "visitor"]
  .map((who) => `def greet_${who}(name: str) -> str:\n${BODY}\n\n`)
  .join("");
/** A body of which the embedded model suggests more than a line. */
const TWO_LINES = `    message = "Hello"\n    return message + name\n`;
const HEAD = "def greet_guest(name: str) -> str:\n    ";

async function api(): Promise<Api> {
  const extension = vscode.extensions.getExtension<Api>("speclsp.speclsp");
  assert.ok(extension);
  return extension.activate();
}

async function untilReady(): Promise<Api> {
  const found = await api();
  await until("the engine is ready", () => found.client.status.state === "ready");
  return found;
}

async function statistics(): Promise<SessionStats> {
  const { client } = await api();
  return until("the server answers", () => client.statistics());
}

function folder(): string {
  const path = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  assert.ok(path);
  return path;
}

/** Open a new file whose cursor stands behind HEAD. */
async function openWithCursor(name: string, text: string): Promise<vscode.TextEditor> {
  const file = join(folder(), name);
  writeFileSync(file, text);
  const document = await vscode.workspace.openTextDocument(file);
  const editor = await vscode.window.showTextDocument(document);
  const end = document.positionAt(document.getText().length);
  editor.selection = new vscode.Selection(end, end);
  return editor;
}

/** Run a command on ghost text again and again until the document has changed. */
async function accept(editor: vscode.TextEditor, command: string): Promise<string> {
  const { document } = editor;
  const before = document.getText();
  await until(`${command} changes the document`, async () => {
    await vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
    await new Promise((done) => setTimeout(done, 500));
    await vscode.commands.executeCommand(`editor.action.inlineSuggest.${command}`);
    return document.getText() !== before;
  });
  return document.getText().slice(before.length);
}

async function set(name: string, value: unknown): Promise<void> {
  const settings = vscode.workspace.getConfiguration("speclsp");
  await settings.update(name, value, vscode.ConfigurationTarget.Global);
}

const trusted: Record<string, () => Promise<void>> = {
  async "accepting a word and a line is told to the server, accepting all by the item's command"() {
    await untilReady();
    const sample = SAMPLE.replaceAll(BODY, TWO_LINES);
    const before = await statistics();
    const editor = await openWithCursor("words.py", sample + HEAD);
    assert.equal((await accept(editor, "acceptNextWord")).trim(), "message");
    assert.match(await accept(editor, "acceptNextLine"), /\n$/);
    const parts = await until("partial acceptances are counted", async () => {
      const { n_partially_accepted, n_chars_accepted } = await statistics();
      return n_partially_accepted > before.n_partially_accepted
        ? { n_partially_accepted, n_chars_accepted }
        : undefined;
    });
    assert.ok(parts.n_chars_accepted - before.n_chars_accepted >= "message".length);
    const all = await openWithCursor("all.py", sample + HEAD);
    assert.match(await accept(all, "commit"), /^message = /);
    await until("the acceptance is counted", async () => {
      return (await statistics()).n_accepted_items === before.n_accepted_items + 1;
    });
  },

  async "line ends and characters beyond the first plane are counted as the server does"() {
    await untilReady();
    const sample = SAMPLE.replaceAll(BODY, TWO_LINES);
    const text = `# 😀 𝒮\n${sample}${HEAD}`.replaceAll("\n", "\r\n");
    const editor = await openWithCursor("windows.py", text);
    assert.equal(editor.document.eol, vscode.EndOfLine.CRLF);
    const before = await statistics();
    const line = await accept(editor, "acceptNextLine");
    assert.match(line, /\r\n$/);
    await until("the line is counted", async () => {
      const { n_chars_accepted } = await statistics();
      return n_chars_accepted - before.n_chars_accepted === line.length - 1;
    }).catch(async () => {
      const { n_chars_accepted } = await statistics();
      assert.equal(n_chars_accepted - before.n_chars_accepted, line.length - 1, line);
    });
    await editor.document.save();
    assert.doesNotMatch(readFileSync(editor.document.fileName, "utf8"), /[^\r]\n/);
  },

  async "an engine that is ready again is asked at a cursor where an explicit request got nothing"() {
    const { client } = await untilReady();
    await set("minProbability", 1);
    const editor = await openWithCursor("nothing.py", SAMPLE);
    const { active } = editor.selection;
    await editor.edit((builder) => {
      builder.insert(active, HEAD);
    });
    await vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
    await until("an answer is withheld", async () => {
      return (await statistics()).why_nothing.startsWith("not sure");
    });
    assert.ok(!client.isSuggesting(editor));
    await set("minProbability", 0);
    await set("enabled", false);
    await until("the engine is off", () => client.status.state === "off");
    await set("enabled", undefined);
    await until("it suggests without a key", () => {
      return client.status.nWaiting === 0 && client.isSuggesting(editor);
    });
  },

  async "ghost text of another extension stays where ours got nothing in time, or is asked again"() {
    const { client } = await untilReady();
    let nGiven = 0;
    const theirs = vscode.languages.registerInlineCompletionItemProvider(
      { pattern: "**/other.py" },
      {
        async provideInlineCompletionItems(_, at) {
          await new Promise((done) => setTimeout(done, 1000));
          nGiven += 1;
          return [new vscode.InlineCompletionItem("theirs", new vscode.Range(at, at))];
        },
      },
    );
    await set("deadlineMs", 1);
    const editor = await openWithCursor("other.py", SAMPLE + HEAD);
    const typeAndAsk = async (): Promise<void> => {
      await vscode.commands.executeCommand("type", { text: "@" });
      await vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
    };
    const takeTheirs = async (): Promise<void> => {
      await new Promise((done) => setTimeout(done, 1000)); // in which ours might take it away
      await vscode.commands.executeCommand("editor.action.inlineSuggest.commit");
      await until("theirs was there", () => editor.document.getText().endsWith("theirs"));
    };
    await typeAndAsk();
    assert.match((await statistics()).why_nothing, /^too slow/);
    await takeTheirs();
    await typeAndAsk();
    const before = nGiven;
    await set("enabled", false);
    await until("the engine is off", () => client.status.state === "off");
    await set("enabled", undefined);
    await until("both are asked again", () => nGiven > before && client.status.nWaiting === 0);
    await takeTheirs();
    theirs.dispose();
    await set("deadlineMs", 30_000);
  },

  async "settings reach the server at once, and a removed one is gone"() {
    const { client } = await untilReady();
    await set("enabled", false);
    await until("the engine is off", () => client.status.state === "off");
    await set("enabled", undefined);
    await until("the engine is ready", () => client.status.state === "ready");
  },

  async "the keys are free in the editor's own map"() {
    const uri = vscode.Uri.parse("vscode://defaultsettings/keybindings.json");
    const map = (await vscode.workspace.openTextDocument(uri)).getText();
    const found = [...map.matchAll(/"key": "(shift\+alt\+\\\\)"[^}]*?"command": "([^"]+)"/g)];
    assert.deepEqual(
      found.map(([, , command]) => command),
      ["speclsp.toggleEverywhere"],
    );
  },

  async "a language is switched off alone"() {
    const { statusBar } = await untilReady();
    await openWithCursor("language.py", SAMPLE + HEAD);
    await vscode.commands.executeCommand("speclsp.toggleLanguage");
    const languages = vscode.workspace.getConfiguration("speclsp").get("languages");
    assert.deepEqual(languages, { python: { enabled: false } });
    await until("the status bar shows it", () => statusBar.text.startsWith("$(circle-slash)"));
    await vscode.commands.executeCommand("speclsp.toggleLanguage");
    await until("the status bar shows it", () => statusBar.text.startsWith("$(sparkle)"));
    await set("languages", undefined);
  },

  async "a workspace that is switched off and on follows the user's setting again"() {
    const { client } = await untilReady();
    const inWorkspace = (): unknown =>
      vscode.workspace.getConfiguration("speclsp").inspect("enabled")?.workspaceValue;
    await vscode.commands.executeCommand("speclsp.toggleWorkspace");
    assert.equal(inWorkspace(), false);
    await until("the engine is off", () => client.status.state === "off");
    await vscode.commands.executeCommand("speclsp.toggleWorkspace");
    assert.equal(inWorkspace(), undefined);
    await untilReady();
  },

  async "a language is switched in the scope that names it, and other scopes are not copied"() {
    await untilReady();
    await openWithCursor("scopes.py", SAMPLE + HEAD);
    const settings = (): vscode.WorkspaceConfiguration =>
      vscode.workspace.getConfiguration("speclsp");
    const toggle = async (): Promise<unknown[]> => {
      await vscode.commands.executeCommand("speclsp.toggleLanguage");
      const found = settings().inspect("languages");
      return [found?.globalValue, found?.workspaceValue];
    };
    const markdown = { enabled: false };
    const inWorkspace = async (value: unknown): Promise<void> => {
      await settings().update("languages", value, vscode.ConfigurationTarget.Workspace);
    };
    await inWorkspace({ markdown });
    assert.deepEqual(await toggle(), [{ python: { enabled: false } }, { markdown }]);
    await set("languages", undefined);
    await inWorkspace({ markdown, python: { enabled: false } });
    assert.deepEqual(await toggle(), [undefined, { markdown, python: { enabled: true } }]);
    await inWorkspace(undefined);
  },

  async "a server that dies again and again is given up, and a restart begins anew"() {
    const { client } = await untilReady();
    const own = vscode.workspace.getConfiguration("speclsp.server").get<string>("path");
    const dying = join(folder(), "dying");
    writeFileSync(dying, "#!/bin/sh\nexit 1\n", { mode: 0o755 });
    await set("server.path", dying);
    await until(
      "it is given up",
      () => client.status.message === "the server ended again and again",
    );
    await set("server.path", join(folder(), "missing"));
    await until("the wrong path is told", () => client.status.message.includes("no executable"));
    await set("server.path", own);
    await set("server.arguments", "--log-level debug");
    await until("the wrong type is told", () => client.status.message.includes("list of strings"));
    await set("server.arguments", undefined);
    await untilReady();
    assert.equal(serversBelow(process.pid).length, 1);
  },

  async "the private environment is made, and its problems are told in words"() {
    const { client } = await untilReady();
    const settings = vscode.workspace.getConfiguration("speclsp.server");
    const own = settings.get<string>("path", "");
    await set("server.package", join(folder(), "missing.whl"));
    await vscode.commands.executeCommand("notifications.clearAll");
    void vscode.commands.executeCommand("speclsp.makeEnvironment");
    await until("the problem is told", () =>
      /Installing failed|not in the index/.test(client.status.message),
    );
    assert.ok(!existsSync(client.environment));
    assert.equal(client.status.state, "ready");
    assert.equal(serversBelow(process.pid).length, 1);
    // A wheel whose speclsp is the one that is tested with.
    const wheel = join(folder(), "speclsp-0.0.1-py3-none-any.whl");
    execFileSync("python3", ["-c", MAKE_WHEEL, wheel, own]);
    await set("server.package", wheel);
    void vscode.commands.executeCommand("speclsp.makeEnvironment");
    await until(
      "it is installed",
      () => existsSync(join(client.environment, "bin", "speclsp")),
      180_000,
    );
    await set("server.path", "");
    await untilReady();
    const [server] = serversBelow(process.pid);
    assert.ok(server);
    await set("server.path", own);
    await set("server.package", undefined);
    await untilReady();
  },
};

const MAKE_WHEEL = `
import sys, zipfile
wheel, server = sys.argv[1:]
info = "speclsp-0.0.1.dist-info"
with zipfile.ZipFile(wheel, "w") as z:
    z.writestr("speclsp_again.py", f"import os, sys\\ndef main(): os.execv({server!r}, [{server!r}, *sys.argv[1:]])\\n")
    z.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: speclsp\\nVersion: 0.0.1\\n")
    z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    z.writestr(f"{info}/entry_points.txt", "[console_scripts]\\nspeclsp = speclsp_again:main\\n")
    z.writestr(f"{info}/RECORD", "")
`;

const untrusted: Record<string, () => Promise<void>> = {
  async "an untrusted workspace changes neither what is run nor the model"() {
    assert.equal(vscode.workspace.isTrusted, false);
    await untilReady();
    const settings = vscode.workspace.getConfiguration("speclsp");
    const evil = join(folder(), "evil");
    assert.ok(readFileSync(join(folder(), ".vscode", "settings.json"), "utf8").includes(evil));
    assert.notEqual(settings.get("server.path"), evil);
    assert.equal(settings.get("model"), "");
    assert.deepEqual(settings.get("server.arguments"), []);
    // One that may be given is.
    assert.equal(settings.get("maxLines"), 7);
    assert.ok(!existsSync(join(folder(), "evil-ran")));
    assert.match((await statistics()).model, /embedded/);
  },
};

export async function run(): Promise<void> {
  const report: string[] = [];
  mkdirSync(join(folder(), ".results"), { recursive: true });
  const tests = vscode.workspace.isTrusted ? trusted : untrusted;
  for (const [name, test] of Object.entries(tests)) {
    const began = Date.now();
    try {
      await test();
      report.push(`ok ${name} (${String(Date.now() - began)} ms)`);
    } catch (error) {
      const said = error instanceof Error ? (error.stack ?? error.message) : String(error);
      report.push(`not ok ${name}\n${said}`);
    }
  }
  writeFileSync(join(folder(), ".results", "report.txt"), report.join("\n"));
}
