import * as vscode from "vscode";
import type { Client, EngineState } from "./client.js";
import { figures } from "./statistics.js";
import { suggestsIn } from "./toggle.js";

const ICONS: Record<EngineState, string> = {
  missing: "$(cloud-download)",
  stopped: "$(error)",
  starting: "$(loading~spin)",
  loading: "$(loading~spin)",
  ready: "$(sparkle)",
  unloaded: "$(sparkle)",
  off: "$(circle-slash)",
  failed: "$(error)",
};

const WORDS: Record<EngineState, string> = {
  missing: "not installed",
  stopped: "stopped",
  starting: "starting",
  loading: "loading the model",
  ready: "ready",
  unloaded: "ready; the model is loaded with the next suggestion",
  off: "switched off",
  failed: "failed",
};

const TOOLTIP_EVERY_MS = 1000;

/** The state in the status bar, with figures in its tooltip. */
export class StatusBar implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem(
    "speclsp",
    vscode.StatusBarAlignment.Right,
    90,
  );
  private readonly listeners: vscode.Disposable[];
  private toolTipAt = 0;

  constructor(private readonly client: Client) {
    this.item.name = "speclsp";
    this.item.command = "speclsp.menu";
    this.listeners = [
      client.onDidChange(() => {
        this.draw();
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

  /** The state as it is shown: off where the open file's settings say so, busy while it works. */
  private state(): { icon: string; words: string; isProblem: boolean } {
    const { state, message, nWaiting } = this.client.status;
    const document = vscode.window.activeTextEditor?.document;
    if (state === "ready" && document !== undefined && !suggestsIn(document)) {
      return { icon: ICONS.off, words: "off for this file", isProblem: false };
    }
    if (state === "ready" && nWaiting > 0) {
      return { icon: "$(sync~spin)", words: "busy", isProblem: false };
    }
    const isProblem = state === "failed" || state === "stopped" || state === "missing";
    const why = message !== "" && isProblem ? `: ${message}` : "";
    return { icon: ICONS[state], words: WORDS[state] + why, isProblem };
  }

  private draw(): void {
    const { icon, words, isProblem } = this.state();
    const { latencies } = this.client.status;
    const latest = latencies[latencies.length - 1];
    const time = latest === undefined ? "" : ` ${latest.toFixed(0)} ms`;
    this.item.text = `${icon} speclsp${isProblem ? "" : time}`;
    this.item.accessibilityInformation = { label: `speclsp: ${words}${time}` };
    this.item.backgroundColor = isProblem
      ? new vscode.ThemeColor("statusBarItem.warningBackground")
      : undefined;
    if (Date.now() - this.toolTipAt > TOOLTIP_EVERY_MS || isProblem) {
      this.toolTipAt = Date.now();
      void this.drawToolTip(words);
    }
  }

  private async drawToolTip(words: string): Promise<void> {
    const text = new vscode.MarkdownString(`**speclsp** ${words}\n\n`, true);
    text.isTrusted = { enabledCommands: ["speclsp.showPanel", "speclsp.showLog"] };
    const stats = await this.client.statistics();
    if (stats !== undefined) {
      const { acceptanceRate, tokensPerPass, promptReuse } = figures(stats);
      const rows: [string, string][] = [
        ["model", stats.model || "none"],
        ["shown, accepted", `${String(stats.n_shown)}, ${perCent(acceptanceRate)}`],
        [
          "median latency",
          stats.latency["total"] ? `${stats.latency["total"].p50.toFixed(0)} ms` : "none yet",
        ],
        ["tokens per pass", tokensPerPass?.toFixed(2) ?? "none yet"],
        ["prompt reused", perCent(promptReuse)],
        [
          "project index",
          `${String(stats.index.n_files)} files${stats.index.building ? ", growing" : ""}`,
        ],
      ];
      text.appendMarkdown("| | |\n|---|---|\n");
      for (const [name, value] of rows) text.appendMarkdown(`| ${name} | ${value} |\n`);
    }
    text.appendMarkdown(
      "\n[Statistics](command:speclsp.showPanel) · [Log](command:speclsp.showLog)",
    );
    this.item.tooltip = text;
  }

  /** What a click on the item offers. */
  async menu(): Promise<void> {
    const commands: [string, string][] = [
      ["$(graph-line) Show statistics", "speclsp.showPanel"],
      ["$(output) Show the log", "speclsp.showLog"],
      ["$(circle-slash) Switch off or on everywhere", "speclsp.toggleEverywhere"],
      ["$(circle-slash) Switch off or on for this language", "speclsp.toggleLanguage"],
      ["$(circle-slash) Switch off or on in this workspace", "speclsp.toggleWorkspace"],
      ["$(refresh) Rebuild the project index", "speclsp.rebuildIndex"],
      ["$(debug-restart) Restart the server", "speclsp.restartServer"],
    ];
    const { state } = this.client.status;
    if (state === "missing")
      commands.unshift(["$(cloud-download) Install the server", "speclsp.makeEnvironment"]);
    const choice = await vscode.window.showQuickPick(
      commands.map(([label, command]) => ({ label, command })),
      { title: `speclsp: ${this.state().words}` },
    );
    if (choice !== undefined) await vscode.commands.executeCommand(choice.command);
  }

  dispose(): void {
    for (const listener of this.listeners) listener.dispose();
    this.item.dispose();
  }
}

function perCent(share: number | undefined): string {
  return share === undefined ? "none yet" : `${(100 * share).toFixed(0)} %`;
}
