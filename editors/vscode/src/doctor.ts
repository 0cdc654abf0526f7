import * as vscode from "vscode";
import type { Client } from "./client.js";
import { showOutput } from "./commandOutput.js";

/** Run the server's own check of its installation, and show what it found. */
export async function checkInstallation(client: Client): Promise<void> {
  const command = client.executable;
  if (command === undefined) {
    await client.tellWhyNotRunning();
    return;
  }
  const model = vscode.workspace.getConfiguration("speclsp").get<string>("model", "");
  const args = ["doctor", ...(model === "" ? [] : ["--model", model])];
  await showOutput(command, args, "speclsp: checking the installation");
}
