import assert from "node:assert/strict";
import { test } from "node:test";
import { latestAnswer, statusText, type Situation } from "../src/statusText.js";

const READY: Situation = {
  state: "ready",
  isOff: false,
  isProblem: false,
  minutesSnoozed: 0,
  isTrial: false,
  hasEdit: false,
  stats: { answer_ms: [40, 27.4], why_nothing: "" },
};
const UNSURE = { answer_ms: [27.4], why_nothing: "not sure (0.21 of 0.3)" };

const cases: [Partial<Situation>, string][] = [
  [{}, "27 ms"],
  [{ stats: undefined }, ""],
  [{ isTrial: true, hasEdit: true }, "27 ms · trial model · next edit"],
  [{ stats: UNSURE }, "not sure (0.21 of 0.3)"],
  [{ state: "unloaded" }, "27 ms"],
  // The time of a model that is gone says nothing of the next one.
  [{ state: "loading", isTrial: true }, "loading"],
  [{ state: "starting" }, ""],
  [{ state: "failed", isProblem: true }, ""],
  [{ isOff: true }, "off"],
  [{ minutesSnoozed: 5 }, "snoozed 5 min"],
];

for (const [change, text] of cases) {
  test(`the status bar says "${text}" where ${JSON.stringify(change)}`, () => {
    assert.equal(statusText({ ...READY, ...change }), text);
  });
}

test("a model that loads has no latest answer", () => {
  assert.deepEqual(latestAnswer({ ...READY, state: "loading" }), {});
  assert.deepEqual(latestAnswer({ ...READY, stats: UNSURE }), {
    whyNothing: "not sure (0.21 of 0.3)",
  });
});
