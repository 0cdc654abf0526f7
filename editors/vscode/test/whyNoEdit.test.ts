import assert from "node:assert/strict";
import { test } from "node:test";
import { whyNoEdit, type Hindrances } from "../src/whyNoEdit.js";

const NOTHING: Hindrances = {
  areOn: true,
  suggestsHere: true,
  minutesSnoozed: 0,
  hasOneCursor: true,
  isSuggesting: false,
  nextEdits: "format sweep, sweep-next-edit-0.5b.gguf",
};
const cases: [Partial<Hindrances>, RegExp, string | undefined][] = [
  [{ areOn: false }, /switched off by speclsp\.nextEdits/, "speclsp.openSettings"],
  [{ suggestsHere: false }, /switched off for this file/, "speclsp.menu"],
  [{ minutesSnoozed: 5 }, /snoozed, 5 min left/, "speclsp.snoozeSuggestions"],
  [
    { nextEdits: "none: the model was not trained for them (coder.gguf)" },
    /no next edits: the model was not trained for them \(coder\.gguf\)\.$/,
    "speclsp.chooseEditModel",
  ],
  [{ hasOneCursor: false }, /one cursor/, undefined],
  [{ isSuggesting: true }, /a suggestion is at the cursor/, undefined],
  [{}, /^no next edit here\.$/, undefined],
];

for (const [change, words, command] of cases) {
  test(`asked in vain: ${words.source}`, () => {
    const found = whyNoEdit({ ...NOTHING, ...change });
    assert.match(found.words, words);
    assert.equal(found.remedy?.command, command);
  });
}
