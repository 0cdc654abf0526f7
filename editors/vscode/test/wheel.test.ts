import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { findWheel, isOlder } from "../src/wheel.js";

test("a packaged extension has a wheel, a checkout has none", async () => {
  const folder = mkdtempSync(join(tmpdir(), "speclsp-wheel-"));
  assert.equal(await findWheel(join(folder, "missing")), undefined);
  writeFileSync(join(folder, "README"), "");
  assert.equal(await findWheel(folder), undefined);
  const file = join(folder, "speclsp-0.2.0-py3-none-any.whl");
  writeFileSync(file, "");
  assert.deepEqual(await findWheel(folder), { file, version: "0.2.0" });
});

for (const [version, other, older] of [
  ["0.1.0", "0.2.0", true],
  ["0.9.0", "0.10.0", true],
  ["0.1", "0.1.1", true],
  ["0.1.0", "0.1.0", false],
  ["0.2.0", "0.1.9", false],
  ["0.1.0.dev1", "0.1.0", false],
  ["1.0.0", "1.0.0rc1", false],
  ["1.0", "1.0.0", false],
  ["0.9.0", "0.9.0+cpu", false],
  ["0.9.0+cpu", "0.9.1", true],
  ["unknown", "0.1.0", false],
  ["", "0.1.0", false],
] as const) {
  test(`${version} is ${older ? "" : "not "}older than ${other}`, () => {
    assert.equal(isOlder(version, other), older);
  });
}
