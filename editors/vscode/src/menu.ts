import * as vscode from "vscode";
import type { Client } from "./client.js";
import { languageName, type ContributedLanguage } from "./languageName.js";
import { minutesSnoozed } from "./stateWords.js";
import { figures, milliseconds, type SessionStats } from "./statistics.js";
import { isOn, suggestsIn } from "./toggle.js";

/** A row of the status bar item's menu, and the command that it runs. */
export interface MenuItem extends vscode.QuickPickItem {
  command?: string;
  args?: unknown[];
}

function nameOfLanguage(id: string): string {
  const languages = vscode.extensions.all.flatMap(({ packageJSON }) => {
    const { contributes } = packageJSON as { contributes?: { languages?: ContributedLanguage[] } };
    const found = contributes?.languages;
    return Array.isArray(found) ? found : [];
  });
  return languageName(id, languages);
}

/** The rows of the menu: each tells what is now, and what it will do. */
export function menuItems(client: Client, stats: SessionStats | undefined): MenuItem[] {
  const separator = { label: "", kind: vscode.QuickPickItemKind.Separator };
  const { state, model } = client.status;
  const { isRunning } = client;
  const where = (condition: boolean, ...items: MenuItem[]): MenuItem[] => (condition ? items : []);
  const minutes = minutesSnoozed(client.status);
  const document = vscode.window.activeTextEditor?.document;
  const measured = stats && figures(stats);
  const toggle = (on: boolean, place: string, command: string): MenuItem => ({
    label: `${on ? "$(check)" : "$(circle-slash)"} Suggestions ${place}: ${on ? "on" : "off"}`,
    description: on ? "switch off" : "switch on",
    command,
  });
  const snooze = { label: "$(bell-slash) Snooze", command: "speclsp.snoozeSuggestions" };
  return [
    ...where(state === "missing" && vscode.workspace.isTrusted, {
      label: "$(cloud-download) Install the server",
      command: "speclsp.makeEnvironment",
    }),
    ...where(state === "missing" && !vscode.workspace.isTrusted, {
      label: "$(shield) Manage the workspace's trust",
      description: "nothing is installed in Restricted Mode",
      command: "workbench.trust.manage",
    }),
    ...where(state === "missing", {
      label: "$(file-binary) Choose an executable",
      description: "a speclsp that is installed already",
      command: "speclsp.chooseExecutable",
    }),
    ...where(state === "missing" || state === "stopped", {
      label: "$(server-process) The server's settings",
      description: "its path and arguments",
      command: "speclsp.openServerSettings",
    }),
    ...where(isRunning && minutes === 0, {
      ...snooze,
      description: "no automatic suggestions for a while",
    }),
    ...where(isRunning && minutes > 0, {
      label: "$(bell) End the snooze",
      description: `${String(minutes)} min left`,
      command: snooze.command,
      args: [0],
    }),
    ...where(isRunning, toggle(isOn("everywhere"), "everywhere", "speclsp.toggleEverywhere")),
    ...where(
      isRunning && vscode.workspace.workspaceFolders !== undefined,
      toggle(isOn("here"), "in this workspace", "speclsp.toggleWorkspace"),
    ),
    ...(isRunning && document !== undefined
      ? [
          toggle(
            suggestsIn(document),
            `for ${nameOfLanguage(document.languageId)}`,
            "speclsp.toggleLanguage",
          ),
        ]
      : []),
    separator,
    ...where(
      isRunning,
      {
        label: "$(package) Choose a model",
        description: model?.is_trial ? "one that fits this computer" : (model?.title ?? ""),
        command: "speclsp.chooseModel",
      },
      {
        label: "$(graph-line) Show statistics",
        description:
          measured?.latency === undefined
            ? ""
            : `accepted ${measured.accepted}, latency ${milliseconds(measured.latency.p50)}`,
        command: "speclsp.showPanel",
      },
    ),
    { label: "$(output) Show the log", command: "speclsp.showLog" },
    ...where(isRunning, {
      label: "$(checklist) Check the installation",
      command: "speclsp.checkInstallation",
    }),
    separator,
    ...where(isRunning, {
      label: "$(refresh) Rebuild the project index",
      command: "speclsp.rebuildIndex",
    }),
    ...where(state !== "missing" && state !== "installing", {
      label: "$(debug-restart) Restart the server",
      command: "speclsp.restartServer",
    }),
    { label: "$(settings-gear) Settings", command: "speclsp.openSettings" },
    { label: "$(book) First steps", command: "speclsp.openWalkthrough" },
    { label: "$(question) Help", command: "speclsp.help" },
  ];
}
