import * as vscode from "vscode";

/** Show a page of the documents that the extension carries, such as `statistics`. */
export async function openHelp(extension: vscode.Uri, page = "troubleshooting"): Promise<void> {
  const uri = vscode.Uri.joinPath(extension, "dist", "docs", `${page}.md`);
  await vscode.commands.executeCommand("markdown.showPreview", uri);
}
