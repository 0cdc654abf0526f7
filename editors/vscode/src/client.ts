import { homedir } from "node:os";
import { join } from "node:path";
import * as vscode from "vscode";
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  RevealOutputChannelOn,
  State,
  type LanguageClientOptions,
  type Middleware,
} from "vscode-languageclient/node";
import { BackOff } from "./backOff.js";
import { Downloads } from "./downloads.js";
import { makeEnvironment } from "./environment.js";
import { PartialAcceptances, type Place } from "./partialAcceptance.js";
import { EnvironmentError } from "./python.js";
import { executableIn, thisMachine } from "./machine.js";
import { checkedArguments, findServer, ServerCommandError, type Found } from "./serverCommand.js";
import type { NextEdit } from "./shownEdit.js";
import { minutesSnoozed } from "./stateWords.js";
import type { SessionStats } from "./statistics.js";
import { suggestsIn } from "./toggle.js";
import { chooseExecutable } from "./ownFiles.js";
import { openServerSettings } from "./openSettings.js";
import { findWheel, isOlder, type Wheel } from "./wheel.js";

/** States that the client sets, in which no server runs; the server reports the others. */
const WITHOUT_SERVER = ["missing", "installing", "stopped", "starting"] as const;

export type EngineState =
  (typeof WITHOUT_SERVER)[number] | "loading" | "ready" | "unloaded" | "off" | "failed";

/** The model as `$/speclsp/status` describes it. */
export interface LoadedModel {
  title: string;
  layers: Record<string, number>;
  is_trial: boolean;
  shortfall: string;
}

export interface Status {
  state: EngineState;
  message: string;
  model: LoadedModel | undefined;
  /** When the snooze ends, in milliseconds since 1970; undefined where there is none. */
  snoozedUntil: number | undefined;
  /** Requests that have not been answered. */
  nWaiting: number;
}

/** How the progress tokens of downloads begin. */
const DOWNLOAD = "speclsp/download/";

interface WireStatus {
  state: EngineState;
  message: string;
  model?: LoadedModel;
  snoozed_until?: number;
  /** Whether the latest request, which got nothing in time, gets further where it is made again. */
  ask_again?: boolean;
}

/** Members of the status while no server runs. */
const NOTHING_RUNS = { model: undefined, snoozedUntil: undefined, nWaiting: 0 };

const STOP_WITHIN_MS = 5000;
/** The context key of keybindings and commands that need a server. */
const RUNNING = "speclsp.running";
/** The context key of the walkthrough's step: a model other than the trial model was loaded. */
const HAS_MODEL = "speclsp.hasModel";
/** The context key of the walkthrough's step: something of a suggestion was accepted. */
const HAS_ACCEPTED = "speclsp.hasAccepted";
/** The server's command that reports an accepted suggestion. */
const ACCEPTED = "speclsp.accepted";
/** Key of the flag that the user chose "Don't Ask Again" when the installation was offered. */
const NOT_ASKED = "installingIsNotOffered";
/** Settings of the extension that the server does not know. */
const OWN_SECTIONS = ["server", "trace", "nextEdits"];

