import assert from "node:assert/strict";
import { test } from "node:test";
import { explanation } from "../src/installProblems.js";

for (const [output, wanted] of [
  ["Error: No module named ensurepip", /python3-venv/],
  ["CMake Error: CMAKE_CXX_COMPILER not set, after EnableLanguage", /C\+\+ compiler is missing/],
  ["error: command 'g++' failed: No such file or directory", /C\+\+ compiler is missing/],
  ["ERROR: No matching distribution found for speclsp", /speclsp\.server\.package/],
  ["OSError: [Errno 28] No space left on device", /disk is full/],
  ["NewConnectionError: Temporary failure in name resolution", /cannot be reached/],
  ["Collecting speclsp\nERROR: something of its own", /^Installing failed: ERROR: something/],
  ["", /^Installing failed/],
] as const) {
  test(`pip's words become a remedy: ${output.slice(0, 40)}`, () => {
    assert.match(explanation(output), wanted);
  });
}
