import * as vscode from "vscode";
import type { EngineState, LoadedModel, Status } from "./client.js";
import { suggestsIn } from "./toggle.js";

const ICONS: Record<EngineState, string> = {
  missing: "$(cloud-download)",
  installing: "$(loading~spin)",
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
  installing: "installing the server",
  stopped: "stopped",
  starting: "starting",
  loading: "loading the model",
  ready: "ready",
  unloaded: "ready; the model is loaded with the next suggestion",
  off: "switched off",
  failed: "failed",
};

const TRIAL = "trial model: choose a real one";

/** How the status bar shows a state; `off` where the settings disable the active file. */
export interface ShownState {
  icon: string;
  words: string;
  /** What to do about it, where the words leave that open. */
  hint: string;
  isProblem: boolean;
  isOff: boolean;
}

export function shownState(status: Status, isBusy = false): ShownState {
  const { state, message, model } = status;
  const document = vscode.window.activeTextEditor?.document;
  if (state === "ready" && document !== undefined && !suggestsIn(document)) {
    return { icon: ICONS.off, words: "off for this file", hint: "", isProblem: false, isOff: true };
  }
  const minutes = minutesSnoozed(status);
  if (minutes > 0) {
    const words = `snoozed, ${String(minutes)} min left`;
    return { icon: "$(bell-slash)", words, hint: "", isProblem: false, isOff: false };
  }
  if (state === "ready" && isBusy) {
    return { icon: ICONS.loading, words: "busy", hint: "", isProblem: false, isOff: false };
  }
  const isProblem = state === "failed" || state === "stopped" || state === "missing";
  const why = message !== "" && isProblem ? `: ${message}` : "";
  const hint = state === "ready" && model?.is_trial ? TRIAL : "";
  const words = WORDS[state] + why;
  return { icon: ICONS[state], words, hint, isProblem, isOff: state === "off" };
}

/** Minutes that are left of a snooze, rounded up; 0 where there is none. */
export function minutesSnoozed({ snoozedUntil }: Pick<Status, "snoozedUntil">): number {
  return Math.max(0, Math.ceil(((snoozedUntil ?? 0) - Date.now()) / 60_000));
}

/** A model and the devices of its layers, such as `Qwen2.5-Coder 7B Q4_K_M on CUDA0`. */
export function modelWords({ title, layers }: Pick<LoadedModel, "title" | "layers">): string {
  const devices = Object.entries(layers);
  if (devices.length <= 1) return [title, ...devices.map(([device]) => device)].join(" on ");
  const parts = devices.map(([device, n]) => `${String(n)} layers on ${device}`);
  return `${title}, ${parts.join(" and ")}`;
}
