import * as vscode from "vscode";
import { Client } from "./client.js";
import { checkInstallation } from "./doctor.js";
import { explain } from "./explain.js";
import { openHelp } from "./help.js";
import { Models } from "./models.js";
import { NextEdits } from "./nextEdits.js";
import { chooseExecutable } from "./ownFiles.js";
import { openServerSettings, openSettings } from "./openSettings.js";
import { Panel } from "./panel.js";
import { openSample } from "./sample.js";
import { snooze, snoozeFor } from "./snooze.js";
import { StatusBar } from "./statusBar.js";
import { toggleEverywhere, toggleLanguage, toggleWorkspace } from "./toggle.js";

/** Time in which VS Code reads a walkthrough that it opens. */
const READ_WITHIN_MS = 1000;

/** The extension's exports, for tests. */
export interface Api {
  client: Client;
  statusBar: StatusBar;
  nextEdits: NextEdits;
}

export function activate(context: vscode.ExtensionContext): Api {
  const log = vscode.window.createOutputChannel("speclsp", { log: true });
  const client = new Client(context, log);
  const nextEdits = new NextEdits(client, context.extensionUri);
  const statusBar = new StatusBar(client, nextEdits);
  const panel = new Panel(client, context.extensionUri);
  const models = new Models(client, context.globalState);
  const command = (name: string, run: (argument?: never) => unknown): vscode.Disposable =>
    vscode.commands.registerCommand(`speclsp.${name}`, run);
  context.subscriptions.push(
    log,
    client,
    statusBar,
    nextEdits,
    panel,
    models,
    command("restartServer", () => client.restart()),
    command("showLog", () => {
      log.show();
    }),
    command("showPanel", () => {
      panel.show();
      void vscode.commands.executeCommand("setContext", "speclsp.hasSeenStatistics", true);
    }),
    command("chooseModel", () => models.choose()),
    command("checkInstallation", () => checkInstallation(client)),
    command("explain", () => explain(client)),
    command("chooseExecutable", chooseExecutable),
    command("chooseEditModel", () => models.chooseForEdits()),
    command("offerModel", () => models.offer()),
    command("acceptEdit", () => nextEdits.accept()),
    command("declineEdit", () => nextEdits.decline()),
    command("askForEdit", () => {
      nextEdits.ask();
    }),
    command("describeEdit", () => {
      nextEdits.describe();
    }),
    command("snoozeSuggestions", (minutes?: number) =>
      minutes === undefined ? snooze(client) : snoozeFor(client, minutes),
    ),
    command("rebuildIndex", () => client.execute("speclsp.reindex")),
    command("makeEnvironment", () => client.makeEnvironment()),
    command("toggleEverywhere", toggleEverywhere),
    command("toggleLanguage", toggleLanguage),
    command("toggleWorkspace", toggleWorkspace),
    command("menu", () => statusBar.menu()),
    command("openSettings", (query?: string) =>
      openSettings(query ?? `@ext:${context.extension.id}`),
    ),
    command("openServerSettings", openServerSettings),
    command("openSample", () => openSample(client)),
    command("help", () => openHelp(context.extensionUri)),
    command("openWalkthrough", () => openWalkthrough(context.extension.id)),
  );
  // Not awaited: other extensions start meanwhile.
  void client.restart();
  return { client, statusBar, nextEdits };
}

/**
 * Open the walkthrough, with the steps ticked that are done.
 *
 * VS Code reads a walkthrough when it is first shown, and never ticks a step whose condition holds
 * by then: each step has a second condition, which this key fulfils after that.
 */
async function openWalkthrough(extension: string): Promise<void> {
  await vscode.commands.executeCommand("workbench.action.openWalkthrough", `${extension}#start`);
  await new Promise((done) => setTimeout(done, READ_WITHIN_MS));
  await vscode.commands.executeCommand("setContext", "speclsp.firstStepsAreOpen", true);
}
