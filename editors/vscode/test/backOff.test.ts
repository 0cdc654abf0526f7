import assert from "node:assert/strict";
import { test } from "node:test";
import { BackOff } from "../src/backOff.js";

test("each death in a row waits twice as long, and the sixth gives up", () => {
  const backOff = new BackOff();
  const waits = [0, 1, 2, 3, 4, 5].map((second) => backOff.died(1000 * second));
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, undefined]);
});

test("a steady minute, or the user, begins anew", () => {
  const backOff = new BackOff();
  backOff.died(0);
  assert.equal(backOff.died(61_000), 500);
  assert.equal(backOff.died(62_000), 1000);
  backOff.reset();
  assert.equal(backOff.died(62_001), 500);
});
