import * as vscode from "vscode";
import type { Client } from "./client.js";
import { run } from "./serverCommand.js";

/** Run the server's own check of its installation, and show what it found. */
export async function checkInstallation(client: Client): Promise<void> {
  const command = client.executable;
  if (command === undefined) {
    await client.tellWhyNotRunning();
    return;
  }
  const model = vscode.workspace.getConfiguration("speclsp").get<string>("model", "");
  const args = ["doctor", ...(model === "" ? [] : ["--model", model])];
  const { output } = await vscode.window.withProgress(
    {
      location: vscode.ProgressLocation.Notification,
      title: "speclsp: checking the installation",
      cancellable: true,
    },
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
