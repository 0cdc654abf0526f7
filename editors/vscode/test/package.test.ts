import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";

interface Contributed {
  commands: { command: string; title: string; category: string }[];
  keybindings: { command: string; key: string; when: string }[];
  walkthroughs: { steps: { description: string; media: Record<string, string> }[] }[];
  configuration: { properties: Record<string, { scope: string }> }[];
}

const EXTENSION = resolve(import.meta.dirname, "..", "..");
const read = (name: string): string => readFileSync(join(EXTENSION, name), "utf8");
const manifest = JSON.parse(read("package.json")) as {
  icon: string;
  version: string;
  contributes: Contributed;
  capabilities: { untrustedWorkspaces: { restrictedConfigurations: string[] } };
};
const { commands, keybindings, walkthroughs, configuration } = manifest.contributes;

test("each command is registered, and the other way round", () => {
  const registered = [...read("src/extension.ts").matchAll(/command\("(\w+)"/g)].map(
    (match) => `speclsp.${match[1] ?? ""}`,
  );
  assert.deepEqual(commands.map(({ command }) => command).sort(), registered.sort());
});

test("the walkthrough's pictures and commands exist", () => {
  const names = commands.map(({ command }) => command);
  for (const { description, media } of walkthroughs.flatMap(({ steps }) => steps)) {
    const file = media["image"] ?? media["markdown"] ?? "";
    assert.ok(existsSync(join(EXTENSION, file)), file);
    for (const [, command = ""] of description.matchAll(/command:(speclsp\.\w+)/g)) {
      assert.ok(names.includes(command), command);
    }
  }
  assert.ok(existsSync(join(EXTENSION, manifest.icon)));
});

test("settings are opened where a remote window has them", () => {
  // VS Code's own command opens the user's, in which a remote machine's are not found.
  const opener = /workbench\.action\.openSettings/;
  assert.doesNotMatch(read("package.json"), opener);
  for (const name of readdirSync(join(EXTENSION, "src"))) {
    if (name !== "openSettings.ts") assert.doesNotMatch(read(join("src", name)), opener, name);
  }
});

test("keys work only where there is ghost text or an editor of a running server", () => {
  for (const { when } of keybindings) assert.match(when, /speclsp\.running/);
});

test("what is run, and which models, is not for a workspace to say", () => {
  const restricted = manifest.capabilities.untrustedWorkspaces.restrictedConfigurations;
  const properties = Object.assign({}, ...configuration.map((group) => group.properties)) as Record<
    string,
    { scope: string }
  >;
  assert.ok(restricted.includes("speclsp.server.path") && restricted.includes("speclsp.model"));
  for (const name of restricted) assert.equal(properties[name]?.scope, "machine", name);
});

test("a key switches suggestions off and on", () => {
  const bound = keybindings.find(({ command }) => command === "speclsp.toggleEverywhere");
  assert.equal(bound?.key, "shift+alt+\\");
  assert.match(read("README.md"), /`Shift\+Alt\+\\`/);
});

test("the README documents each command, and the change log this version", () => {
  for (const { title } of commands) assert.ok(read("README.md").includes(title), title);
  assert.ok(read("CHANGELOG.md").includes(`## ${manifest.version}`));
});

test("help begins with commands of the editor, and names a terminal's as such", () => {
  const help = readFileSync(join(EXTENSION, "..", "..", "docs", "troubleshooting.md"), "utf8");
  const [, first = ""] = help.split("\n\n");
  for (const [, title] of first.matchAll(/\*speclsp: ([^*]+)\*/g)) {
    assert.ok(
      commands.some((one) => one.title === title),
      title,
    );
  }
  assert.match(first, /^Check the installation first: \*speclsp: Check the Installation\*/);
  assert.match(help, /Commands that begin with `speclsp` are for a terminal/);
});
