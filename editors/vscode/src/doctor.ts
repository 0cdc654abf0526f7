import type { Client } from "./client.js";
import { showOutput } from "./commandOutput.js";
import { asOptions } from "./serverCommand.js";

/** Run the server's check of its installation with the user's settings, and show what it found. */
export async function checkInstallation(client: Client): Promise<void> {
  const command = client.executable;
  if (command === undefined) {
    await client.tellWhyNotRunning();
    return;
  }
  const args = ["doctor", ...asOptions(client.settingsFor(undefined))];
  await showOutput(command, args, "speclsp: checking the installation");
}
