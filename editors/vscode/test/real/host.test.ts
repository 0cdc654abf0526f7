/** Runs test/host in the extension hosts of real windows: a trusted one and one that is not. */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { until } from "./until.js";
import { ARTEFACTS, EXTENSION, Workbench, type Options } from "./workbench.js";

/** For all tests of a window together. */
const MAX_MS = 400_000;

async function runInHost(
  options: Options,
  files: (folder: string) => Record<string, string>,
): Promise<string> {
  const workbench = await Workbench.start({
    ...options,
    args: ["--vscode-option", "enable-smoke-test-driver"],
  });
  try {
    const folder = workbench.folder("project", {});
    workbench.folder("project", files(folder));
    mkdirSync(ARTEFACTS, { recursive: true });
    const page = await workbench.page(`folder=${folder}`, [
      ["extensionDevelopmentPath", workbench.remote(EXTENSION)],
      ["extensionTestsPath", workbench.remote(join(EXTENSION, "dist/test/host/index.js"))],
    ]);
    // The editor calls both; what the tests say lies in their report.
    await page.exposeFunction("codeAutomationLog", () => undefined);
    await page.exposeFunction("codeAutomationExit", () => undefined);
    try {
      return await until(
        "the tests in the extension host end",
        () => {
          try {
            return readFileSync(join(folder, ".results", "report.txt"), "utf8");
          } catch {
            return undefined;
          }
        },
        MAX_MS,
      );
    } finally {
      await workbench.evidence(`extension-host-${String(options.trust !== false)}`);
    }
  } finally {
    await workbench.close();
  }
}

function check(report: string): void {
  console.log(report);
  assert.match(report, /^ok /);
  assert.doesNotMatch(report, /^not ok/m);
}

test("the extension in the extension host", async () => {
  check(await runInHost({}, () => ({})));
});

test("the extension in an untrusted workspace", async () => {
  const settings = { "security.workspace.trust.startupPrompt": "never" };
  check(
    await runInHost({ trust: false, settings }, (folder) => ({
      evil: `#!/bin/sh\ntouch ${folder}/evil-ran\n`,
      ".vscode/settings.json": JSON.stringify({
        "speclsp.server.path": join(folder, "evil"),
        "speclsp.server.arguments": ["--model", "evil.gguf"],
        "speclsp.model": join(folder, "evil.gguf"),
        "speclsp.maxLines": 7,
      }),
    })),
  );
});
