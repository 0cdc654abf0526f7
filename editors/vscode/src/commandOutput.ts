import * as vscode from "vscode";
import { run } from "./serverCommand.js";

/** Run the server's command line, which can be cancelled, and show what it printed. */
export async function showOutput(command: string, args: string[], title: string): Promise<void> {
  const { output } = await vscode.window.withProgress(
    { location: vscode.ProgressLocation.Notification, title, cancellable: true },
    (_, token) => {
      const stop = new AbortController();
      token.onCancellationRequested(() => {
        stop.abort();
      });
      return run(command, args, stop.signal);
    },
  );
  const content = `${command} ${args.join(" ")}\n\n${output}`;
  const document = await vscode.workspace.openTextDocument({ language: "plaintext", content });
  await vscode.window.showTextDocument(document);
}
