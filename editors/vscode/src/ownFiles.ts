import * as vscode from "vscode";

/** Let the user choose a GGUF file of this machine, and return its path. */
export async function chooseGguf(title: string): Promise<string | undefined> {
  const files = await vscode.window.showOpenDialog({
    title,
    openLabel: "Use It",
    filters: { "GGUF models": ["gguf"] },
  });
  return files?.[0]?.fsPath;
}

/** Let the user choose the server's executable, which is started then. */
export async function chooseExecutable(): Promise<void> {
  const files = await vscode.window.showOpenDialog({
    title: "speclsp: the server's executable",
    openLabel: "Use It",
  });
  const path = files?.[0]?.fsPath;
  if (path === undefined) return;
  const settings = vscode.workspace.getConfiguration("speclsp.server");
  await settings.update("path", path, vscode.ConfigurationTarget.Global);
}
