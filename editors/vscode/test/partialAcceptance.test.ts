import assert from "node:assert/strict";
import { test } from "node:test";
import { PartialAcceptances, type Change } from "../src/partialAcceptance.js";

const URI = "file:///shop.py";

/** A document in which changes are made as an editor makes them. */
class Typist {
  readonly acceptances = new PartialAcceptances<string>();
  constructor(
    private line = 3,
    private character = 4,
  ) {}

  give(...texts: string[]): this {
    const place = { line: this.line, character: this.character };
    this.acceptances.give(
      URI,
      texts.map((text) => ({ start: place, cursor: place, text, item: text })),
    );
    return this;
  }

  /** Insert at the cursor, over what stands up to `end`. */
  insert(text: string, end?: Change["end"]): number | undefined {
    const start = { line: this.line, character: this.character };
    const accepted = this.acceptances.changed(URI, [{ start, end: end ?? start, text }]);
    const lines = text.split(/\r?\n/);
    this.character = (lines.length > 1 ? 0 : this.character) + (lines.at(-1)?.length ?? 0);
    this.line += lines.length - 1;
    return accepted?.acceptedLength;
  }
}

test("accepted words are told with what was taken of the item so far", () => {
  const typist = new Typist().give("return greeting + name");
  assert.equal(typist.insert("return"), 6);
  assert.equal(typist.insert(" greeting"), 15);
});

test("an accepted line is told with its end", () => {
  const typist = new Typist().give("first()\n    second()");
  assert.equal(typist.insert("first()\n"), 8);
  assert.equal(typist.insert("    second"), 18);
});

test("an item with LF is accepted in a document with CRLF, and the other way round", () => {
  assert.equal(new Typist().give("first()\nsecond()").insert("first()\r\n"), 8);
  assert.equal(new Typist().give("first()\r\nsecond()").insert("first()\n"), 9);
});

test("lengths are in UTF-16 units", () => {
  assert.equal(new Typist().give("'😀 𝒳' + name").insert("'😀 𝒳'"), 7);
});

test("typing as suggested accepts nothing, and a later word counts what was typed", () => {
  const typist = new Typist().give("greeting = name");
  assert.equal(typist.insert("g"), undefined);
  assert.equal(typist.insert("r"), undefined);
  assert.equal(typist.insert("eeting"), 8);
});

test("one key may write several characters", () => {
  for (const [text, typed] of [
    ["(name) + 1", "("],
    ["() + name", "()"],
    ['"" + name', '""'],
    ["👨‍👩‍👧 = family", "👨‍👩‍👧"],
    ["\n    return 1", "\n    "],
  ] as const) {
    assert.equal(new Typist().give(text).insert(typed), undefined, typed);
  }
});

test("all of an item is told by its own command", () => {
  assert.equal(new Typist().give("greeting").insert("greeting"), undefined);
});

test("other text ends what is known of an item", () => {
  const typist = new Typist().give("greeting = name");
  assert.equal(typist.insert("fare"), undefined);
  assert.equal(typist.insert("greeting"), undefined);
});

test("a deletion ends it, too", () => {
  const typist = new Typist().give("greeting = name");
  assert.equal(typist.insert("", { line: 3, character: 9 }), undefined);
  assert.equal(typist.insert("greeting"), undefined);
});

test("among several candidates the one that was taken is told", () => {
  const typist = new Typist().give("left = 1", "right = 2", "right = 3");
  assert.equal(typist.insert("right"), 5);
  const { acceptances } = typist;
  const start = { line: 3, character: 9 };
  const accepted = acceptances.changed(URI, [{ start, end: start, text: " = 3" }]);
  assert.equal(accepted, undefined); // the whole of the third, which its command tells
});

test("text that the ghost text leaps over belongs to the item", () => {
  // The item replaces `)`, which the editor writes again with the accepted word.
  const typist = new Typist().give(") + more");
  assert.equal(typist.insert(") +", { line: 3, character: 5 }), 3);
});

test("an item that begins before the cursor counts what stands there", () => {
  const acceptances = new PartialAcceptances<string>();
  const cursor = { line: 0, character: 4 };
  acceptances.give(URI, [
    { start: { line: 0, character: 0 }, cursor, text: "greet_customer(name)", item: "a" },
  ]);
  const change = { start: cursor, end: cursor, text: "t_customer" };
  assert.deepEqual(acceptances.changed(URI, [change]), { item: "a", acceptedLength: 14 });
});

test("changes elsewhere leave it alone, several at once end it", () => {
  const start = { line: 3, character: 4 };
  const typist = new Typist().give("greeting = name");
  const change = { start, end: start, text: "greeting" };
  assert.equal(typist.acceptances.changed("output:log", [change]), undefined);
  assert.equal(typist.acceptances.changed(URI, []), undefined);
  assert.equal(typist.insert("greeting"), 8);
  typist.give("more = text");
  assert.equal(typist.acceptances.changed(URI, [change, change]), undefined);
  assert.equal(typist.insert("more"), undefined);
});
