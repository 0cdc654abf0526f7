import * as vscode from "vscode";
import { AskingMoments } from "./askingMoments.js";
import type { Client } from "./client.js";
import {
  columns,
  common,
  distance,
  hunksOf,
  marksOf,
  spoken,
  typedThrough,
  type Hunk,
  type NextEdit,
} from "./shownEdit.js";
import { minutesSnoozed } from "./stateWords.js";
import { suggestsIn } from "./toggle.js";
import { whyNoEdit } from "./whyNoEdit.js";

/** Lines between cursor and edit up to which one key applies it; farther off, it goes there first. */
const NEAR = 2;
const HAS_EDIT = "speclsp.hasEdit";
const DECLINED = "speclsp.declinedEdit";

/** An edit that is on screen. */
interface Shown {
  edit: NextEdit;
  /** Where it is drawn. */
  editor: vscode.TextEditor;
  /** What it changes: the editor's document, or another one that Tab leads to. */
  document: vscode.TextDocument;
  hunks: Hunk[];
  /** The document's lines as they are. */
  lines: string[];
}

/** Asks for next edits, draws one, and applies or declines it. */
export class NextEdits implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  /** Fires when an edit appears or goes. */
  readonly onDidChange = this.changed.event;
  private readonly moments = new AskingMoments();
  private readonly types = decorationTypes();
  private readonly place: vscode.TextEditorDecorationType;
  private readonly listeners: vscode.Disposable[];
  private due: NodeJS.Timeout | undefined;
  private asking: vscode.CancellationTokenSource | undefined;
  private shown: Shown | undefined;
  private isApplying = false;
  /** Whether Tab leads to another document right now. */
  private isLeading = false;
  /** Whether the user has asked by hand and has not been answered. */
  private isAskedByHand = false;

  constructor(
    private readonly client: Client,
    extension: vscode.Uri,
  ) {
    this.place = vscode.window.createTextEditorDecorationType({
      gutterIconPath: vscode.Uri.joinPath(extension, "media", "gutter", "nextEdit.svg"),
      gutterIconSize: "contain",
      overviewRulerColor: new vscode.ThemeColor("editorOverviewRuler.modifiedForeground"),
      overviewRulerLane: vscode.OverviewRulerLane.Center,
    });
    this.listeners = [
      vscode.workspace.onDidChangeTextDocument((event) => {
        this.documentChanged(event);
      }),
      vscode.workspace.onDidCloseTextDocument((document) => {
        if (document === this.shown?.document) this.drop();
      }),
      vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => {
        this.cursorMoved(textEditor);
      }),
      vscode.window.onDidChangeActiveTextEditor((editor) => {
        const isLed = editor !== undefined && editor === this.shown?.editor;
        if (this.isLeading || isLed) return;
        this.moments.forget();
        this.drop();
      }),
      vscode.window.onDidChangeActiveColorTheme(() => {
        this.draw();
      }),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration("speclsp")) this.drop();
      }),
      client.onDidChange(() => {
        if (!client.isRunning || minutesSnoozed(client.status) > 0) this.drop();
        this.schedule();
      }),
      client.onDidSuggest(() => {
        this.drop();
      }),
      client.onDidAccept(() => {
        this.moments.wanted();
        this.schedule();
      }),
    ];
  }

  /** What is shown, in a sentence; empty where nothing is. */
  get words(): string {
    if (this.shown === undefined) return "";
    const { hunks, lines, document } = this.shown;
    return spoken(hunks, lines, isElsewhere(this.shown) ? nameOf(document) : undefined);
  }

  /** Apply the edit that is shown, or go to it where it is far from the cursor. */
  async accept(): Promise<void> {
    const { shown } = this;
    if (shown === undefined) return;
    if (isElsewhere(shown)) {
      await this.lead(shown);
      return;
    }
    const { editor, hunks } = shown;
    if (this.isFar(shown)) {
      editor.selection = placeOf(shown);
      editor.revealRange(editor.selection, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
      return;
    }
    this.hide();
    this.isApplying = true;
    try {
      const { document } = editor;
      const { version } = document;
      const replacements = hunks.map((hunk) => replacementOf(hunk, document));
      const isApplied = await editor.edit((builder) => {
        for (const { range, text } of replacements) builder.replace(range, text);
      });
      if (!isApplied) return;
      // What was typed meanwhile goes on where it began.
      if (document.version === version + 1) editor.selection = endOf(replacements, document);
    } finally {
      this.isApplying = false;
    }
    // The change is on its way to the server before the command is.
    await this.client.tellEdit(shown.edit.id, "speclsp.acceptedEdit");
    this.moments.wanted();
    this.schedule();
  }

  /** Open the document of an edit at its place, and show the edit there. */
  private async lead(shown: Shown): Promise<void> {
    const { document, edit } = shown;
    const { version } = document;
    const open = vscode.window.visibleTextEditors.find((editor) => editor.document === document);
    this.drop();
    this.moments.forget();
    this.isLeading = true;
    try {
      const editor = await vscode.window.showTextDocument(document, {
        selection: placeOf(shown),
        ...(open?.viewColumn !== undefined && { viewColumn: open.viewColumn }),
      });
      const isSame = editor.document === document && document.version === version;
      if (isSame) this.show(editor, document, edit);
    } finally {
      this.isLeading = false;
    }
  }

  /** Take the edit away, and let the server propose it no more. */
  async decline(): Promise<void> {
    const id = this.shown?.edit.id;
    this.drop();
    if (id !== undefined) await this.client.tellEdit(id, DECLINED);
  }

  /** Ask now; where nothing comes, say why. */
  ask(): void {
    this.isAskedByHand = true;
    this.moments.wanted();
    this.schedule();
  }

  /** Say in words what is shown, which a screen reader reads out. */
  describe(): void {
    const words = this.words || "No next edit is shown.";
    void vscode.window.showInformationMessage(`speclsp: ${words}`);
  }

  // --- when to ask -------------------------------------------------------------------------------

  private documentChanged(event: vscode.TextDocumentChangeEvent): void {
    const { document, contentChanges, reason } = event;
    const editor = vscode.window.activeTextEditor;
    if (contentChanges.length === 0 || this.isApplying) return;
    if (document !== editor?.document) {
      if (document === this.shown?.document) this.drop();
      return;
    }
    this.asking?.cancel();
    this.isAskedByHand = false;
    const [change] = contentChanges;
    if (reason !== undefined || change === undefined) {
      // Who undoes wants back what was there.
      this.moments.forget();
      this.drop();
      return;
    }
    this.keepOrDrop(document, contentChanges);
    this.moments.edited(Date.now(), change.range.start.line, change.text);
    this.schedule();
  }

  private cursorMoved(editor: vscode.TextEditor): void {
    if (editor !== vscode.window.activeTextEditor || this.isApplying) return;
    this.moments.moved(Date.now(), editor.selection.active.line);
    if (this.shown?.editor === editor) this.draw();
    this.schedule();
  }

  private schedule(): void {
    clearTimeout(this.due);
    const waitMs = this.moments.waitMs(Date.now());
    if (waitMs === undefined) return;
    this.due = setTimeout(() => {
      void this.askIfDue();
    }, waitMs);
  }

  private async askIfDue(): Promise<void> {
    if (this.moments.waitMs(Date.now()) !== 0) {
      // Timers may fire a moment early.
      this.schedule();
      return;
    }
    const editor = vscode.window.activeTextEditor;
    if (editor === undefined) return;
    if (!this.mayAsk(editor)) {
      if (this.isAskedByHand) this.moments.forget();
      await this.tellWhyNone(editor);
      return;
    }
    const { document, selection } = editor;
    const { line, character } = selection.active;
    const at = [document.uri, document.version, line, character].join(" ");
    if (!this.moments.isDue(Date.now(), at)) return;
    this.asking?.cancel();
    const asking = new vscode.CancellationTokenSource();
    this.asking = asking;
    const { version } = document;
    const edit = await this.client.nextEdit(document, selection.active, asking.token);
    // A suggestion that was asked for meanwhile comes first.
    await this.client.untilAnswered();
    const isStale = asking.token.isCancellationRequested || document.version !== version;
    if (isStale || vscode.window.activeTextEditor !== editor) return;
    if (edit === undefined || this.client.isSuggesting(editor)) {
      await this.tellWhyNone(editor);
      return;
    }
    const { textDocument } = edit;
    const uri = vscode.Uri.parse(textDocument.uri).toString();
    const changed = vscode.workspace.textDocuments.find((one) => one.uri.toString() === uri);
    if (changed?.version !== textDocument.version) {
      await this.tellWhyNone(editor);
      return;
    }
    this.isAskedByHand = false;
    this.show(editor, changed, edit);
  }

  /** Say why nothing came, where the user has asked by hand. */
  private async tellWhyNone(editor: vscode.TextEditor): Promise<void> {
    if (!this.isAskedByHand) return;
    this.isAskedByHand = false;
    const { words, remedy } = whyNoEdit({
      areOn: this.areOn(editor.document),
      suggestsHere: suggestsIn(editor.document),
      minutesSnoozed: minutesSnoozed(this.client.status),
      hasOneCursor: editor.selections.length === 1 && editor.selection.isEmpty,
      isSuggesting: this.client.isSuggesting(editor),
      nextEdits: (await this.client.statistics())?.next_edits ?? "",
    });
    const labels = remedy === undefined ? [] : [remedy.label];
    const choice = await vscode.window.showInformationMessage(`speclsp: ${words}`, ...labels);
    if (choice !== undefined && remedy !== undefined) {
      await vscode.commands.executeCommand(remedy.command, ...(remedy.args ?? []));
    }
  }

  private areOn(document: vscode.TextDocument): boolean {
    return vscode.workspace.getConfiguration("speclsp", document).get<boolean>("nextEdits", true);
  }

  private mayAsk(editor: vscode.TextEditor): boolean {
    const { document } = editor;
    return (
      this.client.isRunning &&
      minutesSnoozed(this.client.status) === 0 &&
      this.areOn(document) &&
      suggestsIn(document) &&
      editor.selections.length === 1 &&
      editor.selection.isEmpty &&
      !this.client.isSuggesting(editor)
    );
  }

  // --- what is shown -----------------------------------------------------------------------------

  private show(editor: vscode.TextEditor, document: vscode.TextDocument, edit: NextEdit): void {
    const isNew = this.shown?.edit.id !== edit.id;
    this.hide();
    const lines = linesOf(document);
    this.shown = { edit, editor, document, hunks: hunksOf(edit), lines };
    this.draw();
    void vscode.commands.executeCommand("setContext", HAS_EDIT, true);
    if (isNew) this.client.didShowEdit(edit.id);
    this.changed.fire();
  }

  private keepOrDrop(
    document: vscode.TextDocument,
    changes: readonly vscode.TextDocumentContentChangeEvent[],
  ): void {
    const { shown } = this;
    if (shown?.editor.document !== document) return;
    const [change] = changes;
    const lines = linesOf(document);
    const left =
      change === undefined || changes.length > 1 || isElsewhere(shown)
        ? undefined
        : typedThrough(shown.hunks, shown.lines, lines, {
            start: change.range.start,
            end: change.range.end,
            text: change.text,
          });
    if (left === undefined || left.length === 0) {
      this.drop();
      return;
    }
    this.shown = { ...shown, hunks: left, lines };
    this.draw();
  }

  /** Take the picture away, for good. */
  private drop(): void {
    this.asking?.cancel();
    this.hide();
  }

  private hide(): void {
    const { shown } = this;
    if (shown === undefined) return;
    this.shown = undefined;
    for (const type of [...Object.values(this.types), this.place]) {
      shown.editor.setDecorations(type, []);
    }
    void vscode.commands.executeCommand("setContext", HAS_EDIT, false);
    this.changed.fire();
  }

  private isFar({ hunks, editor }: Shown): boolean {
    return distance(hunks, editor.selection.active.line) > NEAR;
  }

  private draw(): void {
    const { shown } = this;
    if (shown === undefined) return;
    const { editor, hunks, lines, document } = shown;
    const { deleted, deletedLine, added, hint } = this.types;
    if (isElsewhere(shown)) {
      const where = `${nameOf(document)}:${String(placeOf(shown).active.line + 1)}`;
      editor.setDecorations(hint, [hinted(editor, `⇥ next edit in ${where}`)]);
      return;
    }
    const tabSize = Number(editor.options.tabSize ?? 4);
    const marks = hunks.flatMap((hunk) => marksOf(hunk, lines, tabSize));
    const struck: vscode.Range[] = [];
    const struckLines: vscode.Range[] = [];
    const texts: vscode.DecorationOptions[] = [];
    for (const mark of marks) {
      const text = lines[mark.line] ?? "";
      const start = text.length - text.trimStart().length;
      const end = text.length;
      switch (mark.kind) {
        case "deleted":
          struck.push(new vscode.Range(mark.line, mark.start, mark.line, mark.end));
          break;
        case "deletedLine":
          // A whole tinted line would lie under the new lines beside it.
          (start < end ? struck : struckLines).push(
            new vscode.Range(mark.line, start, mark.line, end),
          );
          break;
        case "inserted":
          texts.push(attached(mark.line, mark.character, mark.text, 0));
          break;
        case "after":
          texts.push(attached(mark.line, end, mark.text, 2));
          break;
        case "beside":
          texts.push(attached(mark.line, end, mark.text, mark.column - columns(text, tabSize)));
          break;
      }
    }
    editor.setDecorations(deleted, struck);
    editor.setDecorations(deletedLine, struckLines);
    editor.setDecorations(added, texts);
    const isFar = this.isFar(shown);
    const first = Math.min(hunks[0]?.start ?? 0, lines.length - 1);
    editor.setDecorations(this.place, isFar ? [new vscode.Range(first, 0, first, 0)] : []);
    const words = `⇥ next edit in line ${String(first + 1)}`;
    editor.setDecorations(hint, isFar ? [hinted(editor, words)] : []);
  }

  dispose(): void {
    clearTimeout(this.due);
    this.drop();
    for (const listener of this.listeners) listener.dispose();
    for (const type of Object.values(this.types)) type.dispose();
    this.place.dispose();
    this.changed.dispose();
  }
}

