import * as vscode from "vscode";
import { Client, openServerSettings } from "./client.js";
import { openHelp } from "./help.js";
import { Models } from "./models.js";
import { Panel } from "./panel.js";
import { openSample } from "./sample.js";
import { snooze, snoozeFor } from "./snooze.js";
import { StatusBar } from "./statusBar.js";
import { toggleEverywhere, toggleLanguage, toggleWorkspace } from "./toggle.js";

/** The extension's exports, for tests. */
export interface Api {
  client: Client;
  statusBar: StatusBar;
}

export function activate(context: vscode.ExtensionContext): Api {
  const log = vscode.window.createOutputChannel("speclsp", { log: true });
  const client = new Client(context, log);
  const statusBar = new StatusBar(client);
  const panel = new Panel(client, context.extensionUri);
  const models = new Models(client, context.globalState);
  const command = (name: string, run: (argument?: number) => unknown): vscode.Disposable =>
    vscode.commands.registerCommand(`speclsp.${name}`, run);
  context.subscriptions.push(
    log,
    client,
    statusBar,
    panel,
    models,
    command("restartServer", () => client.restart()),
    command("showLog", () => {
      log.show();
    }),
    command("showPanel", () => {
      panel.show();
    }),
    command("chooseModel", () => models.choose()),
    command("offerModel", () => models.offer()),
    command("snoozeSuggestions", (minutes?: number) =>
      minutes === undefined ? snooze(client) : snoozeFor(client, minutes),
    ),
    command("rebuildIndex", () => client.execute("speclsp.reindex")),
    command("makeEnvironment", () => client.makeEnvironment()),
    command("toggleEverywhere", toggleEverywhere),
    command("toggleLanguage", toggleLanguage),
    command("toggleWorkspace", toggleWorkspace),
    command("menu", () => statusBar.menu()),
    command("openSettings", () =>
      vscode.commands.executeCommand(
        "workbench.action.openSettings",
        `@ext:${context.extension.id}`,
      ),
    ),
    command("openServerSettings", openServerSettings),
    command("openSample", () => openSample(client)),
    command("help", () => openHelp(context.extensionUri)),
    command("openWalkthrough", () =>
      vscode.commands.executeCommand(
        "workbench.action.openWalkthrough",
        `${context.extension.id}#start`,
      ),
    ),
  );
  // Not awaited: other extensions start meanwhile.
  void client.restart();
  return { client, statusBar };
}
