/**
 * A next edit as lines: what is left of it while the user types, and how it is drawn.
 *
 * Its hunks replace whole lines.  While the user types one's new text, the hunk stays as it is and
 * only its old lines come nearer to it.
 */

export interface Position {
  line: number;
  character: number;
}

export interface Replacement {
  range: { start: Position; end: Position };
  text: string;
}

/** An edit as the server answers it. */
export interface NextEdit extends Replacement {
  id: string;
  textDocument: { uri: string; version: number };
  hunks: Replacement[];
}

/** Lines `start` to `end` − 1 become `lines`. */
export interface Hunk {
  start: number;
  end: number;
  lines: string[];
}

/** One change in a line. */
export interface TypedChange {
  start: Position;
  end: Position;
  text: string;
}

/** A part of the picture: deleted text is struck, new text stands at a place or beside the code. */
export type Mark =
  | { kind: "deleted"; line: number; start: number; end: number }
  | { kind: "deletedLine"; line: number }
  /** New text in its place: nothing is deleted there. */
  | { kind: "inserted"; line: number; character: number; text: string }
  /** The new line, behind the end of its line. */
  | { kind: "after"; line: number; text: string }
  /** A row of new lines that stand beside the code; `column` is where all rows begin. */
  | { kind: "beside"; line: number; column: number; text: string };

/** Return the hunks of an edit as whole lines: each begins at the start of one. */
export function hunksOf(edit: Pick<NextEdit, "hunks">): Hunk[] {
  return edit.hunks.map(({ range: { start, end }, text }) => {
    const lines = text === "" ? [] : text.split(/\r\n|\n/);
    if (lines.at(-1) === "") lines.pop();
    // A range that ends within a line is the document's last.
    const endLine = end.character === 0 ? end.line : end.line + 1;
    return { start: start.line, end: endLine, lines };
  });
}

/**
 * How many UTF-16 units two texts share at their beginnings and, behind those, at their ends.
 *
 * No character of two units is cut in half.
 */
export function common(a: string, b: string): { before: number; after: number } {
  let before = 0;
  const most = Math.min(a.length, b.length);
  while (before < most && a[before] === b[before]) before++;
  if (/[\uD800-\uDBFF]/.test(a.charAt(before - 1))) before--;
  let after = 0;
  while (after < most - before && a[a.length - 1 - after] === b[b.length - 1 - after]) after++;
  if (after > 0 && /[\uDC00-\uDFFF]/.test(a.charAt(a.length - after))) after--;
  return { before, after };
}

/** Characters that are still to be deleted and inserted. */
function nLeft(old: string, wanted: string): number {
  const { before, after } = common(old, wanted);
  return old.length + wanted.length - 2 * (before + after);
}

/**
 * Return the hunks that are left after a change; undefined where it leaves the edit.
 *
 * `before` and `after` are the document's lines around the change.  The change must type the next
 * characters of a hunk's new text, in one line.
 */
export function typedThrough(
  hunks: readonly Hunk[],
  before: readonly string[],
  after: readonly string[],
  change: TypedChange,
): Hunk[] | undefined {
  const { line } = change.start;
  if (change.end.line !== line || change.text === "" || /[\r\n]/.test(change.text))
    return undefined;
  const touched = hunks.find(({ start, end }) => line >= start && line < end);
  if (touched === undefined) return undefined;
  const { start, end, lines } = touched;
  // Lines of which each becomes another are looked at one by one.
  const isPaired = lines.length === end - start;
  const [first, last] = isPaired ? [line, line + 1] : [start, end];
  const wanted = isPaired ? (lines[line - start] ?? "") : lines.join("\n");
  const old = before.slice(first, last).join("\n");
  const now = after.slice(first, last).join("\n");
  const typedEnd =
    after.slice(first, line).join("").length +
    (line - first) +
    change.start.character +
    change.text.length;
  const isNext = common(now, wanted).before >= typedEnd && nLeft(now, wanted) < nLeft(old, wanted);
  if (!isNext) return undefined;
  const isDone = after.slice(start, end).join("\n") === lines.join("\n");
  return hunks.filter((hunk) => hunk !== touched || !isDone);
}

