/** When to ask for a next edit: the table of docs/lsp.md, on a clock that the caller reads. */

/** Without a key for so long, an edit is asked about. */
export const IDLE_MS = 300;
const PASTE_MS = 1500;
const PASTE_CHARS = 200;
const PASTE_LINES = 8;

interface Insertion {
  at: number;
  nChars: number;
  nLines: number;
}

export class AskingMoments {
  /** The line of the latest edit, until it is asked about. */
  private editedLine: number | undefined;
  /** Whether to ask without waiting. */
  private isWanted = false;
  private lastKey = 0;
  private inserted: Insertion[] = [];
  private asked = "";

  /** Note an edit of the user's in a line. */
  edited(now: number, line: number, inserted: string): void {
    this.lastKey = now;
    const nLines = inserted.split("\n").length - 1;
    this.inserted = this.inserted.filter(({ at }) => now - at <= PASTE_MS);
    this.inserted.push({ at: now, nChars: inserted.length, nLines });
    const total = (count: (one: Insertion) => number): number =>
      this.inserted.reduce((sum, one) => sum + count(one), 0);
    const isPaste =
      total(({ nChars }) => nChars) >= PASTE_CHARS || total((one) => one.nLines) >= PASTE_LINES;
    this.editedLine = isPaste ? undefined : line;
    this.isWanted = false;
  }

  /** Note that the cursor moved to a line. */
  moved(now: number, line: number): void {
    this.lastKey = now;
    // What was accepted is still to be asked about: its own move may be told late.
    if (this.editedLine !== undefined) this.isWanted = line !== this.editedLine;
  }

  /** Note that an edit or a suggestion was accepted and is applied, or that the user asks. */
  wanted(): void {
    this.editedLine = undefined;
    this.isWanted = true;
    this.inserted = [];
    this.asked = "";
  }

  /** Forget what was edited: another document is in front, or the change was undone. */
  forget(): void {
    this.editedLine = undefined;
    this.isWanted = false;
  }

  /** Milliseconds until it may be time to ask; undefined where nothing is to be asked. */
  waitMs(now: number): number | undefined {
    if (this.isWanted) return 0;
    return this.editedLine === undefined ? undefined : Math.max(0, this.lastKey + IDLE_MS - now);
  }

  /** Whether to ask now; `place` names the version and the cursor, which then count as asked. */
  isDue(now: number, place: string): boolean {
    if (this.waitMs(now) !== 0 || place === this.asked) return false;
    this.asked = place;
    this.forget();
    return true;
  }
}
