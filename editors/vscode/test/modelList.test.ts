import assert from "node:assert/strict";
import { test } from "node:test";
import {
  forEdits,
  memoryWords,
  ordered,
  remarks,
  type Overview,
  type Preset,
} from "../src/modelList.js";

function preset(name: string, change: Partial<Preset> = {}): Preset {
  const known = {
    title: name,
    size_bytes: 4.68e9,
    licence: "MIT",
    why: "",
    fits: true,
    why_not: "",
    edits: false,
  };
  return { name, downloaded: false, ...known, ...change };
}

function overview(...presets: Preset[]): Overview {
  return {
    memory: { kind: "NVIDIA GPU", name: "Some GPU", total_bytes: 8 * 2 ** 30 },
    recommended: "7b",
    presets,
    current: { name: "3b", is_trial: false },
  };
}

test("the recommended model comes first, and what does not fit last", () => {
  const found = ordered(
    overview(preset("1b"), preset("14b", { fits: false }), preset("3b"), preset("7b")),
  );
  assert.deepEqual(
    found.map(({ name }) => name),
    ["7b", "1b", "3b", "14b"],
  );
});

test("each model tells its size and what speaks for it or against it", () => {
  const known = overview();
  assert.equal(remarks(preset("7b"), known), "4.7 GB, recommended");
  assert.equal(remarks(preset("3b", { downloaded: true }), known), "4.7 GB, in use");
  assert.equal(remarks(preset("1b", { downloaded: true }), known), "4.7 GB, downloaded");
  assert.equal(
    remarks(preset("1b", { received_bytes: 310e6 }), known),
    "4.7 GB, partly downloaded, 310 of 4680 MB",
  );
  assert.equal(
    remarks(preset("14b", { fits: false, why_not: "too slow on a CPU" }), known),
    "4.7 GB, too slow on a CPU",
  );
});

test("the memory is told as it is advertised", () => {
  assert.equal(memoryWords(overview().memory), "NVIDIA GPU, 8 GB");
  assert.equal(memoryWords({ kind: "CPU", name: "", total_bytes: 0 }), "CPU");
});

test("models for next edits say what they cost beside the one in use", () => {
  const large = preset("zeta", { edits: true, size_bytes: 5e9 });
  const small = preset("sweep", { edits: true, size_bytes: 1.5e9 });
  const found = forEdits(overview(preset("3b"), large, small));
  assert.deepEqual(
    found.map(({ preset: { name }, remark }) => [name, remark]),
    [
      ["sweep", "1.5 GB of memory, fits beside the model in use"],
      ["zeta", "5.0 GB of memory, too large beside the model in use"],
    ],
  );
  const [own] = forEdits({
    ...overview(small),
    current: { name: "sweep", is_trial: false },
  });
  assert.match(own?.remark ?? "", /needs no second model/);
});
