import type { Status } from "./client.js";
import { milliseconds, type SessionStats } from "./statistics.js";

/** What the status bar item's text depends on. */
export interface Situation {
  state: Status["state"];
  isOff: boolean;
  isProblem: boolean;
  minutesSnoozed: number;
  isTrial: boolean;
  /** Whether a next edit is shown. */
  hasEdit: boolean;
  stats: Pick<SessionStats, "answer_ms" | "why_nothing"> | undefined;
}

/** The latest answer: its time in milliseconds, or why nothing of it was shown. */
export interface Latest {
  ms?: number;
  whyNothing?: string;
}

/** The latest answer, where the model that gave it is there. */
export function latestAnswer({
  state,
  isOff,
  minutesSnoozed,
  stats,
}: Omit<Situation, "isProblem" | "isTrial" | "hasEdit">): Latest {
  const canAnswer = (state === "ready" || state === "unloaded") && !isOff && minutesSnoozed === 0;
  if (!canAnswer || stats === undefined) return {};
  if (stats.why_nothing !== "") return { whyNothing: stats.why_nothing };
  const ms = stats.answer_ms.at(-1);
  return ms === undefined ? {} : { ms };
}

/** The words behind the icon and the name. */
export function statusText(situation: Situation): string {
  const { state, isOff, isProblem, minutesSnoozed, isTrial, hasEdit } = situation;
  if (isOff) return "off";
  if (isProblem) return "";
  if (minutesSnoozed > 0) return `snoozed ${String(minutesSnoozed)} min`;
  if (state === "loading") return "loading";
  const { ms, whyNothing } = latestAnswer(situation);
  return [
    ...(whyNothing === undefined ? [] : [whyNothing]),
    ...(ms === undefined ? [] : [milliseconds(ms)]),
    ...(isTrial ? ["trial model"] : []),
    ...(hasEdit ? ["next edit"] : []),
  ].join(" · ");
}
