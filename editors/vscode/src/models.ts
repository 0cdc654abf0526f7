import { basename } from "node:path";
import * as vscode from "vscode";
import type { Client } from "./client.js";
import {
  forEdits,
  gigabytes,
  memoryWords,
  ordered,
  remarks,
  type Overview,
  type Preset,
} from "./modelList.js";
import { chooseGguf } from "./ownFiles.js";

/** Key of the flag that a model was offered unasked, which happens once. */
const OFFERED = "modelIsOffered";
/** LSP's code for a cancelled request. */
const CANCELLED = -32800;

/** The settings that name a model. */
type Setting = "model" | "editModel";

/** A row of the lists: a preset, or a file where there is none. */
interface Choice extends vscode.QuickPickItem {
  preset?: Preset;
}

const OWN_FILE: Choice = {
  label: "$(folder-opened) A GGUF file of mine…",
  detail: "Its vocabulary must have fill-in-the-middle tokens.",
};

/** Lets the user choose a model by name, and has the server download it. */
export class Models implements vscode.Disposable {
  private readonly listener: vscode.Disposable;
  /** Title of the model to announce when it is loaded. */
  private awaited: string | undefined;

  constructor(
    private readonly client: Client,
    private readonly memory: vscode.Memento,
  ) {
    this.listener = client.onDidChange(() => {
      this.statusChanged();
    });
  }

  private statusChanged(): void {
    const { state, model } = this.client.status;
    if (state !== "ready" || model === undefined) return;
    if (model.is_trial) {
      if (this.memory.get<boolean>(OFFERED)) return;
      void this.memory.update(OFFERED, true);
      void this.offer();
    } else if (this.awaited !== undefined) {
      const title = this.awaited;
      this.awaited = undefined;
      void vscode.window.showInformationMessage(`speclsp: ${title} is ready.`);
    }
  }

  /** Offer the model that suits this computer. */
  async offer(): Promise<void> {
    const overview = await this.overview();
    const preset = overview?.presets.find(({ name }) => name === overview.recommended);
    if (overview === undefined || preset === undefined) return;
    const take = preset.downloaded ? "Use It" : "Download";
    const choice = await vscode.window.showInformationMessage(
      `${memoryWords(overview.memory)} found → ${preset.title}, ` +
        `${gigabytes(preset.size_bytes)}. ${preset.downloaded ? "Use it" : "Download"}?`,
      take,
      "Other Models",
    );
    if (choice === take) await this.take(preset);
    if (choice === "Other Models") await this.choose(overview);
  }

  /** Let the user choose from all models that the server knows by name. */
  async choose(known?: Overview): Promise<void> {
    const overview = known ?? (await this.overview());
    if (overview === undefined) return;
    const items: Choice[] = ordered(overview).map((preset) => ({
      label: preset.title,
      description: remarks(preset, overview),
      detail: `${preset.why} Licence: ${preset.licence}.`,
      preset,
    }));
    items.push(OWN_FILE);
    const choice = await vscode.window.showQuickPick(items, {
      title: `speclsp: choose a model (${memoryWords(overview.memory)} found)`,
      placeHolder: "A model that is missing is downloaded",
      matchOnDetail: true,
    });
    await this.chosen(choice, "model");
  }

  /** Take the user's choice, which may be a file. */
  private async chosen(choice: Choice | undefined, setting: Setting): Promise<void> {
    if (choice?.preset !== undefined) await this.take(choice.preset, setting);
    else if (choice !== undefined) {
      const file = await chooseGguf("speclsp: a model of yours");
      if (file === undefined) return;
      if (setting === "model") this.awaited = basename(file);
      await keep(setting, file);
    }
  }

  /** Let the user choose a model that is loaded beside the other one, for next edits alone. */
  async chooseForEdits(): Promise<void> {
    const overview = await this.overview();
    if (overview === undefined) return;
    const items: Choice[] = forEdits(overview).map(({ preset, remark }) => ({
      label: preset.title,
      description: remark,
      detail: `${preset.why} Licence: ${preset.licence}.`,
      preset,
    }));
    items.push(OWN_FILE);
    const choice = await vscode.window.showQuickPick(items, {
      title: `speclsp: choose a model for next edits (${memoryWords(overview.memory)} found)`,
      placeHolder: "It is loaded beside the model that suggests",
      matchOnDetail: true,
    });
    await this.chosen(choice, "editModel");
  }

  private async overview(): Promise<Overview | undefined> {
    try {
      return await this.client.execute<Overview>("speclsp.models");
    } catch (error) {
      void vscode.window.showErrorMessage(`speclsp: ${messageOf(error)}`);
      return undefined;
    }
  }

  /** Download a model where it is missing, and make it the user's. */
  private async take(preset: Preset, setting: Setting = "model"): Promise<void> {
    try {
      const pulled = await this.client.execute("speclsp.pullModel", [{ name: preset.name }]);
      if (pulled === undefined) return;
    } catch (error) {
      if ((error as { code?: number }).code === CANCELLED) return;
      const again = "Try Again";
      const choice = await vscode.window.showErrorMessage(`speclsp: ${messageOf(error)}`, again);
      if (choice === again) await this.take(preset, setting);
      return;
    }
    if (setting === "model") this.awaited = preset.title;
    await keep(setting, preset.name);
  }

  dispose(): void {
    this.listener.dispose();
  }
}

async function keep(setting: Setting, value: string): Promise<void> {
  const settings = vscode.workspace.getConfiguration("speclsp");
  await settings.update(setting, value, vscode.ConfigurationTarget.Global);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