function decorationTypes(): Record<
  "deleted" | "deletedLine" | "added" | "hint",
  vscode.TextEditorDecorationType
> {
  const make = (options: vscode.DecorationRenderOptions): vscode.TextEditorDecorationType =>
    vscode.window.createTextEditorDecorationType({
      rangeBehavior: vscode.DecorationRangeBehavior.ClosedClosed,
      ...options,
    });
  return {
    deleted: make({
      textDecoration: "line-through",
      backgroundColor: new vscode.ThemeColor("diffEditor.removedTextBackground"),
    }),
    deletedLine: make({
      isWholeLine: true,
      backgroundColor: new vscode.ThemeColor("diffEditor.removedLineBackground"),
    }),
    added: make({}),
    hint: make({}),
  };
}

/** Text behind a place, in the colours of inserted text of the theme's diffs. */
function attached(
  line: number,
  character: number,
  text: string,
  marginColumns: number,
): vscode.DecorationOptions {
  const { kind } = vscode.window.activeColorTheme;
  const hasContrast =
    kind === vscode.ColorThemeKind.HighContrast || kind === vscode.ColorThemeKind.HighContrastLight;
  return {
    range: new vscode.Range(line, character, line, character),
    renderOptions: {
      after: {
        // Attachments collapse spaces.
        contentText: text.replaceAll(" ", "\u00a0"),
        color: new vscode.ThemeColor("editor.foreground"),
        backgroundColor: new vscode.ThemeColor("diffEditor.insertedTextBackground"),
        margin: `0 0 0 ${String(marginColumns)}ch`,
        // Themes of high contrast draw no backgrounds.
        ...(hasContrast && {
          border: "1px solid",
          borderColor: new vscode.ThemeColor("contrastBorder"),
        }),
      },
    },
  };
}

