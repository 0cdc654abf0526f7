import * as vscode from "vscode";

/**
 * Open the settings that a query finds.
 *
 * In a remote window those of the machine, which is most of what names files, are in its own tab
 * alone: the user's tab would say that there are none.
 */
export async function openSettings(query: string): Promise<void> {
  if (vscode.env.remoteName === undefined) {
    await vscode.commands.executeCommand("workbench.action.openSettings", query);
  } else {
    await vscode.commands.executeCommand("workbench.action.openRemoteSettings", { query });
  }
}

/** Show the settings of what is run. */
export async function openServerSettings(): Promise<void> {
  await openSettings("speclsp.server.");
}
