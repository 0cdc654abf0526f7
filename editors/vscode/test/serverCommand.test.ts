import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { test } from "node:test";
import { executableIn, findServer, onPath, run, ServerCommandError } from "../src/serverCommand.js";

const root = mkdtempSync(join(tmpdir(), "speclsp-command-"));

function executable(file: string, mode = 0o755): string {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, "#!/bin/sh\n");
  chmodSync(file, mode);
  return file;
}

const onAPath = executable(join(root, "bin", "speclsp"));
const environment = join(root, "environment");
const inEnvironment = executable(executableIn(environment, "speclsp"));
const path = ["relative", join(root, "none"), dirname(onAPath)].join(delimiter);

test("the setting comes before PATH, and PATH before the private environment", async () => {
  const named = executable(join(root, "own", "my-speclsp"));
  assert.deepEqual(await findServer(named, environment, path), {
    command: named,
    origin: "setting",
  });
  assert.deepEqual(await findServer("", environment, path), { command: onAPath, origin: "path" });
  const without = { command: inEnvironment, origin: "environment" };
  assert.deepEqual(await findServer("", environment, root), without);
  assert.equal(await findServer("", join(root, "missing"), root), undefined);
});

test("the setting may be a name on PATH", async () => {
  assert.equal((await findServer("speclsp", environment, path))?.command, onAPath);
});

test("a setting that names nothing to run is an error, not a reason to run another", async () => {
  const notExecutable = executable(join(root, "plain"), 0o644);
  for (const setting of [join(root, "missing"), notExecutable, root, "./bin/speclsp", "missing"]) {
    await assert.rejects(findServer(setting, environment, path), ServerCommandError, setting);
  }
});

test("relative folders on PATH are passed over: they depend on the open folder", async () => {
  process.chdir(root);
  assert.equal(await onPath("speclsp", ["bin", "."].join(delimiter)), undefined);
});

test("what a command wrote and how it ended are told, whatever happens", async () => {
  const lines: string[] = [];
  const ran = await run("sh", ["-c", "echo out; echo err >&2; exit 3"], undefined, (line) => {
    lines.push(line);
  });
  assert.equal(ran.code, 3);
  assert.deepEqual(lines.sort(), ["err", "out"]);
  const missing = await run(join(root, "missing"), []);
  assert.equal(missing.code, null);
  assert.match(missing.output, /ENOENT/);
});

test("a command is stopped on request", async () => {
  const stop = new AbortController();
  const running = run("sleep", ["60"], stop.signal);
  stop.abort();
  assert.equal((await running).code, null);
});
