import assert from "node:assert/strict";
import { test } from "node:test";
import {
  common,
  distance,
  hunksOf,
  marksOf,
  spoken,
  typedThrough,
  type Hunk,
  type Replacement,
} from "../src/shownEdit.js";

const CODE = ["def total(amounts):", "    for price in prices:", "        print(price)", ""];
const RENAMED: Hunk = { start: 1, end: 2, lines: ["    for price in amounts:"] };

function replacement(from: [number, number], to: [number, number], text: string): Replacement {
  const [start, end] = [from, to].map(([line, character]) => ({ line, character }));
  assert.ok(start && end);
  return { range: { start, end }, text };
}

function hunk(one: Replacement): Hunk {
  const [found] = hunksOf({ hunks: [one] });
  assert.ok(found);
  return found;
}

test("hunks are whole lines, inserted, replaced or deleted, also at the end", () => {
  assert.deepEqual(hunk(replacement([1, 0], [2, 0], "    a\r\n    b\r\n")), {
    start: 1,
    end: 2,
    lines: ["    a", "    b"],
  });
  assert.deepEqual(hunk(replacement([1, 0], [1, 0], "a\n")), { start: 1, end: 1, lines: ["a"] });
  assert.deepEqual(hunk(replacement([1, 0], [3, 0], "")), { start: 1, end: 3, lines: [] });
  assert.deepEqual(hunk(replacement([4, 0], [4, 7], "a")), { start: 4, end: 5, lines: ["a"] });
});

test("a replaced word is struck, and the new line stands behind its line", () => {
  assert.deepEqual(marksOf(RENAMED, CODE, 4), [
    { kind: "deleted", line: 1, start: 17, end: 23 },
    { kind: "after", line: 1, text: "for price in amounts:" },
  ]);
});

test("what is only inserted stands in its place, what is only deleted is struck", () => {
  const longer = { start: 2, end: 3, lines: ["        print(price, file)"] };
  assert.deepEqual(marksOf(longer, CODE, 4), [
    { kind: "inserted", line: 2, character: 19, text: ", file" },
  ]);
  const shorter = { start: 2, end: 3, lines: ["        print()"] };
  assert.deepEqual(marksOf(shorter, CODE, 4), [{ kind: "deleted", line: 2, start: 14, end: 19 }]);
});

test("characters of two UTF-16 units stay whole", () => {
  assert.deepEqual(common('s = "🔴"', 's = "🟢"'), { before: 5, after: 1 });
  assert.deepEqual(common('"😀"', '"😁😀"'), { before: 1, after: 3 });
  // Both end in the same unit.
  assert.deepEqual(common('"🈀"', '"😀"'), { before: 1, after: 1 });
  assert.deepEqual(common("a😀b", "a😀😀b"), { before: 3, after: 1 });
});

test("new lines stand beside the code, behind the longest line, in rows of one width", () => {
  const added = { start: 1, end: 1, lines: ["    result = 0", "    print(result)"] };
  assert.deepEqual(marksOf(added, CODE, 4), [
    { kind: "beside", line: 1, column: 26, text: "    result = 0   " },
    { kind: "beside", line: 2, column: 26, text: "    print(result)" },
  ]);
});

test("equal lines at a hunk's edges are not drawn, deleted lines are struck", () => {
  const added = { start: 1, end: 3, lines: [CODE[1] ?? "", "        pass", CODE[2] ?? ""] };
  assert.deepEqual(marksOf(added, CODE, 4), [
    { kind: "beside", line: 2, column: 22, text: "        pass" },
  ]);
  assert.deepEqual(marksOf({ start: 1, end: 3, lines: [] }, CODE, 4), [
    { kind: "deletedLine", line: 1 },
    { kind: "deletedLine", line: 2 },
  ]);
});

test("a document with fewer lines than the new ones shows the rest in its last", () => {
  const marks = marksOf({ start: 1, end: 1, lines: ["a", "b", "c"] }, ["x", ""], 4);
  assert.deepEqual(
    marks.map((mark) => "text" in mark && [mark.line, mark.text]),
    [
      [0, "a    "],
      [1, "b ⏎ c"],
    ],
  );
});

test("tabs count as columns", () => {
  const [row] = marksOf({ start: 0, end: 0, lines: ["\tx"] }, ["\ta"], 4);
  assert.deepEqual(row, { kind: "beside", line: 0, column: 7, text: "    x" });
});

/** The hunks that are left after a change of CODE's second line. */
function typed(from: number, to: number, text: string, hunks = [RENAMED]): Hunk[] | undefined {
  const line = CODE[1] ?? "";
  const after = [...CODE];
  after[1] = line.slice(0, from) + text + line.slice(to);
  const change = { start: { line: 1, character: from }, end: { line: 1, character: to }, text };
  return typedThrough(hunks, CODE, after, change);
}

test("an edit stays while its text is typed, and ends with it", () => {
  assert.deepEqual(typed(17, 22, "amoun"), [RENAMED]);
  assert.deepEqual(typed(17, 22, "amount"), []);
  assert.deepEqual(typed(17, 17, "a"), [RENAMED]);
  assert.deepEqual(typed(17, 23, "am"), [RENAMED]);
  const whole = { start: 0, end: 2, lines: [...CODE.slice(0, 1), ...RENAMED.lines, "    pass"] };
  assert.deepEqual(typed(17, 23, "am", [whole]), [whole]);
});

test("another character, a deletion, a line end or another place leaves the edit", () => {
  assert.equal(typed(17, 17, "b"), undefined);
  assert.equal(typed(17, 23, "x"), undefined);
  assert.equal(typed(17, 22, ""), undefined);
  assert.equal(typed(17, 22, "am\n"), undefined);
  assert.equal(typed(4, 4, "a"), undefined);
  assert.equal(typed(17, 17, "a", [{ ...RENAMED, start: 2, end: 3 }]), undefined);
});

test("the distance counts lines to the nearest hunk", () => {
  assert.equal(distance([RENAMED], 1), 0);
  assert.equal(distance([RENAMED], 0), 1);
  assert.equal(distance([RENAMED, { start: 9, end: 12, lines: [] }], 7), 2);
  assert.equal(distance([{ start: 9, end: 9, lines: ["x"] }], 12), 3);
});

test("people who hear get a sentence", () => {
  const hunks = [RENAMED, { start: 3, end: 3, lines: ["x"] }, { start: 2, end: 3, lines: [] }];
  assert.equal(
    spoken(hunks, CODE),
    "Next edit, line 2: replace for price in prices: by for price in amounts:; " +
      "line 4: insert x; line 3: delete print(price).",
  );
  assert.equal(
    spoken([RENAMED], CODE, "shop.py"),
    "Next edit, shop.py line 2: replace for price in prices: by for price in amounts:.",
  );
});
