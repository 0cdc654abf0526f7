/** Restricted Mode without a server: what keeps it from being installed, and the way out. */
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ARTEFACTS, EXTENSION, Workbench } from "./workbench.js";

test("Restricted Mode says why nothing is installed, and leads to the workspace's trust", async () => {
  mkdirSync(ARTEFACTS, { recursive: true });
  const workbench = await Workbench.start({
    vsix: join(EXTENSION, "dist", "speclsp.vsix"),
    trust: false,
    settings: { "speclsp.server.path": "", "security.workspace.trust.startupPrompt": "never" },
  });
  try {
    const folder = workbench.folder("shop", { "greetings.py": "x = 1\n" });
    const page = await workbench.page(`folder=${folder}`, [
      ["openFile", workbench.remote(join(folder, "greetings.py"))],
    ]);
    const toast = page
      .locator(".notifications-toasts .notification-list-item", { hasText: "Restricted Mode" })
      .first();
    await toast.waitFor();
    await page.screenshot({ path: join(ARTEFACTS, "restricted.png") });
    await toast.locator(".monaco-button", { hasText: "Manage Trust" }).first().click();
    const trust = page.locator(".workspace-trust-editor");
    await trust.waitFor();
    await page.keyboard.press("Escape");
    await trust.waitFor({ state: "hidden" });
    await page.locator('[id="speclsp.speclsp.speclsp"]').click();
    const rows = page.locator(".quick-input-list .monaco-list-row");
    await rows.filter({ hasText: "Manage the workspace's trust" }).first().waitFor();
    assert.equal(await rows.filter({ hasText: "Install the server" }).count(), 0);
  } finally {
    await workbench.evidence("trust");
    await workbench.close();
  }
});
