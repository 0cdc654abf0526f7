import * as vscode from "vscode";
import type { Client } from "./client.js";
import { showOutput } from "./commandOutput.js";
import { asOptions } from "./serverCommand.js";

/** Show the suggestion at the cursor of a file as it is saved, or why there is none, and its prompt. */
export async function explain(client: Client): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  const command = client.executable;
  if (command === undefined) {
    await client.tellWhyNotRunning();
    return;
  }
  if (editor?.document.uri.scheme !== "file") {
    void vscode.window.showInformationMessage(
      "speclsp explains suggestions in files: open one, and put the cursor where none came.",
    );
    return;
  }
  const { document, selection } = editor;
  if (document.isDirty && !(await document.save())) return;
  const before = document.lineAt(selection.active.line).text.slice(0, selection.active.character);
  // The command line counts characters, the editor UTF-16 units.
  const column = Array.from(before).length + 1;
  const place = `${document.uri.fsPath}:${String(selection.active.line + 1)}:${String(column)}`;
  const folder = vscode.workspace.getWorkspaceFolder(document.uri);
  const args = [
    "explain",
    place,
    ...(folder === undefined ? [] : ["--project", folder.uri.fsPath]),
    ...asOptions(client.settingsFor(document.uri)),
  ];
  await showOutput(command, args, "speclsp: explaining the suggestion; the model is loaded for it");
}
