import * as vscode from "vscode";

type Languages = Record<string, Record<string, unknown>>;

function settings(): vscode.WorkspaceConfiguration {
  return vscode.workspace.getConfiguration("speclsp", vscode.window.activeTextEditor?.document.uri);
}

/** Switch suggestions everywhere: the user's setting. */
export async function toggleEverywhere(): Promise<void> {
  const enabled = settings().inspect<boolean>("enabled")?.globalValue ?? true;
  await settings().update("enabled", !enabled, vscode.ConfigurationTarget.Global);
}

/** Switch suggestions in the open workspace, whatever the user's setting is. */
export async function toggleWorkspace(): Promise<void> {
  if (vscode.workspace.workspaceFolders === undefined) {
    void vscode.window.showInformationMessage("speclsp: no folder is open.");
    return;
  }
  const enabled = settings().get("enabled", true);
  await settings().update("enabled", !enabled, vscode.ConfigurationTarget.Workspace);
}

/** Switch suggestions for the language of the editor in front. */
export async function toggleLanguage(): Promise<void> {
  const language = vscode.window.activeTextEditor?.document.languageId;
  if (language === undefined) {
    void vscode.window.showInformationMessage("speclsp: no file is open.");
    return;
  }
  const languages: Languages = { ...settings().get<Languages>("languages", {}) };
  const enabled = languages[language]?.["enabled"] ?? settings().get("enabled", true);
  languages[language] = { ...languages[language], enabled: enabled !== true };
  await settings().update("languages", languages, vscode.ConfigurationTarget.Global);
}

/** Whether suggestions come in a document, by the settings. */
export function suggestsIn(document: vscode.TextDocument): boolean {
  const here = vscode.workspace.getConfiguration("speclsp", document.uri);
  const languages = here.get<Languages>("languages", {});
  const enabled = languages[document.languageId]?.["enabled"] ?? here.get("enabled", true);
  return enabled === true;
}