/** Words behind the cursor's line. */
function hinted(editor: vscode.TextEditor, words: string): vscode.DecorationOptions {
  const { end } = editor.document.lineAt(editor.selection.active.line).range;
  return {
    range: new vscode.Range(end, end),
    renderOptions: {
      after: {
        contentText: words.replaceAll(" ", "\u00a0"),
        color: new vscode.ThemeColor("editorGhostText.foreground"),
        margin: "0 0 0 3ch",
      },
    },
  };
}

/** Whether an edit is of another document than that of the editor in which it is announced. */
function isElsewhere({ editor, document }: Shown): boolean {
  return editor.document !== document;
}

/** Where an edit begins: behind the indentation of its first line. */
function placeOf({ hunks, document }: Shown): vscode.Selection {
  const line = Math.min(hunks[0]?.start ?? 0, document.lineCount - 1);
  const { firstNonWhitespaceCharacterIndex: column } = document.lineAt(line);
  return new vscode.Selection(line, column, line, column);
}

function nameOf(document: vscode.TextDocument): string {
  return document.uri.path.split("/").at(-1) ?? "";
}

function linesOf(document: vscode.TextDocument): string[] {
  return document.getText().split(/\r\n|\n/);
}

interface Replaced {
  range: vscode.Range;
  text: string;
}

