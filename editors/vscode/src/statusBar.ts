import * as vscode from "vscode";
import type { Client, Status } from "./client.js";
import type { NextEdits } from "./nextEdits.js";
import { minutesSnoozed, modelWords, shownState } from "./stateWords.js";
import { figures, milliseconds, type SessionStats } from "./statistics.js";
import { latestAnswer, statusText } from "./statusText.js";
import { menuItems } from "./menu.js";

const STATISTICS_EVERY_MS = 1000;
/** Shorter requests leave the icon alone: it would flicker at each key. */
const BUSY_AFTER_MS = 250;
/** How often the minutes that are left of a snooze are written. */
const SNOOZE_EVERY_MS = 10_000;

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
  private snoozeDue: NodeJS.Timeout | undefined;
  private isBusy = false;
  /** Of the model that was loaded last. */
  private title: string | undefined;
  /** What is shown: a tooltip that is open closes where the item is set anew. */
  private drawn = "";

  constructor(
    private readonly client: Client,
    private readonly nextEdits: NextEdits,
  ) {
    this.item.name = "speclsp";
    this.item.command = "speclsp.menu";
    this.listeners = [
      client.onDidChange(() => {
        this.noteWork();
        // The next server counts anew, and the times of another model are not this one's.
        const title = client.status.model?.title ?? this.title;
        if (!client.isRunning || title !== this.title) this.stats = undefined;
        this.title = title;
        this.draw();
        this.statisticsDue ??= setTimeout(() => void this.fetch(), STATISTICS_EVERY_MS);
      }),
      nextEdits.onDidChange(() => {
        this.draw();
      }),
      vscode.window.onDidChangeActiveTextEditor(() => {
        this.draw();
      }),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration("speclsp")) this.draw();
      }),
      vscode.workspace.onDidGrantWorkspaceTrust(() => {
        this.draw();
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
    const { status } = this.client;
    const { icon, words, hint, isProblem, isOff } = shownState(status, this.isBusy);
    const minutes = minutesSnoozed(status);
    const situation = {
      state: status.state,
      isOff,
      isProblem,
      minutesSnoozed: minutes,
      isTrial: status.model?.is_trial ?? false,
      hasEdit: this.nextEdits.words !== "",
      stats: this.stats,
    };
    const { ms: latest, whyNothing } = latestAnswer(situation);
    const text = `${icon} speclsp ${statusText(situation)}`.trim();
    const spoken = [
      `speclsp: ${words}`,
      ...(hint === "" ? [] : [hint]),
      ...(whyNothing === undefined ? [] : [`no suggestion: ${whyNothing}`]),
      ...(latest === undefined ? [] : [`latest suggestion in ${latest.toFixed(0)} milliseconds`]),
      ...(this.nextEdits.words === "" ? [] : [this.nextEdits.words]),
    ];
    const tip = toolTip(words, status, this.stats);
    const drawn = [text, ...spoken, isProblem, tip.value].join("\n");
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      this.item.text = text;
      this.item.accessibilityInformation = { label: spoken.join(", "), role: "button" };
      this.item.backgroundColor = isProblem
        ? new vscode.ThemeColor("statusBarItem.warningBackground")
        : undefined;
      this.item.tooltip = tip;
    }
    clearTimeout(this.snoozeDue);
    if (minutes > 0) {
      this.snoozeDue = setTimeout(() => {
        this.draw();
      }, SNOOZE_EVERY_MS);
    }
  }

  /** Show the menu that a click on the item opens. */
  async menu(): Promise<void> {
    const { status } = this.client;
    const { words } = shownState(status, this.isBusy);
    const model = status.model === undefined ? "" : ` · ${modelWords(status.model)}`;
    const choice = await vscode.window.showQuickPick(menuItems(this.client, this.stats), {
      title: `speclsp: ${words}${model}`,
    });
    if (choice?.command !== undefined) {
      await vscode.commands.executeCommand(choice.command, ...(choice.args ?? []));
    }
  }

  dispose(): void {
    clearTimeout(this.statisticsDue);
    clearTimeout(this.busyDue);
    clearTimeout(this.snoozeDue);
    for (const listener of this.listeners) listener.dispose();
    this.item.dispose();
  }
}

const LINKS: Record<string, string> = {
  "speclsp.showPanel": "[$(graph-line) Statistics](command:speclsp.showPanel)",
  "speclsp.showLog": "[$(output) Log](command:speclsp.showLog)",
  "speclsp.chooseModel": "[$(package) Choose a Model](command:speclsp.chooseModel)",
  "speclsp.makeEnvironment": "[$(cloud-download) Install](command:speclsp.makeEnvironment)",
  "speclsp.openServerSettings":
    "[$(settings-gear) Server Settings](command:speclsp.openServerSettings)",
  "workbench.trust.manage": "[$(shield) Manage Trust](command:workbench.trust.manage)",
};

/** The commands that help in a state. */
function remedies({ state }: Status): string[] {
  if (state === "missing") {
    const install = vscode.workspace.isTrusted
      ? "speclsp.makeEnvironment"
      : "workbench.trust.manage";
    return [install, "speclsp.openServerSettings", "speclsp.showLog"];
  }
  if (state === "stopped") return ["speclsp.openServerSettings", "speclsp.showLog"];
  if (state === "installing" || state === "starting") return ["speclsp.showLog"];
  return ["speclsp.showPanel", "speclsp.showLog", "speclsp.chooseModel"];
}

function toolTip(
  words: string,
  status: Status,
  stats: SessionStats | undefined,
): vscode.MarkdownString {
  const { model } = status;
  const text = new vscode.MarkdownString("", true);
  text.isTrusted = { enabledCommands: Object.keys(LINKS) };
  text.appendMarkdown("**speclsp** ").appendText(words);
  if (model !== undefined) text.appendMarkdown("\n\n").appendText(modelWords(model));
  if (model !== undefined && model.shortfall !== "") {
    text.appendMarkdown("\n\n$(warning) ").appendText(model.shortfall);
  }
  if (stats !== undefined) {
    const { accepted, latency } = figures(stats);
    const { n_files: nFiles, building } = stats.index;
    const rows: [string, string][] = [
      ["Accepted of shown", accepted],
      ["Latency, median", milliseconds(latency?.p50)],
      [
        "Index",
        `${nFiles.toLocaleString()} file${nFiles === 1 ? "" : "s"}${building ? ", growing" : ""}`,
      ],
    ];
    text.appendMarkdown("\n\n| | |\n|:---|---:|\n");
    for (const [name, value] of rows) text.appendMarkdown(`| ${name} &nbsp; | ${value} |\n`);
  }
  const links = remedies(status).map((command) => LINKS[command] ?? "");
  text.appendMarkdown(`\n\n${links.join(" &nbsp; ")}`);
  return text;
}
