import * as vscode from "vscode";
import type { Client, Status } from "./client.js";
import { shownState } from "./stateWords.js";
import { figures, perCent, type SessionStats } from "./statistics.js";

const STATISTICS_EVERY_MS = 1000;
/** With fewer suggestions shown, the acceptance rate is left out. */
const SHOWN_FOR_A_RATE = 5;
/** Shorter requests leave the icon alone: it would flicker at each key. */
const BUSY_AFTER_MS = 250;

/** The state in the status bar, with figures in its tooltip. */
export class StatusBar implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem(
    "speclsp",
    vscode.StatusBarAlignment.Right,
    90,
  );
  private readonly listeners: vscode.Disposable[];
  private stats: SessionStats | undefined;
  private statisticsDue: NodeJS.Timeout | undefined;
  private busyDue: NodeJS.Timeout | undefined;
  private isBusy = false;

  constructor(private readonly client: Client) {
    this.item.name = "speclsp";
    this.item.command = "speclsp.menu";
    this.listeners = [
      client.onDidChange(() => {
        this.noteWork();
        this.draw();
        this.statisticsDue ??= setTimeout(() => void this.fetch(), STATISTICS_EVERY_MS);
      }),
      vscode.window.onDidChangeActiveTextEditor(() => {
        this.draw();
      }),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration("speclsp")) this.draw();
      }),
    ];
    this.draw();
    this.item.show();
  }

  /** The item's text, for tests. */
  get text(): string {
    return this.item.text;
  }

  private noteWork(): void {
    if (this.client.status.nWaiting === 0) {
      clearTimeout(this.busyDue);
      this.busyDue = undefined;
      this.isBusy = false;
    } else {
      this.busyDue ??= setTimeout(() => {
        this.isBusy = true;
        this.draw();
      }, BUSY_AFTER_MS);
    }
  }

  private async fetch(): Promise<void> {
    this.stats = await this.client.statistics();
    this.statisticsDue = undefined;
    this.draw();
  }

  private draw(): void {
    const { icon, words, isProblem } = shownState(this.client.status, this.isBusy);
    const { state, latencies, model } = this.client.status;
    const latest = latencies[latencies.length - 1];
    const accepted =
      this.stats !== undefined && this.stats.n_shown >= SHOWN_FOR_A_RATE
        ? figures(this.stats).acceptanceRate
        : undefined;
    const shown = [
      ...(latest === undefined ? [] : [`${latest.toFixed(0)} ms`]),
      ...(accepted === undefined ? [] : [perCent(accepted)]),
      ...(model?.is_trial ? ["trial model"] : []),
    ];
    const withFigures = !isProblem && state !== "off" && shown.length > 0;
    this.item.text = `${icon} speclsp${withFigures ? ` ${shown.join(" · ")}` : ""}`;
    const spoken = [
      `speclsp: ${words}`,
      ...(latest === undefined ? [] : [`latest suggestion in ${latest.toFixed(0)} milliseconds`]),
      ...(accepted === undefined ? [] : [`${perCent(accepted)} accepted`]),
    ];
    this.item.accessibilityInformation = { label: spoken.join(", "), role: "button" };
    this.item.backgroundColor = isProblem
      ? new vscode.ThemeColor("statusBarItem.warningBackground")
      : undefined;
    this.item.tooltip = toolTip(words, this.client.status, this.stats);
  }

  /** Show the menu that a click on the item opens. */
  async menu(): Promise<void> {
    const { state } = this.client.status;
    const language = vscode.window.activeTextEditor?.document.languageId;
    const separator = { label: "", kind: vscode.QuickPickItemKind.Separator, command: "" };
    const items = [
      ...(state === "missing"
        ? [{ label: "$(cloud-download) Install the server", command: "speclsp.makeEnvironment" }]
        : []),
      { label: "$(package) Choose a model", command: "speclsp.chooseModel" },
      { label: "$(bell-slash) Snooze", command: "speclsp.snoozeSuggestions" },
      separator,
      { label: "$(graph-line) Show statistics", command: "speclsp.showPanel" },
      { label: "$(output) Show the log", command: "speclsp.showLog" },
      separator,
      { label: "$(circle-slash) Switch off or on everywhere", command: "speclsp.toggleEverywhere" },
      ...(language === undefined
        ? []
        : [
            {
              label: `$(circle-slash) Switch off or on for ${language}`,
              command: "speclsp.toggleLanguage",
            },
          ]),
      {
        label: "$(circle-slash) Switch off or on in this workspace",
        command: "speclsp.toggleWorkspace",
      },
      separator,
      { label: "$(refresh) Rebuild the project index", command: "speclsp.rebuildIndex" },
      { label: "$(debug-restart) Restart the server", command: "speclsp.restartServer" },
      { label: "$(settings-gear) Settings", command: "speclsp.openSettings" },
      { label: "$(book) First steps", command: "speclsp.openWalkthrough" },
    ];
    const choice = await vscode.window.showQuickPick(items, {
      title: `speclsp: ${shownState(this.client.status, this.isBusy).words}`,
    });
    if (choice !== undefined) await vscode.commands.executeCommand(choice.command);
  }

  dispose(): void {
    clearTimeout(this.statisticsDue);
    clearTimeout(this.busyDue);
    for (const listener of this.listeners) listener.dispose();
    this.item.dispose();
  }
}

function toolTip(
  words: string,
  { state, message, model }: Status,
  stats: SessionStats | undefined,
): vscode.MarkdownString {
  const text = new vscode.MarkdownString("", true);
  const enabledCommands = ["speclsp.showPanel", "speclsp.showLog", "speclsp.chooseModel"];
  text.isTrusted = { enabledCommands };
  text.appendMarkdown("**speclsp** ").appendText(words);
  if (state === "ready" && message !== "") text.appendMarkdown("\n\n").appendText(message);
  if (model !== undefined && model.shortfall !== "") {
    text.appendMarkdown("\n\n$(warning) ").appendText(model.shortfall);
  }
  if (stats !== undefined) {
    const { acceptanceRate, tokensPerPass, promptReuse } = figures(stats);
    const total = stats.latency["total"];
    const rows: [string, string][] = [
      ["Suggestions shown", stats.n_shown.toLocaleString()],
      ["Accepted", perCent(acceptanceRate)],
      ["Median latency", total ? `${total.p50.toFixed(0)} ms` : "–"],
      ["Tokens per pass", tokensPerPass?.toFixed(2) ?? "–"],
      ["Prompt reused", perCent(promptReuse)],
      [
        "Index",
        `${stats.index.n_files.toLocaleString()} files${stats.index.building ? ", growing" : ""}`,
      ],
    ];
    text.appendMarkdown("\n\n| | |\n|:---|---:|\n");
    for (const [name, value] of rows) text.appendMarkdown(`| ${name} &nbsp; | ${value} |\n`);
  }
  text.appendMarkdown(
    "\n\n[$(graph-line) Statistics](command:speclsp.showPanel) &nbsp; " +
      "[$(output) Log](command:speclsp.showLog) &nbsp; " +
      "[$(package) Choose a Model](command:speclsp.chooseModel)",
  );
  return text;
}