/** What is left of a hunk: the characters in which the document's lines differ from it. */
function replacementOf({ start, end, lines }: Hunk, document: vscode.TextDocument): Replaced {
  const eol = document.eol === vscode.EndOfLine.CRLF ? "\r\n" : "\n";
  const isLast = end >= document.lineCount;
  const range = document.validateRange(new vscode.Range(start, 0, end, 0));
  const old = document.getText(range);
  const text = lines.map((line) => line + eol).join("");
  const now = isLast ? text.slice(0, -eol.length) : text;
  const { before, after } = common(old, now);
  const offset = document.offsetAt(range.start);
  return {
    range: new vscode.Range(
      document.positionAt(offset + before),
      document.positionAt(offset + old.length - after),
    ),
    text: now.slice(before, now.length - after),
  };
}

/** Where the last replacement ends, once all are made. */
function endOf(replacements: readonly Replaced[], document: vscode.TextDocument): vscode.Selection {
  const last = replacements.at(-1);
  const lines = last?.text.split(/\r\n|\n/) ?? [];
  const shift = replacements
    .slice(0, -1)
    .map(({ range, text }) => text.split("\n").length - 1 - (range.end.line - range.start.line))
    .reduce((sum, n) => sum + n, 0);
  const { line, character } = last?.range.start ?? new vscode.Position(0, 0);
  const column = (lines.length > 1 ? 0 : character) + (lines.at(-1)?.length ?? 0);
  const place = document.validatePosition(
    new vscode.Position(line + shift + lines.length - 1, column),
  );
  return new vscode.Selection(place, place);
}
