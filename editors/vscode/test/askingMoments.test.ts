import assert from "node:assert/strict";
import { test } from "node:test";
import { AskingMoments, IDLE_MS } from "../src/askingMoments.js";

test("an edit is asked about after a pause, and once", () => {
  const moments = new AskingMoments();
  assert.equal(moments.waitMs(0), undefined);
  moments.edited(1000, 3, "x");
  assert.equal(moments.waitMs(1100), IDLE_MS - 100);
  assert.equal(moments.isDue(1100, "1:3:1"), false);
  assert.equal(moments.isDue(1000 + IDLE_MS, "1:3:1"), true);
  assert.equal(moments.isDue(9000, "1:3:1"), false);
});

test("a key puts the question off", () => {
  const moments = new AskingMoments();
  moments.edited(0, 3, "x");
  moments.edited(250, 3, "y");
  assert.equal(moments.waitMs(350), IDLE_MS - 100);
});

test("a cursor that leaves the line of an edit asks at once, one that does not edit never", () => {
  const moments = new AskingMoments();
  moments.moved(0, 5);
  assert.equal(moments.waitMs(0), undefined);
  moments.edited(10, 5, "x");
  moments.moved(20, 5);
  assert.equal(moments.isDue(20, "2:5:1"), false);
  moments.moved(30, 6);
  assert.equal(moments.isDue(30, "2:6:1"), true);
  moments.edited(40, 6, "y");
  moments.moved(50, 7);
  moments.moved(60, 6); // who comes back goes on there
  assert.equal(moments.isDue(60, "3:6:1"), false);
  assert.equal(moments.isDue(60 + IDLE_MS, "3:6:1"), true);
});

test("a paste is not asked about, and the next edit is", () => {
  for (const [text, times] of [
    ["x".repeat(200), 1],
    ["a\n", 8],
  ] as const) {
    const moments = new AskingMoments();
    for (let n = 0; n < times; n++) moments.edited(n, 3, text);
    assert.equal(moments.waitMs(10_000), undefined);
    moments.edited(20_000, 3, "x");
    assert.equal(moments.waitMs(20_000), IDLE_MS);
  }
});

test("what was accepted is asked about at once, also at the place that was asked about", () => {
  const moments = new AskingMoments();
  moments.edited(0, 1, "x");
  assert.equal(moments.isDue(IDLE_MS, "1:1:1"), true);
  moments.wanted();
  assert.equal(moments.isDue(IDLE_MS, "1:1:1"), true);
  moments.wanted();
  moments.moved(IDLE_MS, 2); // the acceptance's own move, which is told late
  assert.equal(moments.isDue(IDLE_MS, "2:2:1"), true);
});

test("what is forgotten is not asked about", () => {
  const moments = new AskingMoments();
  moments.edited(0, 1, "x");
  moments.forget();
  assert.equal(moments.waitMs(10_000), undefined);
});
