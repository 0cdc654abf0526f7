/** A window of the workbench as a user sees it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { errors, type FrameLocator, type Locator, type Page } from "playwright-core";
import { choose } from "./quickInput.js";
import { doUntil, until } from "./until.js";
import { ARTEFACTS, type Workbench } from "./workbench.js";

const GHOST = ".ghost-text-decoration, .ghost-text-decoration-preview, .ghost-text";

/** The editor asks at each key; a busy machine may lose the last of them. */
const ASK_AFTER_MS = 8000;
const CLICK_MS = 5000;
const FOLDERS_MS = 30_000;
const MAX_RELOADS = 2;

export class Editor {
  /** How often ghost text was asked for since none came by itself, in all windows. */
  static nAsked = 0;
  /** How often a list had to be opened again before it showed what was wanted. */
  static nReopened = 0;
  /** How often a window came up without its folders, and was loaded again. */
  static nReloaded = 0;

  private constructor(
    readonly workbench: Workbench,
    readonly page: Page,
  ) {}

  /**
   * Open a folder, or a .code-workspace file, with a file in front.
   *
   * `untilReady` waits for the extension, which is this one unless another is tested.
   */
  static async open(
    workbench: Workbench,
    place: string,
    file: string,
    untilReady = async (editor: Editor): Promise<void> => {
      await editor.untilStatus(/speclsp: ready/);
    },
  ): Promise<Editor> {
    const kind = place.endsWith(".code-workspace") ? "workspace" : "folder";
    const page = await workbench.page(`${kind}=${place}`, [["openFile", workbench.remote(file)]]);
    const editor = new Editor(workbench, page);
    try {
      await editor.untilFolders();
      await page.locator(".monaco-editor .view-lines").first().waitFor();
      await untilReady(editor);
    } catch (error) {
      await workbench.evidence("failed: opening");
      throw new Error(`the status item says: ${await editor.spokenStatus()}`, { cause: error });
    }
    return editor;
  }

  /**
   * Wait until the explorer shows what is open.
   *
   * The first window of a .code-workspace sometimes comes up without any folder, and stays so: the
   * editor read the file before it could reach the machine that has it.  A user loads it again.
   */
  private async untilFolders(): Promise<void> {
    const row = this.page.locator(".explorer-folders-view .monaco-list-row").first();
    for (let idx = 0; idx < MAX_RELOADS; idx++) {
      try {
        await row.waitFor({ timeout: FOLDERS_MS });
        return;
      } catch (error) {
        if (!(error instanceof errors.TimeoutError)) throw error;
        Editor.nReloaded += 1;
        await this.page.reload();
      }
    }
    await row.waitFor();
  }

  get status(): Locator {
    return this.page.locator('[id="speclsp.speclsp.speclsp"]');
  }

  /** What a screen reader says of the status item. */
  async spokenStatus(): Promise<string> {
    const label = this.status.locator("[aria-label]").first();
    return (await label.count()) > 0 ? ((await label.getAttribute("aria-label")) ?? "") : "";
  }

  async untilStatus(pattern: RegExp): Promise<string> {
    return until(`the status item says ${String(pattern)}`, async () => {
      const said = await this.spokenStatus();
      return pattern.test(said) ? said : undefined;
    });
  }

  /** The ghost text, lines in the order in which they are seen. */
  async ghost(): Promise<string> {
    const spans = await this.page.locator(GHOST).evaluateAll((nodes) =>
      nodes
        // Spans of a line lie inside one another in some places: the innermost hold the text.
        .filter((node) => node.querySelector(`[class*="ghost-text"]`) === null)
        .map((node) => {
          const { top, left } = node.getBoundingClientRect();
          return { top: Math.round(top), left, text: node.textContent };
        }),
    );
    spans.sort((a, b) => a.top - b.top || a.left - b.left);
    const lines = new Map<number, string>();
    for (const { top, text } of spans) lines.set(top, (lines.get(top) ?? "") + text);
    return [...lines.values()]
      .join("\n")
      .replace(/\u00a0/g, " ")
      .replace(/\u200c/g, "");
  }

