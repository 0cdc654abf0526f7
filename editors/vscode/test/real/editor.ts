/** A window of the workbench as a user sees it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { FrameLocator, Locator, Page } from "playwright-core";
import { TIMEOUT_MS, until } from "./until.js";
import { ARTEFACTS, type Workbench } from "./workbench.js";

const GHOST = ".ghost-text-decoration, .ghost-text-decoration-preview, .ghost-text";

/** The editor asks at each key; a busy machine may lose the last of them. */
const ASK_AFTER_MS = 8000;

export class Editor {
  /** How often ghost text came only when it was asked for. */
  nAsked = 0;

  private constructor(
    readonly workbench: Workbench,
    readonly page: Page,
  ) {}

  /** Open a folder, or a .code-workspace file, with a file in front. */
  static async open(workbench: Workbench, place: string, file: string): Promise<Editor> {
    const kind = place.endsWith(".code-workspace") ? "workspace" : "folder";
    const page = await workbench.page(`${kind}=${place}`, [["openFile", workbench.remote(file)]]);
    const editor = new Editor(workbench, page);
    await page.locator(".monaco-editor .view-lines").first().waitFor({ timeout: TIMEOUT_MS });
    try {
      await editor.untilStatus(/speclsp: ready/);
    } catch (error) {
      await editor.picture("failed: opening");
      throw new Error(`the status item says: ${await editor.spokenStatus()}`, { cause: error });
    }
    return editor;
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
        askAt = Infinity;
        this.nAsked += 1;
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

  async keys(...keys: string[]): Promise<void> {
    for (const key of keys) await this.page.keyboard.press(key);
  }

  async type(text: string): Promise<void> {
    await this.page.keyboard.type(text, { delay: 15 });
  }

  async focus(): Promise<void> {
    await this.page.locator(".editor-instance .view-lines").first().click();
  }

  /** Put the cursor behind the last line. */
  async toEnd(): Promise<void> {
    await this.focus();
    await this.keys("Control+End");
  }

  async command(title: string): Promise<void> {
    await this.keys("F1");
    const input = this.page.locator(".quick-input-widget input").first();
    await input.waitFor();
    await input.fill(`>${title}`);
    await this.page
      .locator(".quick-input-list .monaco-list-row", { hasText: title })
      .first()
      .click();
    await this.page.locator(".quick-input-widget").first().waitFor({ state: "hidden" });
  }

  async openFile(name: string): Promise<void> {
    await this.keys("Control+P");
    const input = this.page.locator(".quick-input-widget input").first();
    await input.waitFor();
    await input.fill(name);
    await this.page
      .locator(".quick-input-list .monaco-list-row", { hasText: name })
      .first()
      .click();
    await this.page.locator(".tab.active", { hasText: name }).first().waitFor();
  }

  /** Save, and return the file's text once it fulfils the condition. */
  async saved(file: string, condition: (text: string) => boolean): Promise<string> {
    await this.keys("Control+S");
    return until(
      `${file} is saved as expected`,
      () => {
        const text = readFileSync(file, "utf8");
        return condition(text) ? text : undefined;
      },
      10_000,
    );
  }

  async picture(name: string): Promise<void> {
    await this.page.screenshot({ path: join(ARTEFACTS, `${name}.png`) });
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
