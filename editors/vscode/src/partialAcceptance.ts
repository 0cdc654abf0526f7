/**
 * Detects that the user accepted a word or a line of a suggestion.
 *
 * VS Code does not report partial acceptances, and runs an item's command only when the whole item
 * was accepted.  A partial acceptance is one document change at the item's place that inserts the
 * beginning of the item's remaining text; a typed key is such a change, too, of one character.
 */

/** Where a text stands: line and UTF-16 column. */
export interface Place {
  line: number;
  character: number;
}

export interface Change {
  start: Place;
  end: Place;
  text: string;
}

/** A suggestion as it was given to the editor. */
export interface Given<Item> {
  uri: string;
  /** Where its text begins; the text between here and the cursor is its beginning. */
  start: Place;
  text: string;
  /** UTF-16 units of the text that the document holds by now. */
  nInDocument: number;
  item: Item;
}

export interface Acceptance<Item> {
  item: Item;
  /** UTF-16 units from the text's start, as the protocol counts. */
  acceptedLength: number;
}

export function advance(place: Place, text: string): Place {
  const lines = text.split(/\r\n|\r|\n/);
  const last = lines[lines.length - 1] ?? "";
  return lines.length === 1
    ? { line: place.line, character: place.character + last.length }
    : { line: place.line + lines.length - 1, character: last.length };
}

function same(a: Place, b: Place): boolean {
  return a.line === b.line && a.character === b.character;
}

/** Return how many units of `rest` equal `text`, or undefined; LF and CRLF are equal. */
function matches(rest: string, text: string): number | undefined {
  let at = 0;
  for (let i = 0; i < text.length; i++, at++) {
    if (rest[at] === "\r" && rest[at + 1] === "\n" && text[i] === "\n") at++;
    if (text[i] === "\r" && text[i + 1] === "\n" && rest[at] === "\n") i++;
    if (rest[at] !== text[i]) return undefined;
  }
  return at;
}

const characters = new Intl.Segmenter();

/** Whether one key writes this: a character, an automatic pair, or a line end with indentation. */
function isTyped(text: string): boolean {
  return (
    [...characters.segment(text)].length === 1 ||
    ["()", "[]", "{}", '""', "''", "``"].includes(text) ||
    /^\r?\n[ \t]*$/.test(text)
  );
}

export class PartialAcceptances<Item> {
  private given: Given<Item>[] = [];

  /** Take the items that the editor shows; they replace the former ones. */
  give(uri: string, items: { start: Place; cursor: Place; text: string; item: Item }[]): void {
    this.given = items.map(({ start, cursor, text, item }) => ({
      uri,
      start,
      text,
      item,
      nInDocument: start.line === cursor.line ? cursor.character - start.character : 0,
    }));
  }

  forget(): void {
    this.given = [];
  }

  /**
   * Take a change of a document, and return what of a suggestion it accepted.
   *
   * What one key writes counts as typed.  Accepting all of the rest is reported by the item's own
   * command.
   */
  changed(uri: string, changes: readonly Change[]): Acceptance<Item> | undefined {
    const [change] = changes;
    if (change === undefined || !this.given.some((one) => one.uri === uri)) return undefined;
    if (changes.length !== 1) {
      this.forget();
      return undefined;
    }
    const still: Given<Item>[] = [];
    let accepted: Acceptance<Item> | undefined;
    for (const one of this.given) {
      const cursor = advance(one.start, one.text.slice(0, one.nInDocument));
      if (!same(change.start, cursor) || change.text === "") continue;
      const rest = one.text.slice(one.nInDocument);
      const nUnits = matches(rest, change.text);
      if (nUnits === undefined) continue;
      const nInDocument = one.nInDocument + nUnits;
      still.push({ ...one, nInDocument });
      const isWhole = nInDocument >= one.text.length;
      if (!isWhole && !isTyped(change.text))
        accepted ??= { item: one.item, acceptedLength: nInDocument };
    }
    this.given = still;
    return accepted;
  }
}