/** Columns that a line takes. */
export function columns(line: string, tabSize: number): number {
  let n = 0;
  for (const character of line) n += character === "\t" ? tabSize - (n % tabSize) : 1;
  return n;
}

/** Return how a hunk is drawn into the document's `lines`. */
export function marksOf(hunk: Hunk, lines: readonly string[], tabSize: number): Mark[] {
  const old = lines.slice(hunk.start, hunk.end);
  if (old.length === hunk.lines.length) {
    return old.flatMap((line, idx) => lineMarks(hunk.start + idx, line, hunk.lines[idx] ?? ""));
  }
  let before = 0;
  const most = Math.min(old.length, hunk.lines.length);
  while (before < most && old[before] === hunk.lines[before]) before++;
  let after = 0;
  while (after < most - before && old.at(-1 - after) === hunk.lines.at(-1 - after)) after++;
  const deleted = old.slice(before, old.length - after);
  const added = hunk.lines.slice(before, hunk.lines.length - after);
  const first = hunk.start + before;
  return [
    ...deleted.map((_, idx): Mark => ({ kind: "deletedLine", line: first + idx })),
    ...beside(first, added, lines, tabSize),
  ];
}

function lineMarks(line: number, old: string, now: string): Mark[] {
  if (old === now) return [];
  const { before, after } = common(old, now);
  const end = old.length - after;
  if (before === end) {
    return [
      { kind: "inserted", line, character: before, text: now.slice(before, now.length - after) },
    ];
  }
  const deleted: Mark = { kind: "deleted", line, ...wholeWords(old, before, end) };
  if (before + after === now.length) return [deleted];
  return [deleted, { kind: "after", line, text: now.trim() }];
}

/** Widen a part of a line to the words that it cuts: half a word that is struck is hard to read. */
function wholeWords(line: string, start: number, end: number): { start: number; end: number } {
  const isInWord = (at: number): boolean => /^[\p{L}\p{N}_]{2}$/u.test(line.slice(at - 1, at + 1));
  while (isInWord(start)) start--;
  while (isInWord(end)) end++;
  return { start, end };
}

/** Return rows of new lines beside the code, from a line on; the document may be shorter. */
function beside(
  first: number,
  added: readonly string[],
  lines: readonly string[],
  tabSize: number,
): Mark[] {
  if (added.length === 0) return [];
  const nRows = Math.min(added.length, lines.length);
  const top = Math.max(0, Math.min(first, lines.length - nRows));
  const rows = [...added.slice(0, nRows - 1), added.slice(nRows - 1).join(" ⏎ ")];
  const covered = lines.slice(top, top + nRows).map((line) => columns(line, tabSize));
  const column = Math.max(...covered) + 2;
  const width = Math.max(...rows.map((row) => columns(row, tabSize)));
  return rows.map((row, idx) => {
    const text = row.replaceAll("\t", " ".repeat(tabSize));
    return { kind: "beside", line: top + idx, column, text: text.padEnd(width) };
  });
}

/** The lines between the cursor and the nearest hunk; 0 where it is in one. */
export function distance(hunks: readonly Hunk[], line: number): number {
  const each = hunks.map(({ start, end }) => {
    if (line < start) return start - line;
    return line >= end ? line - Math.max(start, end - 1) : 0;
  });
  return Math.min(...each);
}

/** A sentence for people who do not see the picture; `file` is named where it is another one. */
export function spoken(hunks: readonly Hunk[], lines: readonly string[], file?: string): string {
  const said = hunks.map(({ start, end, lines: now }) => {
    const old = lines.slice(start, end).map((line) => line.trim());
    const place = `${file === undefined ? "" : `${file} `}line ${String(start + 1)}`;
    const after = now.map((line) => line.trim()).join(", ");
    if (now.length === 0) return `${place}: delete ${old.join(", ")}`;
    if (old.length === 0) return `${place}: insert ${after}`;
    return `${place}: replace ${old.join(", ")} by ${after}`;
  });
  return `Next edit, ${said.join("; ")}.`;
}
