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

/** Key of the flag that a model was offered unasked, which happens once. */
const OFFERED = "modelIsOffered";
/** LSP's code for a cancelled request. */
const CANCELLED = -32800;

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
    const items = ordered(overview).map((preset) => ({
      label: preset.title,
      description: remarks(preset, overview),
      detail: `${preset.why} Licence: ${preset.licence}.`,
      preset,
    }));
    const choice = await vscode.window.showQuickPick(items, {
      title: `speclsp: choose a model (${memoryWords(overview.memory)} found)`,
      placeHolder: "A model that is missing is downloaded",
      matchOnDetail: true,
    });
    if (choice !== undefined) await this.take(choice.preset);
  }

  /** Let the user choose a model that is loaded beside the other one, for next edits alone. */
  async chooseForEdits(): Promise<void> {
    const overview = await this.overview();
    if (overview === undefined) return;
    const items = forEdits(overview).map(({ preset, remark }) => ({
      label: preset.title,
      description: remark,
      detail: `${preset.why} Licence: ${preset.licence}.`,
      preset,
    }));
    const choice = await vscode.window.showQuickPick(items, {
      title: `speclsp: choose a model for next edits (${memoryWords(overview.memory)} found)`,
      placeHolder: "It is loaded beside the model that suggests",
      matchOnDetail: true,
    });
    if (choice !== undefined) await this.take(choice.preset, "editModel");
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
  private async take(preset: Preset, setting: "model" | "editModel" = "model"): Promise<void> {
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
    const settings = vscode.workspace.getConfiguration("speclsp");
    await settings.update(setting, preset.name, vscode.ConfigurationTarget.Global);
  }

  dispose(): void {
    this.listener.dispose();
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