/** Finds the language server, runs it, and restarts it when it dies. */
export class Client implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  /** Fires when the status changes or an answer arrives. */
  readonly onDidChange = this.changed.event;
  private readonly suggested = new vscode.EventEmitter<void>();
  /** Fires when the editor gets a suggestion to show. */
  readonly onDidSuggest = this.suggested.event;
  private readonly accepted = new vscode.EventEmitter<void>();
  /** Fires when a suggestion was accepted, or a part of one. */
  readonly onDidAccept = this.accepted.event;
  /** The document, version and cursor of the latest suggestion. */
  private suggestedAt = "";
  /** The document and its version after the latest key. */
  private typedIn = "";
  /** Whether a request is the extension's own, which the server takes as an automatic one. */
  private isAskingAtRest = false;
  /** How often the server wanted its latest request again. */
  private nWantedAgain = 0;
  private current: Status = {
    state: "stopped",
    message: "",
    model: undefined,
    snoozedUntil: undefined,
    nWaiting: 0,
  };
  private client: LanguageClient | undefined;
  /** The client's server, and where it was found. */
  private found: Found | undefined;
  private readonly backOff = new BackOff();
  private readonly downloads = new Downloads();
  private readonly partial = new PartialAcceptances<vscode.InlineCompletionItem>();
  private readonly wheel: Promise<Wheel | undefined>;
  private readonly listeners: vscode.Disposable[];
  private restarting: NodeJS.Timeout | undefined;
  /** Whether an error message about the server waits for an answer. */
  private hasOpenProblem = false;
  /** Resolves when the client has started or has failed to start; never rejects. */
  private started: Promise<void> = Promise.resolve();
  /** Serialises stops, starts and installations. */
  private turn: Promise<void> = Promise.resolve();

  constructor(
    private readonly context: vscode.ExtensionContext,
    readonly log: vscode.LogOutputChannel,
  ) {
    this.wheel = findWheel(join(context.extensionPath, "server"));
    this.listeners = [
      vscode.workspace.onDidChangeTextDocument((event) => {
        this.documentChanged(event);
      }),
      vscode.workspace.onDidChangeConfiguration((event) => {
        const changed = ["path", "arguments"].some((name) =>
          event.affectsConfiguration(`speclsp.server.${name}`),
        );
        if (changed) void this.restart();
      }),
      vscode.workspace.onDidGrantWorkspaceTrust(() => void this.restart()),
    ];
  }

  get status(): Status {
    return this.current;
  }

  /** Whether there is a server that has answered. */
  get isRunning(): boolean {
    return !(WITHOUT_SERVER as readonly EngineState[]).includes(this.current.state);
  }

  private update(change: Partial<Status>): void {
    const { state } = this.current;
    this.current = { ...this.current, ...change };
    if (state !== this.current.state) {
      void vscode.commands.executeCommand("setContext", RUNNING, this.isRunning);
      if (this.isRunning && this.hasOpenProblem) {
        // A message cannot be closed; this one is answered by what the user has changed.
        this.hasOpenProblem = false;
        void vscode.commands.executeCommand("notifications.hideToasts");
      }
      // What stands at the cursor is the former engine's.
      if (this.current.state === "loading") this.suggestedAt = "";
      if (this.current.state === "ready") void this.askWhereTyped();
    }
    const hasModel = this.current.model !== undefined && !this.current.model.is_trial;
    if (hasModel) void vscode.commands.executeCommand("setContext", HAS_MODEL, true);
    this.changed.fire();
  }

  /** The server's executable; undefined before one was found. */
  get executable(): string | undefined {
    return this.found?.command;
  }

  /** The folder of the private environment. */
  get environment(): string {
    return join(this.context.globalStorageUri.fsPath, "environment");
  }

  /** Start the server, or offer to install one. */
  private async start(): Promise<void> {
    const settings = vscode.workspace.getConfiguration("speclsp.server");
    let found, further;
    try {
      found = await findServer(settings.get<unknown>("path") ?? "", this.environment);
      further = checkedArguments(settings.get<unknown>("arguments") ?? []);
    } catch (error) {
      if (!(error instanceof ServerCommandError)) throw error;
      this.update({ state: "stopped", message: error.message });
      void this.tellProblem(error.message, "Open the Setting");
      return;
    }
    if (found === undefined) {
      this.update({ state: "missing", message: "" });
      if (!this.context.globalState.get<boolean>(NOT_ASKED)) void this.offerEnvironment();
      return;
    }
    this.found = found;
    this.log.info(`starting ${found.command} (${found.origin})`);
    this.update({ state: "starting", message: "" });
    const client = new LanguageClient(
      "speclsp",
      "speclsp",
      {
        command: found.command,
        args: ["serve", "--stdio", ...further],
        // A file in the open folder must not change which code runs.
        options: { cwd: homedir() },
      },
      this.options(),
    );
    this.client = client;
    client.onDidChangeState(({ newState }) => {
      if (client === this.client && newState === State.Stopped) this.died();
    });
    client.onNotification("$/speclsp/status", (said: WireStatus) => {
      if (client !== this.client) return;
      const { state, message, model, snoozed_until: seconds, ask_again: asksAgain } = said;
      this.update({
        state,
        message,
        model,
        snoozedUntil: seconds === undefined ? undefined : 1000 * seconds,
      });
      if (asksAgain) this.nWantedAgain += 1;
    });
    this.started = client.start().then(
      () => {
        if (client === this.client) void this.checkVersion(client, found);
        if (client === this.client && this.current.state === "starting") {
          this.update({ state: "loading" });
        }
      },
      (error: unknown) => {
        this.log.error(`the server did not start: ${String(error)}`);
        if (client === this.client) this.died();
      },
    );
  }

  /** Offer an update where the server is older than the one that this extension carries. */
  private async checkVersion(client: LanguageClient, { command, origin }: Found): Promise<void> {
    const wheel = await this.wheel;
    const version = client.initializeResult?.serverInfo?.version;
    if (wheel === undefined || version === undefined || !isOlder(version, wheel.version)) return;
    const remembered = `updateIsOffered ${command} ${wheel.version}`;
    if (this.context.globalState.get<boolean>(remembered)) return;
    await this.context.globalState.update(remembered, true);
    const words = `speclsp: the server ${version} is older than this extension's ${wheel.version}.`;
    if (origin !== "environment") {
      void vscode.window.showWarningMessage(`${words} Update ${command}.`);
      return;
    }
    const choice = await vscode.window.showInformationMessage(words, "Update", "Not Now");
    if (choice === "Update") await this.makeEnvironment();
  }

  private options(): LanguageClientOptions {
    return {
      documentSelector: [
        { scheme: "file" },
        { scheme: "untitled" },
        { scheme: "vscode-notebook-cell" },
      ],
      // VS Code takes settings of the scope "machine" from the user alone.
      initializationOptions: {
        machineSettings: true,
        explainsNextEdits: true,
        opensNextEdits: true,
        // The server reads it before it can ask for settings.
        completionItems: vscode.workspace.getConfiguration("speclsp").get("completionItems"),
      },
      outputChannel: this.log,
      // The status bar shows problems; the log does not open by itself.
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      middleware: this.middleware(),
      initializationFailedHandler: (error) => {
        this.log.error(String(error));
        return false;
      },
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        // `died` restarts it, after a pause that grows.
        closed: () => ({ action: CloseAction.DoNotRestart, handled: true }),
      },
    };
  }

  /** Return the settings that are set: a default of the extension must not override the server's. */
  settingsFor(scope: vscode.Uri | undefined): Record<string, unknown> {
    const configuration = vscode.workspace.getConfiguration("speclsp", scope);
    const given: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(configuration)) {
      if (OWN_SECTIONS.includes(name) || typeof value === "function") continue;
      const where = configuration.inspect(name);
      if (
        where?.globalValue !== undefined ||
        where?.workspaceValue !== undefined ||
        where?.workspaceFolderValue !== undefined
      ) {
        given[name] = value;
      }
    }
    return given;
  }

  private middleware(): Middleware {
    return {
      provideInlineCompletionItems: async (document, position, context, token, next) => {
        this.update({ nWaiting: this.current.nWaiting + 1 });
        const triggerKind = this.isAskingAtRest
          ? vscode.InlineCompletionTriggerKind.Automatic
          : context.triggerKind;
        try {
          // Repeated here: another request at the same place would get the editor's former answer.
          for (;;) {
            const before = this.nWantedAgain;
            const answer = await next(document, position, { ...context, triggerKind }, token);
            const items = Array.isArray(answer) ? answer : (answer?.items ?? []);
            if (token.isCancellationRequested) return answer;
            if (items.length > 0) this.answered(document, position, items);
            else if (this.nWantedAgain > before) continue;
            return answer;
          }
        } finally {
          this.update({ nWaiting: Math.max(0, this.current.nWaiting - 1) });
        }
      },
      executeCommand: (command, args, next) => {
        if (command === ACCEPTED) this.noteAcceptance();
        return next(command, args) as unknown;
      },
      handleWorkDoneProgress: (token, progress, next) => {
        const isDownload = String(token).startsWith(DOWNLOAD);
        // The end frees the token, which the next download of the same model has again.
        if (!isDownload || progress.kind === "end") next(token, progress);
        if (!isDownload) return;
        const client = this.client;
        this.downloads.take(String(token), progress, () => {
          if (client?.state !== State.Running) return;
          void client.sendNotification("window/workDoneProgress/cancel", { token });
        });
      },
      workspace: {
        // Sent without the settings: the server pulls those that it needs.
        didChangeConfiguration: async () => {
          await this.client?.sendNotification("workspace/didChangeConfiguration", {
            settings: null,
          });
        },
        configuration: async (params, token, next) => {
          const answer: unknown = await next(params, token);
          if (!Array.isArray(answer)) return [];
          return answer.map((value: unknown, idx) => {
            const item = params.items[idx];
            if (item?.section !== "speclsp") return value;
            return this.settingsFor(item.scopeUri ? vscode.Uri.parse(item.scopeUri) : undefined);
          });
        },
      },
    };
  }

  private answered(
    document: vscode.TextDocument,
    position: vscode.Position,
    items: vscode.InlineCompletionItem[],
  ): void {
    this.suggestedAt = placeOf(document, position);
    this.suggested.fire();
    this.partial.give(
      document.uri.toString(),
      items.map((item) => ({
        start: item.range?.start ?? position,
        cursor: position,
        text: typeof item.insertText === "string" ? item.insertText : item.insertText.value,
        item,
      })),
    );
  }

  /**
   * Ask at a cursor that rests where the user typed while nothing, or another model, answered.
   *
   * The editor itself asks again only at the next key, and where it has asked already only
   * explicitly; where that was explicit, too, only if there is another provider to ask.
   */
  private async askWhereTyped(): Promise<void> {
    const typedIn = this.typedIn;
    await this.untilAnswered();
    const editor = vscode.window.activeTextEditor;
    if (editor === undefined || versionOf(editor.document) !== typedIn) return;
    if (typedIn !== this.typedIn) return;
    if (!suggestsIn(editor.document) || this.isSuggesting(editor)) return;
    if (minutesSnoozed(this.current) > 0) return;
    const provider = vscode.languages.registerInlineCompletionItemProvider(
      { pattern: "**" },
      { provideInlineCompletionItems: () => [] },
    );
    this.isAskingAtRest = true;
    try {
      // The former model's text would stay, whatever this one answers.
      await vscode.commands.executeCommand("editor.action.inlineSuggest.hide");
      await vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
    } finally {
      this.isAskingAtRest = false;
      provider.dispose();
    }
  }

  private documentChanged(event: vscode.TextDocumentChangeEvent): void {
    const isUsers = event.document === vscode.window.activeTextEditor?.document;
    if (isUsers && event.contentChanges.length > 0) this.typedIn = versionOf(event.document);
    const changes = event.contentChanges.map((change) => ({
      start: plain(change.range.start),
      end: plain(change.range.end),
      text: change.text,
    }));
    const accepted = this.partial.changed(event.document.uri.toString(), changes);
    if (accepted === undefined || this.client?.state !== State.Running) return;
    this.noteAcceptance();
    const { item, acceptedLength } = accepted;
    const text = typeof item.insertText === "string" ? item.insertText : item.insertText.value;
    void this.client.sendNotification("textDocument/didPartiallyAcceptCompletion", {
      item: {
        insertText: text,
        command: item.command && {
          title: item.command.title,
          command: item.command.command,
          arguments: item.command.arguments as unknown[],
        },
      },
      acceptedLength,
    });
  }

  private died(): void {
    const client = this.client;
    this.client = undefined;
    void client?.dispose().catch(() => undefined);
    this.partial.forget();
    this.downloads.endAll();
    const wait = this.backOff.died(Date.now());
    if (wait === undefined) {
      const message = "the server ended again and again";
      this.update({ state: "stopped", message, ...NOTHING_RUNS });
      void this.tellProblem(message, "Restart");
      return;
    }
    const message = "the server ended; it is started again";
    this.log.warn(message);
    this.update({ state: "stopped", message, ...NOTHING_RUNS });
    this.restarting = setTimeout(() => void this.inTurn(() => this.start()), wait);
  }

  private async tellProblem(
    message: string,
    remedy?: "Restart" | "Open the Setting",
  ): Promise<void> {
    this.log.error(message);
    this.hasOpenProblem = true;
    const choice = await vscode.window.showErrorMessage(
      `speclsp: ${message}`,
      ...(remedy === undefined ? [] : [remedy]),
      "Show the Log",
    );
    this.hasOpenProblem = false;
    if (choice === "Show the Log") this.log.show();
    if (choice === "Restart") await this.restart();
    if (choice === "Open the Setting") await openServerSettings();
  }

  async restart(): Promise<void> {
    return this.inTurn(async () => {
      await this.stop();
      this.backOff.reset();
      await this.start();
    });
  }

  private inTurn(work: () => Promise<void>): Promise<void> {
    this.turn = this.turn.then(work, work);
    return this.turn;
  }

  private async stop(): Promise<void> {
    clearTimeout(this.restarting);
    const client = this.client;
    this.client = undefined;
    if (client === undefined) return;
    // A client that is still starting cannot be stopped, and would register its commands later.
    const tooLong = setTimeout(() => client.serverProcess?.kill(), STOP_WITHIN_MS);
    await this.started;
    clearTimeout(tooLong);
    try {
      await client.dispose(STOP_WITHIN_MS); // it stops the server first
    } catch (error) {
      this.log.warn(`the server did not stop cleanly: ${String(error)}`);
    }
    this.downloads.endAll();
    this.update({ state: "stopped", message: "", ...NOTHING_RUNS });
  }

  private async offerEnvironment(): Promise<void> {
    if (!vscode.workspace.isTrusted) {
      await this.offerTrust();
      return;
    }
    const choice = await vscode.window.showInformationMessage(
      "speclsp: the server is not installed. It can go into a private Python environment; " +
        "llama.cpp is compiled only where no prebuilt one fits this machine.",
      "Install",
      "Choose an Executable",
      "Don't Ask Again",
    );
    // The offer stays in the list of notifications while the walkthrough installs.
    if (choice === "Install" && this.current.state === "missing") await this.makeEnvironment();
    if (choice === "Choose an Executable") await chooseExecutable();
    if (choice === "Don't Ask Again") await this.context.globalState.update(NOT_ASKED, true);
  }

  private async offerTrust(): Promise<void> {
    const choice = await vscode.window.showWarningMessage(
      "speclsp: the server is not installed, and Restricted Mode installs nothing. " +
        "Trust this workspace to install it.",
      "Manage Trust",
    );
    if (choice !== undefined) await vscode.commands.executeCommand("workbench.trust.manage");
  }

  /** Install the server into the private environment, and start it. */
  async makeEnvironment(): Promise<void> {
    if (!vscode.workspace.isTrusted) {
      await this.offerTrust();
      return;
    }
    try {
      await this.inTurn(async () => {
        if (this.found?.origin === "environment") await this.stop();
        if (this.client === undefined) this.update({ state: "installing", message: "" });
        await vscode.commands.executeCommand("notifications.hideToasts"); // such as the offer
        await makeEnvironment(this.environment, await this.wheel, this.log);
      });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (error instanceof EnvironmentError) this.log.error(error.output);
      const isThere = await thisMachine().isExecutable(executableIn(this.environment, "speclsp"));
      const isMissing = !isThere && this.client === undefined;
      this.update(isMissing ? { state: "missing", message } : { message });
      void this.tellProblem(message);
      if (this.client !== undefined || !isThere) return;
    }
    await this.restart();
  }

  /** Say why no server runs, and offer what helps. */
  async tellWhyNotRunning(): Promise<void> {
    const { state, message } = this.current;
    if (state === "missing") {
      await this.offerEnvironment();
      return;
    }
    const waits: Partial<Record<EngineState, string>> = {
      installing: "the server is being installed.",
      starting: "the server is starting.",
    };
    const words = waits[state] ?? `the server is not running${message && `: ${message}`}.`;
    const choice = await vscode.window.showInformationMessage(`speclsp: ${words}`, "Show the Log");
    if (choice !== undefined) this.log.show();
  }

  /** Run a command of the server; undefined if no server runs.  Throws the server's error. */
  async execute<Answer>(command: string, args: unknown[] = []): Promise<Answer | undefined> {
    if (this.client?.state !== State.Running) {
      void this.tellWhyNotRunning();
      return undefined;
    }
    const params = { command, arguments: args };
    return this.client.sendRequest<Answer>("workspace/executeCommand", params);
  }

  /** The session's statistics, or undefined while there is no server. */
  async statistics(): Promise<SessionStats | undefined> {
    if (this.client?.state !== State.Running) return undefined;
    return this.client.sendRequest<SessionStats>("speclsp/statistics", {}).catch(() => undefined);
  }

  // --- next edits --------------------------------------------------------------------------------

  /** Whether a suggestion is asked for, or stands at the cursor as far as is known. */
  isSuggesting({ document, selection }: vscode.TextEditor): boolean {
    return this.current.nWaiting > 0 || this.suggestedAt === placeOf(document, selection.active);
  }

  /** Wait until no request for suggestions is open. */
  async untilAnswered(): Promise<void> {
    while (this.current.nWaiting > 0) {
      await new Promise<void>((done) => {
        const listener = this.onDidChange(() => {
          listener.dispose();
          done();
        });
      });
    }
  }

  /** Ask for the next edit around the cursor; undefined where there is none. */
  async nextEdit(
    document: vscode.TextDocument,
    position: vscode.Position,
    token: vscode.CancellationToken,
  ): Promise<NextEdit | undefined> {
    const { client } = this;
    if (client?.state !== State.Running) return undefined;
    const converter = client.code2ProtocolConverter;
    const textDocument = converter.asVersionedTextDocumentIdentifier(document);
    const params = { textDocument, position: converter.asPosition(position) };
    const answer = await client
      .sendRequest<{ edits: NextEdit[] }>("textDocument/copilotInlineEdit", params, token)
      .catch(() => undefined); // cancelled, or the server ended
    return answer?.edits[0];
  }

  /** Tell the server that an edit is on screen. */
  didShowEdit(id: string): void {
    if (this.client?.state !== State.Running) return;
    const command = { title: "", command: "speclsp.acceptedEdit", arguments: [id] };
    void this.client.sendNotification("textDocument/didShowInlineEdit", { item: { command } });
  }

  /** Tell the server what became of an edit. */
  async tellEdit(id: string, command: string): Promise<void> {
    if (this.client?.state !== State.Running) return;
    const params = { command, arguments: [id] };
    await this.client.sendRequest("workspace/executeCommand", params).catch(() => undefined);
  }

  private noteAcceptance(): void {
    void vscode.commands.executeCommand("setContext", HAS_ACCEPTED, true);
    this.suggestedAt = "";
    this.accepted.fire();
  }

  dispose(): void {
    for (const listener of this.listeners) listener.dispose();
    this.changed.dispose();
    this.suggested.dispose();
    this.accepted.dispose();
    void this.stop();
  }
}

function versionOf({ uri, version }: vscode.TextDocument): string {
  return [uri, version].join(" ");
}

function placeOf({ uri, version }: vscode.TextDocument, at: vscode.Position): string {
  return [uri, version, at.line, at.character].join(" ");
}

function plain(position: vscode.Position): Place {
  return { line: position.line, character: position.character };
}
