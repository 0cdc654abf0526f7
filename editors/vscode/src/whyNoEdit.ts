/** What keeps a next edit that the user asked for from coming. */
export interface Hindrances {
  /** Whether the setting `speclsp.nextEdits` is on. */
  areOn: boolean;
  /** Whether suggestions come in the file in front. */
  suggestsHere: boolean;
  minutesSnoozed: number;
  hasOneCursor: boolean;
  isSuggesting: boolean;
  /** The statistics' `next_edits`: a format and a model, or `none: ` and why. */
  nextEdits: string;
}

/** A sentence for the user, and the command that helps. */
export interface WhyNoEdit {
  words: string;
  remedy?: { label: string; command: string; args?: unknown[] };
}

const NONE = "none: ";

/** Why no next edit came that was asked for by hand. */
export function whyNoEdit(found: Hindrances): WhyNoEdit {
  if (!found.areOn) {
    const args = ["speclsp.nextEdits"];
    const remedy = { label: "Open the Setting", command: "speclsp.openSettings", args };
    return { words: "next edits are switched off by speclsp.nextEdits.", remedy };
  }
  if (!found.suggestsHere) {
    const remedy = { label: "Open the Menu", command: "speclsp.menu" };
    return { words: "suggestions are switched off for this file.", remedy };
  }
  if (found.minutesSnoozed > 0) {
    const remedy = { label: "End the Snooze", command: "speclsp.snoozeSuggestions", args: [0] };
    return { words: `snoozed, ${String(found.minutesSnoozed)} min left.`, remedy };
  }
  if (found.nextEdits.startsWith(NONE)) {
    const remedy = { label: "Find a Model for Next Edits", command: "speclsp.chooseEditModel" };
    return { words: `no next edits: ${found.nextEdits.slice(NONE.length)}.`, remedy };
  }
  if (!found.hasOneCursor) return { words: "a next edit wants one cursor and no selection." };
  if (found.isSuggesting) {
    return { words: "a suggestion is at the cursor; Esc dismisses it, then ask again." };
  }
  return { words: "no next edit here." };
}
