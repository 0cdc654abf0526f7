import assert from "node:assert/strict";
import { test } from "node:test";
import { languageName } from "../src/languageName.js";

const CONTRIBUTED = [
  { id: "typescript", extensions: [".mts"] },
  { id: "typescript", aliases: ["TypeScript", "ts"] },
  { id: "python", aliases: ["Python", "py"] },
  { id: "other", aliases: ["%language.other%"] },
  { id: "broken", aliases: "Broken" },
  { aliases: ["Nothing"] },
];

for (const [id, name] of [
  ["typescript", "TypeScript"],
  ["python", "Python"],
  ["plaintext", "plain text"],
  ["other", "other"],
  ["broken", "broken"],
  ["unknown", "unknown"],
] as const) {
  test(`${id} is called ${name}`, () => {
    assert.equal(languageName(id, CONTRIBUTED), name);
  });
}
