/** Before there is a server: Restricted Mode, the installation, and the ways out of both. */
import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Locator, Page } from "playwright-core";
import { choose } from "./quickInput.js";
import { until } from "./until.js";
import { ARTEFACTS, EXTENSION, Workbench, type Options } from "./workbench.js";

const VSIX = join(EXTENSION, "dist", "speclsp.vsix");
const NO_SERVER = { "speclsp.server.path": "" };
/** What a user needs before there is a server is in the menu, what a server does is not. */
const OF_A_SERVER = [
  "Snooze",
  "Suggestions everywhere",
  "Choose a model",
  "Rebuild the project index",
];

/** A Python that is new enough, whose environments are never finished. */
const SLOW_PYTHON = `#!/bin/sh
case "$1" in
-c) echo 3 12 ;;
*) exec sleep 600 ;;
esac
`;

async function open(options: Options): Promise<[Workbench, Page]> {
  mkdirSync(ARTEFACTS, { recursive: true });
  const workbench = await Workbench.start({ vsix: VSIX, ...options });
  const folder = workbench.folder("shop", { "greetings.py": "x = 1\n" });
  const file = workbench.remote(join(folder, "greetings.py"));
  return [workbench, await workbench.page(`folder=${folder}`, [["openFile", file]])];
}

const status = (page: Page): Locator => page.locator('[id="speclsp.speclsp.speclsp"]');

/** Wait until a screen reader says something of the status item. */
async function untilStatus(page: Page, pattern: RegExp): Promise<void> {
  const label = status(page).locator("[aria-label]").first();
  await until(`the status item says ${String(pattern)}`, async () =>
    pattern.test((await label.getAttribute("aria-label")) ?? ""),
  );
}

function toast(page: Page, text: string): Locator {
  return page
    .locator(".notifications-toasts .notification-list-item", { hasText: text })
    .filter({ visible: true })
    .first();
}

async function press(shown: Locator, button: string): Promise<void> {
  await shown.locator(".monaco-button", { hasText: button }).first().click();
}

/** Open the status item's menu, and return its rows. */
async function menuRows(page: Page): Promise<Locator> {
  await status(page).click();
  const rows = page.locator(".quick-input-list .monaco-list-row");
  await rows.filter({ hasText: "First steps" }).first().waitFor();
  if (await rows.filter({ hasText: "Install the server" }).count()) {
    await rows.filter({ hasText: "Choose an executable" }).first().waitFor();
  }
  for (const row of OF_A_SERVER) assert.equal(await rows.filter({ hasText: row }).count(), 0, row);
  return rows;
}

test("Restricted Mode says why nothing is installed, and leads to the workspace's trust", async () => {
  const [workbench, page] = await open({
    trust: false,
    settings: { ...NO_SERVER, "security.workspace.trust.startupPrompt": "never" },
  });
  try {
    const shown = toast(page, "Restricted Mode");
    await shown.waitFor();
    await page.screenshot({ path: join(ARTEFACTS, "restricted.png") });
    await press(shown, "Manage Trust");
    const trust = page.locator(".workspace-trust-editor");
    await trust.waitFor();
    await page.keyboard.press("Escape");
    await trust.waitFor({ state: "hidden" });
    const rows = await menuRows(page);
    await rows.filter({ hasText: "Manage the workspace's trust" }).first().waitFor();
    assert.equal(await rows.filter({ hasText: "Install the server" }).count(), 0);
  } finally {
    await workbench.evidence("trust");
    await workbench.close();
  }
});

test("a sample without a server offers to install it, and the status tells what is done", async () => {
  const [workbench, page] = await open({ settings: NO_SERVER, env: { PATH: "/usr/bin:/bin" } });
  try {
    await untilStatus(page, /^speclsp: not installed$/);
    const python = join(workbench.root, "slow-python");
    writeFileSync(python, SLOW_PYTHON);
    chmodSync(python, 0o755);
    const settings = JSON.stringify({ ...NO_SERVER, "speclsp.server.python": python });
    for (const kind of ["User", "Machine"]) {
      writeFileSync(join(workbench.root, "data", kind, "settings.json"), settings);
    }
    await page.locator(".notifications-toasts .codicon-notifications-clear").first().click();
    await choose(page, "F1", ">speclsp: Try a Suggestion", "speclsp: Try a Suggestion");
    await press(toast(page, "the server is not installed"), "Install");
    await untilStatus(page, /^speclsp: installing the server$/);
    const rows = await menuRows(page);
    assert.equal(await rows.filter({ hasText: "Install the server" }).count(), 0);
    await page.screenshot({ path: join(ARTEFACTS, "installing.png") });
    await page.keyboard.press("Escape");
    await press(toast(page, "installing the server"), "Cancel");
    await untilStatus(page, /^speclsp: not installed: Installing was cancelled/);
    const storage = join(workbench.root, "data", "User", "globalStorage", "speclsp.speclsp");
    assert.ok(!existsSync(join(storage, "environment")));
  } finally {
    await workbench.evidence("installing");
    await workbench.close();
  }
});
