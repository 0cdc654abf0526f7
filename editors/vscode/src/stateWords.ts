import * as vscode from "vscode";
import type { EngineState, Status } from "./client.js";
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

const TRIAL = "trial model: choose a real one";

/** How the status bar shows a state; `off` where the settings disable the active file. */
export interface ShownState {
  icon: string;
  words: string;
  isProblem: boolean;
}

export function shownState(status: Status, isBusy = false): ShownState {
  const { state, message, model, snoozedUntil } = status;
  const document = vscode.window.activeTextEditor?.document;
  if (state === "ready" && document !== undefined && !suggestsIn(document)) {
    return { icon: ICONS.off, words: "off for this file", isProblem: false };
  }
  if (snoozedUntil !== undefined && snoozedUntil > Date.now()) {
    const until = new Date(snoozedUntil).toLocaleTimeString([], { timeStyle: "short" });
    return { icon: "$(bell-slash)", words: `snoozing until ${until}`, isProblem: false };
  }
  if (state === "ready" && isBusy) return { icon: ICONS.loading, words: "busy", isProblem: false };
  const isProblem = state === "failed" || state === "stopped" || state === "missing";
  const why = message !== "" && isProblem ? `: ${message}` : "";
  const trial = state === "ready" && model?.is_trial ? `, ${TRIAL}` : "";
  return { icon: ICONS[state], words: WORDS[state] + trial + why, isProblem };
}
