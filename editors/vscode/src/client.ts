import { join } from "node:path";
import * as vscode from "vscode";
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  State,
  type LanguageClientOptions,
  type Middleware,
} from "vscode-languageclient/node";
import { BackOff } from "./backOff.js";
import { EnvironmentError, makeEnvironment } from "./environment.js";
import { PartialAcceptances, type Place } from "./partialAcceptance.js";
import { findServer } from "./serverCommand.js";
import type { SessionStats } from "./statistics.js";

/** `stopped` and `missing` are the client's; the others are what the server says of its engine. */
export type EngineState =
  "missing" | "stopped" | "starting" | "loading" | "ready" | "unloaded" | "off" | "failed";

export interface Status {
  state: EngineState;
  message: string;
  /** Requests that have not been answered. */
  nWaiting: number;
  /** Milliseconds from asking to the latest answers with text, the newest last. */
  latencies: readonly number[];
}

const MAX_LATENCIES = 200;
/** Settings that are the extension's and mean nothing to the server. */
const OWN_SECTIONS = ["server", "trace"];

/** The language server, found, run and started again when it dies. */
export class Client implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  /** Tells that the status, or an answer, has changed. */
  readonly onDidChange = this.changed.event;
  private current: Status = { state: "stopped", message: "", nWaiting: 0, latencies: [] };
  private client: LanguageClient | undefined;
  private readonly backOff = new BackOff();
  private readonly partial = new PartialAcceptances<vscode.InlineCompletionItem>();
  private readonly listeners: vscode.Disposable[];
  private restarting: NodeJS.Timeout | undefined;
  private stopping = false;

  constructor(
    private readonly context: vscode.ExtensionContext,
    readonly log: vscode.LogOutputChannel,
  ) {
    this.listeners = [
      vscode.workspace.onDidChangeTextDocument((event) => {
        this.documentChanged(event);
      }),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration("speclsp.server")) void this.restart();
      }),
      vscode.workspace.onDidGrantWorkspaceTrust(() => void this.restart()),
    ];
  }

  get status(): Status {
    return this.current;
  }

  private update(change: Partial<Status>): void {
    this.current = { ...this.current, ...change };
    this.changed.fire();
  }

  /** The folder of the private environment. */
  get environment(): string {
    return join(this.context.globalStorageUri.fsPath, "environment");
  }

  /** Start the server, or offer to install one. */
  async start(): Promise<void> {
    this.stopping = false;
    const settings = vscode.workspace.getConfiguration("speclsp.server");
    const found = await findServer(settings.get("path", ""), this.environment);
    if (found === undefined) {
      this.update({ state: "missing", message: "the server is not installed" });
      void this.offerEnvironment();
      return;
    }
    this.log.info(`starting ${found.command} (${found.origin})`);
    this.update({ state: "starting", message: "" });
    const client = new LanguageClient(
      "speclsp",
      "speclsp",
      {
        command: found.command,
        args: ["serve", "--stdio", ...settings.get<string[]>("arguments", [])],
      },
      this.options(),
    );
    this.client = client;
    client.onDidChangeState(({ newState }) => {
      if (client === this.client && newState === State.Stopped) {
        this.update({ state: "stopped", nWaiting: 0 });
      }
    });
    client.onNotification("speclsp/status", (said: { state: EngineState; message: string }) => {
      this.update(said);
    });
    try {
      await client.start();
      this.update({ state: this.current.state === "starting" ? "loading" : this.current.state });
    } catch (error) {
      this.log.error(`the server did not start: ${String(error)}`);
      if (client === this.client) this.died();
    }
  }

  private options(): LanguageClientOptions {
    return {
      documentSelector: [
        { scheme: "file" },
        { scheme: "untitled" },
        { scheme: "vscode-notebook-cell" },
        { scheme: "vscode-remote" },
      ],
      outputChannel: this.log,
      initializationOptions: this.serverSettings(
        vscode.workspace.getConfiguration("speclsp") as unknown as Record<string, unknown>,
      ),
      middleware: this.middleware(),
      initializationFailedHandler: (error) => {
        this.log.error(String(error));
        return false;
      },
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => {
          if (!this.stopping) this.died();
          return { action: CloseAction.DoNotRestart, handled: true };
        },
      },
    };
  }

  /** Only what is set somewhere: a default of the extension must not hide one of the server's. */
  private serverSettings(all: Record<string, unknown>): Record<string, unknown> {
    const configuration = vscode.workspace.getConfiguration("speclsp");
    const given: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(all)) {
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
        const askedAt = performance.now();
        this.update({ nWaiting: this.current.nWaiting + 1 });
        try {
          const answer = await next(document, position, context, token);
          const items = Array.isArray(answer) ? answer : (answer?.items ?? []);
          if (!token.isCancellationRequested && items.length > 0) {
            this.answered(document, position, items, performance.now() - askedAt);
          }
          return answer;
        } finally {
          this.update({ nWaiting: Math.max(0, this.current.nWaiting - 1) });
        }
      },
      workspace: {
        configuration: async (params, token, next) => {
          const answer = await next(params, token);
          if (!Array.isArray(answer)) return answer;
          return answer.map((value: unknown) =>
            typeof value === "object" && value !== null
              ? this.serverSettings(value as Record<string, unknown>)
              : value,
          );
        },
      },
      window: {
        showMessage: (type, message, next) => {
          this.log.info(message);
          next(type, message);
        },
      },
    };
  }

  private answered(
    document: vscode.TextDocument,
    position: vscode.Position,
    items: vscode.InlineCompletionItem[],
    milliseconds: number,
  ): void {
    const latencies = [...this.current.latencies, milliseconds].slice(-MAX_LATENCIES);
    this.update({ latencies });
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

  private documentChanged(event: vscode.TextDocumentChangeEvent): void {
    const changes = event.contentChanges.map((change) => ({
      start: plain(change.range.start),
      end: plain(change.range.end),
      text: change.text,
    }));
    const accepted = this.partial.changed(event.document.uri.toString(), changes);
    if (accepted === undefined || this.client?.state !== State.Running) return;
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
    this.partial.forget();
    const wait = this.backOff.died(Date.now());
    if (wait === undefined) {
      this.update({ state: "stopped", message: "the server ended again and again", nWaiting: 0 });
      void vscode.window
        .showErrorMessage("speclsp: the server ended again and again.", "Show the Log", "Restart")
        .then((choice) => {
          if (choice === "Show the Log") this.log.show();
          if (choice === "Restart") void this.restart();
        });
      return;
    }
    this.update({
      state: "stopped",
      message: "the server ended; it is started again",
      nWaiting: 0,
    });
    this.restarting = setTimeout(() => void this.start(), wait);
  }

  async restart(): Promise<void> {
    await this.stop();
    this.backOff.reset();
    await this.start();
  }

  private async stop(): Promise<void> {
    this.stopping = true;
    clearTimeout(this.restarting);
    const client = this.client;
    this.client = undefined;
    if (client !== undefined && client.state !== State.Stopped) {
      await client.stop().catch((error: unknown) => {
        this.log.warn(`the server did not stop cleanly: ${String(error)}`);
      });
    }
    await client?.dispose().catch(() => undefined);
  }

  private async offerEnvironment(): Promise<void> {
    const install = "Install It";
    const choice = await vscode.window.showWarningMessage(
      "speclsp: the server is not installed. It can go into a private Python environment; " +
        "llama.cpp is compiled for this machine, which takes some minutes.",
      install,
      "Choose an Executable",
    );
    if (choice === install) await this.makeEnvironment();
    if (choice === "Choose an Executable") {
      await vscode.commands.executeCommand("workbench.action.openSettings", "speclsp.server.path");
    }
  }

  /** Install the server into the private environment, and start it. */
  async makeEnvironment(): Promise<void> {
    if (!vscode.workspace.isTrusted) {
      void vscode.window.showWarningMessage("speclsp: trust this workspace before installing.");
      return;
    }
    try {
      await this.stop();
      await makeEnvironment(this.environment, this.log);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (error instanceof EnvironmentError) this.log.error(error.output);
      this.update({ state: "missing", message });
      const choice = await vscode.window.showErrorMessage(`speclsp: ${message}`, "Show the Log");
      if (choice !== undefined) this.log.show();
      return;
    }
    await this.restart();
  }

  async rebuildIndex(): Promise<void> {
    await this.execute("speclsp.reindex");
  }

  private async execute(command: string, args: unknown[] = []): Promise<unknown> {
    if (this.client?.state !== State.Running) {
      void vscode.window.showInformationMessage("speclsp: the server is not running.");
      return undefined;
    }
    return this.client.sendRequest("workspace/executeCommand", { command, arguments: args });
  }

  /** The session's statistics, or undefined while there is no server. */
  async statistics(): Promise<SessionStats | undefined> {
    if (this.client?.state !== State.Running) return undefined;
    return this.client.sendRequest<SessionStats>("speclsp/statistics", {}).catch(() => undefined);
  }

  dispose(): void {
    for (const listener of this.listeners) listener.dispose();
    this.changed.dispose();
    void this.stop();
  }
}

function plain(position: vscode.Position): Place {
  return { line: position.line, character: position.character };
}
