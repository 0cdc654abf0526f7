/** The quick input: the command palette and the search for files. */
import { errors, type Page } from "playwright-core";

const WIDGET = ".quick-input-widget";
const INPUT = `${WIDGET} .quick-input-box input`;
const ROW = ".quick-input-list .monaco-list-row";

/**
 * How long each try waits for what it needs.
 *
 * A search that began before the window knew its folders stays empty for as long as its list is
 * open, and a list closes where something else takes the focus: both need another try, and a busy
 * machine needs longer ones.
 */
const TRIES_MS = [5_000, 10_000, 20_000, 40_000];

/**
 * Press a key, type into the list that opens, and click the row with a text.
 *
 * Returns how many further tries it took.  Throws what each try saw where none was enough.
 */
export async function choose(page: Page, key: string, typed: string, row: string): Promise<number> {
  const seen: string[] = [];
  for (const timeout of TRIES_MS) {
    try {
      await page.keyboard.press(key);
      const input = page.locator(INPUT).first();
      await input.waitFor({ timeout });
      await input.fill(typed, { timeout });
      await page.locator(ROW, { hasText: row }).first().click({ timeout });
      return seen.length;
    } catch (error) {
      if (!(error instanceof errors.TimeoutError)) throw error;
      seen.push(await whatIsSeen(page));
      if (await page.locator(WIDGET).first().isVisible()) await page.keyboard.press("Escape");
    }
  }
  throw new Error(`${key} showed no row ${JSON.stringify(row)}:\n${seen.join("\n")}`);
}

async function whatIsSeen(page: Page): Promise<string> {
  return page.evaluate(
    ([widget, input, row]) => {
      const found = document.querySelector<HTMLElement>(widget);
      const focus = document.activeElement;
      return JSON.stringify({
        isOpen: found !== null && found.style.display !== "none",
        typed: document.querySelector<HTMLInputElement>(input)?.value,
        rows: [...document.querySelectorAll<HTMLElement>(row)].map((node) => node.innerText),
        focus: `${focus?.tagName ?? "nothing"} ${focus?.className ?? ""}`,
      });
    },
    [WIDGET, INPUT, ROW] as const,
  );
}
