import * as vscode from "vscode";

type Languages = Record<string, Record<string, unknown>>;

function settings(): vscode.WorkspaceConfiguration {
  return vscode.workspace.getConfiguration("speclsp", vscode.window.activeTextEditor?.document.uri);
}

/** Whether the user's setting, or the one that holds here, has suggestions on. */
export function isOn(where: "everywhere" | "here"): boolean {
  const here = where === "here" ? settings().get<boolean>("enabled") : undefined;
  return here ?? settings().inspect<boolean>("enabled")?.globalValue ?? true;
}

/** Switch suggestions everywhere: the user's setting. */
export async function toggleEverywhere(): Promise<void> {
  const enabled = !isOn("everywhere");
  await settings().update("enabled", enabled, vscode.ConfigurationTarget.Global);
  tellUnlessHere(enabled, "everywhere", "workspace");
}

/**
 * Switch suggestions in the open workspace.
 *
 * Where that is what the user's setting says, the workspace's is removed, and follows it again.
 */
export async function toggleWorkspace(): Promise<void> {
  if (vscode.workspace.workspaceFolders === undefined) {
    void vscode.window.showInformationMessage("speclsp: no folder is open.");
    return;
  }
  const enabled = !isOn("here");
  const everywhere = isOn("everywhere");
  const value = enabled === everywhere ? undefined : enabled;
  await settings().update("enabled", value, vscode.ConfigurationTarget.Workspace);
  tellUnlessHere(enabled, "in the workspace", "folder");
}

/** Say so where the settings of an inner scope keep a switch from having an effect here. */
function tellUnlessHere(enabled: boolean, where: string, scope: string): void {
  if (settings().get("enabled") === enabled) return;
  const words = enabled ? `on ${where} but off` : `off ${where} but on`;
  void vscode.window.showInformationMessage(
    `speclsp: suggestions are ${words} in this ${scope}, whose settings set speclsp.enabled.`,
  );
}

/**
 * Switch suggestions for the active editor's language.
 *
 * VS Code merges `languages` of all scopes.  Only the innermost one that names the language is
 * changed: an outer one would have no effect, and a merged value would copy one scope to another.
 */
export async function toggleLanguage(): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  if (document === undefined) {
    void vscode.window.showInformationMessage("speclsp: no file is open.");
    return;
  }
  const language = document.languageId;
  const set = settings().inspect<Languages>("languages");
  const user = [vscode.ConfigurationTarget.Global, set?.globalValue] as const;
  const [scope, languages] =
    [
      [vscode.ConfigurationTarget.WorkspaceFolder, set?.workspaceFolderValue] as const,
      [vscode.ConfigurationTarget.Workspace, set?.workspaceValue] as const,
    ].find(([, value]) => value?.[language]?.["enabled"] !== undefined) ?? user;
  const changed = { ...languages?.[language], enabled: !suggestsIn(document) };
  await settings().update("languages", { ...languages, [language]: changed }, scope);
}

/** Whether suggestions come in a document, by the settings. */
export function suggestsIn(document: vscode.TextDocument): boolean {
  const here = vscode.workspace.getConfiguration("speclsp", document.uri);
  const languages = here.get<Languages>("languages", {});
  const enabled = languages[document.languageId]?.["enabled"] ?? here.get("enabled", true);
  return enabled === true;
}
