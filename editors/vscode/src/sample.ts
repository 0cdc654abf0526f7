import * as vscode from "vscode";
import type { Client } from "./client.js";
import { suggestsIn } from "./toggle.js";

/** Python whose last function goes on as the ones above it do: any model completes it. */
export const SAMPLE = `# Grey text behind the cursor is a suggestion: Tab accepts it, Esc dismisses it.


def greet_customer(name: str) -> str:
    greeting = f"Hello, {name}, and welcome to the shop!"
    return greeting


def greet_supplier(name: str) -> str:
    greeting = f"Hello, {name}, and welcome to the shop!"
    return greeting


def greet_visitor(name: str) -> str:
    greeting = f"Hello, {name}, and welcome to the shop!"
    return greeting


def greet_guest(name: str) -> str:
    `;

/** Open the sample, with the cursor at its end, and ask for a suggestion once a model is there. */
export async function openSample(client: Client): Promise<void> {
  const document = await vscode.workspace.openTextDocument(newUri());
  const editor = await vscode.window.showTextDocument(document);
  await vscode.languages.setTextDocumentLanguage(document, "python");
  await editor.edit((builder) => {
    builder.insert(new vscode.Position(0, 0), SAMPLE);
  });
  const sample = document.getText(); // with the document's line ends
  const end = document.positionAt(sample.length);
  editor.selection = new vscode.Selection(end, end);
  const ask = (): void => {
    // Who has begun to type gets suggestions by that.
    if (vscode.window.activeTextEditor !== editor || document.getText() !== sample) return;
    void vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
  };
  const canSuggest = (): boolean =>
    suggestsIn(document) && ["ready", "unloaded"].includes(client.status.state);
  if (canSuggest()) {
    ask();
    return;
  }
  if (client.isRunning && !suggestsIn(document)) void offerSwitch();
  if (!client.isRunning && client.status.state !== "starting") void client.tellWhyNotRunning();
  const waiting = client.onDidChange(() => {
    if (!canSuggest()) return;
    waiting.dispose();
    ask();
  });
}

/** A name for the tab, which would be titled by the text's first line. */
function newUri(): vscode.Uri {
  const taken = vscode.workspace.textDocuments.map(({ uri }) => uri.toString());
  for (let n = 1; ; n++) {
    const path = n === 1 ? "try-speclsp.py" : `try-speclsp-${String(n)}.py`;
    const uri = vscode.Uri.from({ scheme: "untitled", path });
    if (!taken.includes(uri.toString())) return uri;
  }
}

/** Say that the settings keep suggestions from coming, and lead to the switches. */
async function offerSwitch(): Promise<void> {
  const choice = await vscode.window.showInformationMessage(
    "speclsp: your settings switch suggestions off for this file.",
    "Open the Menu",
  );
  if (choice !== undefined) await vscode.commands.executeCommand("speclsp.menu");
}
