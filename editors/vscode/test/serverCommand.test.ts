import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { test } from "node:test";
import { executableIn, onPath, thisMachine, type Machine } from "../src/machine.js";
import { EnvironmentError, findPython } from "../src/python.js";
import {
  ServerCommandError,
  asOptions,
  checkedArguments,
  findServer,
  run,
} from "../src/serverCommand.js";

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
const here = (...folders: string[]): Machine => ({
  ...thisMachine(),
  path: folders.join(delimiter),
});
const machine = here("relative", join(root, "none"), dirname(onAPath));
const bare = here(root);

/** Another machine, on which these files are the executable ones. */
function elsewhere(kind: "Windows" | "macOS", path: string, ...files: string[]): Machine {
  return {
    isWindows: kind === "Windows",
    home: kind === "Windows" ? "C:\\Users\\me" : "/Users/me",
    path,
    isExecutable: (file) => Promise.resolve(files.includes(file)),
  };
}

test("the setting comes before PATH, and PATH before the private environment", async () => {
  const named = executable(join(root, "own", "my-speclsp"));
  assert.deepEqual(await findServer(named, environment, machine), {
    command: named,
    origin: "setting",
  });
  assert.deepEqual(await findServer("", environment, machine), {
    command: onAPath,
    origin: "path",
  });
  const without = { command: inEnvironment, origin: "environment" };
  assert.deepEqual(await findServer("", environment, bare), without);
  assert.equal(await findServer("", join(root, "missing"), bare), undefined);
});

test("the setting may be a name on PATH", async () => {
  assert.equal((await findServer("speclsp", environment, machine))?.command, onAPath);
});

test("a setting that names nothing to run is an error, not a reason to run another", async () => {
  const notExecutable = executable(join(root, "plain"), 0o644);
  for (const setting of [join(root, "missing"), notExecutable, root, "./bin/speclsp", "missing"]) {
    await assert.rejects(findServer(setting, environment, machine), ServerCommandError, setting);
  }
});

test("settings of another type are errors that name what is expected", async () => {
  await assert.rejects(findServer(["speclsp"], environment, machine), /must be a string/);
  assert.deepEqual(checkedArguments(["--log-level", "debug"]), ["--log-level", "debug"]);
  for (const setting of ["--log-level debug", [1], null]) {
    assert.throws(() => checkedArguments(setting), /must be a list of strings/);
  }
});

test("relative folders on PATH are passed over: they depend on the open folder", async () => {
  process.chdir(root);
  assert.equal(await onPath("speclsp", here("bin", ".")), undefined);
});

test("on Windows programs end in .exe, in folders with a drive", async () => {
  const scripts = "D:\\Python 313\\Scripts";
  const windows = elsewhere(
    "Windows",
    `\\bin2;bin;C:\\Windows;"${scripts}"`,
    `${scripts}\\speclsp.exe`,
    "C:\\Users\\me\\tools\\speclsp.exe",
    "C:\\storage\\environment\\Scripts\\speclsp.exe",
  );
  const own = "C:\\storage\\environment";
  assert.deepEqual(await findServer("", own, windows), {
    command: `${scripts}\\speclsp.exe`,
    origin: "path",
  });
  assert.deepEqual(await findServer("", own, { ...windows, path: "" }), {
    command: `${own}\\Scripts\\speclsp.exe`,
    origin: "environment",
  });
  for (const setting of ["speclsp", "speclsp.exe"]) {
    assert.equal((await findServer(setting, own, windows))?.command, `${scripts}\\speclsp.exe`);
  }
  for (const setting of [
    "~\\tools\\speclsp.exe",
    "~/tools/speclsp.exe",
    "C:\\Users\\me\\tools\\speclsp",
  ]) {
    assert.equal(
      (await findServer(setting, own, windows))?.command,
      "C:\\Users\\me\\tools\\speclsp.exe",
      setting,
    );
  }
  for (const setting of ["tools\\speclsp.exe", "C:tools\\speclsp.exe", "C:\\none.exe"]) {
    await assert.rejects(findServer(setting, own, windows), /there is no executable/, setting);
  }
  await assert.rejects(findServer("C:\\shims\\speclsp.bat", own, windows), /Name the \.exe/);
});

test("on macOS the home folder is meant by ~, and a backslash is a character", async () => {
  const file = "/Users/me/Library/Python/3.13/bin/speclsp";
  const mac = elsewhere("macOS", "/usr/bin:/opt/homebrew/bin", file, "/opt/homebrew/bin/speclsp");
  assert.equal((await findServer("", "/none", mac))?.command, "/opt/homebrew/bin/speclsp");
  const found = await findServer("~/Library/Python/3.13/bin/speclsp", "/none", mac);
  assert.equal(found?.command, file);
  await assert.rejects(findServer("C:\\speclsp.exe", "/none", mac), ServerCommandError);
});

/** Answers what a Python says of its version; others are not there, or are stand-ins. */
function versions(known: Record<string, string>): typeof run {
  return (command) =>
    Promise.resolve(
      known[command] === undefined
        ? { code: 9009, output: "Python was not found" }
        : { code: 0, output: `${known[command]}\n` },
    );
}

test("the first Python that is new enough is taken, whatever it is called", async () => {
  const folder = "/opt/homebrew/bin";
  const programs = ["/usr/bin/python3", `${folder}/py`, `${folder}/python3.12`];
  const mac = elsewhere("macOS", `/usr/bin:${folder}`, ...programs);
  // Only on Windows is py a name of Python's.
  const both = versions({
    "/usr/bin/python3": "3 9",
    [`${folder}/py`]: "3 13",
    [`${folder}/python3.12`]: "3 12",
  });
  assert.equal(await findPython("", mac, both), `${folder}/python3.12`);
  const standIn = "C:\\WindowsApps\\python3.exe";
  const real = "C:\\Python\\python.exe";
  const windows = elsewhere("Windows", "C:\\WindowsApps;C:\\Python", standIn, real);
  assert.equal(await findPython("", windows, versions({ [real]: "3 11" })), real);
  const launcher = "C:\\Windows\\py.exe";
  const installed = elsewhere("Windows", "C:\\WindowsApps;C:\\Windows", standIn, launcher);
  assert.equal(await findPython("", installed, versions({ [launcher]: "3 13" })), launcher);
});

test("a Python that was named is taken or refused, and what was too old is told", async () => {
  const mac = elsewhere("macOS", "/usr/bin", "/usr/bin/python3");
  const known = versions({ "/usr/bin/python3": "3 9", "/own/python": "3 13" });
  assert.equal(await findPython("/own/python", mac, known), "/own/python");
  await assert.rejects(findPython("/usr/bin/python3", mac, known), EnvironmentError);
  await assert.rejects(findPython("", mac, known), /\/usr\/bin\/python3: too old/);
  await assert.rejects(findPython("", { ...mac, path: "" }, known), /None was found/);
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

test("a command is stopped on request, with what it started", { timeout: 30_000 }, async () => {
  const stop = new AbortController();
  // What it started keeps its output open.
  const running = run("sh", ["-c", "sleep 60 & echo started; wait"], stop.signal, () => {
    stop.abort();
  });
  const { code, output } = await running;
  assert.deepEqual([code, output], [null, "started\n"]);
});

test("settings become options: numbers and texts that are set", () => {
  const given = {
    model: "/m.gguf",
    minProbability: 0,
    maxTokens: 64,
    enabled: true,
    exclude: [],
    device: "",
  };
  assert.deepEqual(asOptions(given), [
    "--model",
    "/m.gguf",
    "--min-probability",
    "0",
    "--max-tokens",
    "64",
  ]);
});
