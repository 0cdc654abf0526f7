/** The members of `speclsp/statistics`' answer that are shown. */
export interface DrafterStats {
  n_drafts: number;
  n_drafted: number;
  n_accepted: number;
}

interface Percentiles {
  n: number;
  p50: number;
  p95: number;
  p99: number;
}

export interface SessionStats {
  n_requests: number;
  n_completions: number;
  n_memory: number;
  n_shown: number;
  n_accepted_items: number;
  n_partially_accepted: number;
  n_chars_accepted: number;
  n_chars_shown: number;
  n_chars_typed_over: number;
  totals: {
    n_prompt: number;
    n_prompt_evaluated: number;
    n_predicted: number;
    n_target_passes: number;
    drafters: Record<string, DrafterStats>;
  };
  /** `answer` is from a request's arrival to a new suggestion, `total` the part in the engine. */
  latency: Record<string, Percentiles>;
  /** Why the model's latest answer was withheld; empty where it was not. */
  why_nothing: string;
  /** The times of which `latency.answer` has the percentiles, the oldest first. */
  answer_ms: number[];
  index: { n_files: number; n_tokens: number; n_skipped: number; building: boolean };
  state: string;
  model: string;
  draft_model: string;
  /** The format of next edits and the model that proposes them, or `none: ` and why. */
  next_edits: string;
  layers: Record<string, number>;
}

function share(part: number, whole: number): number | undefined {
  return whole > 0 ? part / whole : undefined;
}

/** The displayed figures; undefined where nothing was measured yet. */
export interface Figures {
  /** For example `12 of 52 (23 %)`. */
  accepted: string;
  /** In the form of `accepted`, of the characters that were shown. */
  charsAccepted: string;
  charsTypedOver: string;
  /** Median, and the time that 95 of 100 keep, in milliseconds. */
  latency: { p50: number; p95: number } | undefined;
  engineMs: number | undefined;
  tokensPerPass: number | undefined;
  promptReuse: number | undefined;
  drafters: { name: string; acceptance: number; nDrafted: number }[];
}

export function figures(stats: SessionStats): Figures {
  const { totals, latency, n_shown: nShown } = stats;
  const nAccepted = stats.n_accepted_items + stats.n_partially_accepted;
  const { n_chars_shown: nChars } = stats;
  return {
    accepted: partOf(nAccepted, nShown),
    charsAccepted: partOf(stats.n_chars_accepted, nChars),
    charsTypedOver: partOf(stats.n_chars_typed_over, nChars),
    latency: latency["answer"],
    engineMs: latency["total"]?.p50,
    tokensPerPass: share(totals.n_predicted, totals.n_target_passes),
    promptReuse: share(totals.n_prompt - totals.n_prompt_evaluated, totals.n_prompt),
    drafters: Object.entries(totals.drafters)
      .filter(([, drafter]) => drafter.n_drafted > 0)
      .map(([name, drafter]) => ({
        name,
        acceptance: drafter.n_accepted / drafter.n_drafted,
        nDrafted: drafter.n_drafted,
      }))
      .sort((a, b) => a.name.localeCompare(b.name)),
  };
}

/** For example `1,200 of 5,200 (23 %)`, on one line. */
function partOf(part: number, whole: number): string {
  const rate = share(part, whole);
  return rate === undefined ? "–" : `${count(part)} of ${count(whole)} (${perCent(rate)})`;
}

function count(n: number): string {
  return n.toLocaleString();
}

export function perCent(part: number | undefined): string {
  return part === undefined ? "–" : `${(100 * part).toFixed(0)} %`;
}

export function milliseconds(ms: number | undefined): string {
  return ms === undefined ? "–" : `${ms.toFixed(0)} ms`;
}