  /** Wait for a suggestion that has settled; ask for it where none comes by itself. */
  async untilGhost(): Promise<string> {
    let askAt = Date.now() + ASK_AFTER_MS;
    return until("ghost text appears", async () => {
      if (Date.now() > askAt) {
        askAt = Date.now() + ASK_AFTER_MS;
        Editor.nAsked += 1;
        await this.keys("Alt+\\");
      }
      const first = await this.ghost();
      if (first.trim() === "") return undefined;
      await this.page.waitForTimeout(300);
      return first === (await this.ghost()) ? first : undefined;
    });
  }

  async untilNoGhost(): Promise<void> {
    await until("ghost text goes", async () => ((await this.ghost()) === "" ? true : undefined));
  }

  /** Resolves once no ghost text is drawn, for however short a time. */
  async ghostGoes(): Promise<void> {
    await this.page.waitForFunction((ghost) => document.querySelector(ghost) === null, GHOST);
  }

  /** Press a key until there is something to see; each press must do no harm. */
  async keyUntil<T>(
    key: string,
    what: string,
    look: () => T | undefined | Promise<T | undefined>,
  ): Promise<T> {
    return doUntil(what, () => this.keys(key), look);
  }

  async keys(...keys: string[]): Promise<void> {
    for (const key of keys) await this.page.keyboard.press(key);
  }

  async type(text: string): Promise<void> {
    await this.page.keyboard.type(text, { delay: 15 });
  }

  /** Put the cursor behind the last line. */
  async toEnd(): Promise<void> {
    const lines = this.page.locator(".editor-instance .view-lines").first();
    await doUntil(
      "the editor has the focus",
      // Something may lie over the lines for a while.
      () => lines.click({ timeout: CLICK_MS }).catch(() => this.keys("Escape")),
      () => this.page.evaluate(() => document.activeElement?.closest(".editor-instance") != null),
    );
    await this.keys("Control+End");
  }

  async command(title: string): Promise<void> {
    Editor.nReopened += await choose(this.page, "F1", `>${title}`, title);
    await this.page.locator(".quick-input-widget").first().waitFor({ state: "hidden" });
  }

  async openFile(name: string): Promise<void> {
    Editor.nReopened += await choose(this.page, "Control+P", name, name);
    // The tab changes before the lines below it do.
    await this.page.locator(`.editor-instance .monaco-editor[data-uri$="/${name}"]`).waitFor();
  }

  /** Save, and return the file's text once it fulfils the condition. */
  async saved(file: string, condition: (text: string) => boolean): Promise<string> {
    let last = "";
    try {
      return await this.keyUntil("Control+S", `${file} is saved as expected`, () => {
        last = readFileSync(file, "utf8");
        return condition(last) ? last : undefined;
      });
    } catch (error) {
      throw new Error(`the file ends with ${JSON.stringify(last.slice(-300))}`, { cause: error });
    }
  }

  /** Take a picture of the window, or of its first `height` pixels' lines alone. */
  async picture(name: string, height?: number, width = 640): Promise<void> {
    const path = join(ARTEFACTS, `${name}.png`);
    const box = await this.page.locator(".editor-instance").first().boundingBox();
    const lines = box !== null && height !== undefined && { clip: { ...box, width, height } };
    await this.page.screenshot({ path, ...lines });
  }

  /** Show or hide the side bar. */
  async showSideBar(isShown: boolean): Promise<void> {
    const sideBar = this.page.locator(".part.sidebar").first();
    await this.keyUntil(
      "Control+B",
      "the side bar is switched",
      async () => (await sideBar.isVisible()) === isShown,
    );
  }

  get panel(): FrameLocator {
    return this.page
      .locator("iframe.webview.ready")
      .first()
      .contentFrame()
      .frameLocator("iframe#active-frame");
  }

  /** A figure of the statistics panel, which must be open. */
  async figure(name: string): Promise<string> {
    return this.panel
      .locator("#figures")
      .evaluate(
        (list, wanted) =>
          [...list.querySelectorAll("div")]
            .find((node) => node.querySelector("dt")?.textContent === wanted)
            ?.querySelector("dd")?.textContent ?? "",
        name,
      );
  }

  async close(): Promise<void> {
    await this.page.context().close();
  }
}
