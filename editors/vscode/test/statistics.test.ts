import assert from "node:assert/strict";
import { test } from "node:test";
import { figures, milliseconds, perCent, type SessionStats } from "../src/statistics.js";

function stats(change: Partial<SessionStats> = {}): SessionStats {
  return {
    n_requests: 0,
    n_completions: 0,
    n_memory: 0,
    n_shown: 0,
    n_accepted_items: 0,
    n_partially_accepted: 0,
    n_chars_accepted: 0,
    n_chars_shown: 0,
    n_chars_typed_over: 0,
    totals: {
      n_prompt: 0,
      n_prompt_evaluated: 0,
      n_predicted: 0,
      n_target_passes: 0,
      drafters: {},
    },
    latency: {},
    why_nothing: "",
    answer_ms: [],
    index: { n_files: 0, n_tokens: 0, n_skipped: 0, building: false },
    state: "ready",
    model: "",
    draft_model: "",
    next_edits: "",
    layers: {},
    ...change,
  };
}

test("nothing measured gives no figures", () => {
  assert.deepEqual(figures(stats()), {
    accepted: "–",
    charsAccepted: "–",
    charsTypedOver: "–",
    latency: undefined,
    engineMs: undefined,
    tokensPerPass: undefined,
    promptReuse: undefined,
    drafters: [],
  });
  assert.equal(perCent(undefined), "–");
});

test("figures follow from the sums", () => {
  const found = figures(
    stats({
      n_shown: 8,
      n_accepted_items: 3,
      n_partially_accepted: 1,
      n_chars_shown: 400,
      n_chars_accepted: 120,
      n_chars_typed_over: 20,
      latency: {
        answer: { n: 9, p50: 27.4, p95: 60, p99: 80 },
        total: { n: 7, p50: 19, p95: 40, p99: 41 },
      },
      totals: {
        n_prompt: 400,
        n_prompt_evaluated: 100,
        n_predicted: 60,
        n_target_passes: 24,
        drafters: {
          suffix: { n_drafts: 4, n_drafted: 20, n_accepted: 15 },
          draft: { n_drafts: 4, n_drafted: 10, n_accepted: 4 },
          idle: { n_drafts: 0, n_drafted: 0, n_accepted: 0 },
        },
      },
    }),
  );
  assert.equal(found.accepted, "4 of 8 (50 %)");
  assert.equal(found.charsAccepted, "120 of 400 (30 %)");
  assert.equal(found.charsTypedOver, "20 of 400 (5 %)");
  assert.equal(milliseconds(found.latency?.p50), "27 ms");
  assert.equal(found.engineMs, 19);
  assert.equal(found.tokensPerPass, 2.5);
  assert.equal(found.promptReuse, 0.75);
  assert.deepEqual(found.drafters, [
    { name: "draft", acceptance: 0.4, nDrafted: 10 },
    { name: "suffix", acceptance: 0.75, nDrafted: 20 },
  ]);
});
