/** Next edits in a real workbench, mostly by a scripted model: what is shown, and what keys do. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test as plainTest } from "node:test";
import { Editor } from "./editor.js";
import { serversBelow } from "./processes.js";
import { ScriptedModel } from "./scriptedModel.js";
import { until } from "./until.js";
import { EXTENSION, Workbench } from "./workbench.js";

const CODE = `def total(prices, rate):
    result = 0
    for price in prices:
        result += price
    print(prices)
    if rate:
        result *= rate
    print(rate)
    return result / len(prices)
`;
const RENAMED = CODE.replaceAll("prices", "amounts");
const CART = `class Cart:
    def __init__(self):
        self.items = []

    def add(self, item):
        self.items.append(item)

    def total(self):
        return sum(item.price for item in self.items)

    def clear(self):
        self.items = []
`;

const USES = `from renamed import total

${"x = 1\n".repeat(30)}print(total([1], 2))
`;

let model: ScriptedModel;
let workbench: Workbench;
let folder: string;
let editor: Editor;
let garden: string;
let gardenWindow: Editor | undefined;

before(async () => {
  model = await ScriptedModel.start();
  workbench = await Workbench.start({
    settings: model.settings,
    vsix: join(EXTENSION, "dist", "speclsp.vsix"),
  });
  // A search for a file that was just written may not find it for as long as its list is open.
  const names = ["rename", "decline", "type", "indent", "list", "windows", "lines"];
  names.push("shop", "killed", "snooze", "picture");
  names.push("renamed", "closed");
  const files = Object.fromEntries(names.map((name) => [`${name}.py`, CODE]));
  folder = workbench.folder("shop", { ...files, "client.py": USES });
  garden = workbench.folder("garden", { "shop.py": CODE, "cart.py": CART });
  editor = await Editor.open(workbench, folder, join(folder, "shop.py"));
});

/** A second window, with the garden, for the tests from the first one that needs it. */
async function otherWindow(): Promise<Editor> {
  return (gardenWindow ??= await Editor.open(workbench, garden, join(garden, "shop.py")));
}

after(async () => {
  model.close();
  await workbench.close();
});

/** A test that leaves a picture behind where it fails. */
function test(name: string, body: () => Promise<void>): void {
  void plainTest(name, async () => {
    // One use after another, as a user accepts them.
    model.rule = (region) => region.replace(/\bprices\b/, "amounts");
    try {
      await body();
    } catch (error) {
      await workbench.evidence(`failed: ${name}`);
      throw error;
    }
  });
}

/** Open a file with the cursor at its beginning. */
async function opened(name: string): Promise<string> {
  const file = join(folder, name);
  await editor.openFile(name);
  await editor.toEnd();
  await editor.keys("Control+Home");
  return file;
}

/** Rename the parameter, and go to the next line. */
async function rename(window: Editor): Promise<void> {
  for (let n = 0; n < "def total(".length; n++) await window.keys("ArrowRight");
  await window.keys("Control+Shift+ArrowRight");
  await window.type("amounts");
  await window.keys("ArrowDown");
}

/** Open the code and rename its parameter. */
async function renamed(name: string): Promise<string> {
  const file = await opened(name);
  await rename(editor);
  return file;
}

const LINE_3 = /Next edit, line 3: replace for price in prices: by for price in amounts:/;
const NONE = /^(?!.*Next edit)/;

test("Tab renames one use after the other, and goes to the one that is far off", async () => {
  const file = await renamed("rename.py");
  await editor.untilStatus(LINE_3);
  await editor.keys("Tab");
  await editor.untilStatus(/Next edit, line 5/);
  await editor.keys("Tab");
  await editor.untilStatus(/Next edit, line 9/);
  await editor.picture("next-edit-far");
  await editor.keys("Tab"); // goes there
  await editor.keys("Tab");
  await editor.untilStatus(NONE);
  await editor.saved(file, (text) => text === RENAMED);
  await editor.keys("Control+Z");
  await editor.saved(file, (text) => text === RENAMED.replace("len(amounts)", "len(prices)"));
});

test("Esc declines an edit, and it comes no more", async () => {
  const file = await renamed("decline.py");
  await editor.untilStatus(LINE_3);
  const cursors = editor.page.locator(".cursors-layer .cursor");
  await editor.keys("Shift+Alt+ArrowDown");
  await until("there are two cursors", async () => (await cursors.count()) === 2);
  await editor.keys("Escape"); // takes the second one away
  await until("there is one cursor", async () => (await cursors.count()) === 1);
  assert.match(await editor.spokenStatus(), LINE_3);
  await editor.keys("Escape");
  await editor.untilStatus(NONE);
  await editor.command("Ask for a Next Edit");
  await until("the server withholds it", () => /declined/.test(workbench.log()));
  assert.doesNotMatch(await editor.spokenStatus(), LINE_3);
  await editor.saved(file, (text) => text === CODE.replace("prices", "amounts"));
});

test("an edit stays while it is typed, and another key drops it", async () => {
  await renamed("type.py");
  await editor.untilStatus(LINE_3);
  await editor.keys("ArrowDown", "Home");
  for (let n = 0; n < "for price in ".length; n++) await editor.keys("ArrowRight");
  await editor.keys("Control+Shift+ArrowRight");
  await editor.type("amo");
  await editor.untilStatus(/line 3: replace for price in amo: by for price in amounts:/);
  await editor.type("x");
  await editor.untilStatus(/Next edit, line 5/);
});

test("Tab indents where no edit is shown", async () => {
  const file = await opened("indent.py");
  await editor.keys("Tab");
  await editor.saved(file, (text) => text.startsWith("    def total"));
});

test("the suggestion list keeps its Tab beside an edit", async () => {
  const file = await renamed("list.py");
  await editor.untilStatus(LINE_3);
  await editor.keys("Home", "Control+Space");
  await editor.page.locator(".suggest-widget.visible .monaco-list-row").first().waitFor();
  await editor.keys("Tab");
  const before = CODE.replace("prices", "amounts");
  await editor.saved(file, (text) => text !== before && !text.includes("in amounts:"));
});

test("two windows have next edits of their own", async () => {
  const other = await otherWindow();
  await other.toEnd();
  await other.keys("Control+Home");
  await rename(other);
  const file = await renamed("windows.py");
  await editor.untilStatus(LINE_3);
  await other.untilStatus(LINE_3);
  await other.keys("Tab");
  await other.saved(join(garden, "shop.py"), (text) => text.includes("in amounts:"));
  assert.match(await editor.spokenStatus(), LINE_3);
  await editor.saved(file, (text) => text === CODE.replace("prices", "amounts"));
});

test("new lines stand beside the code, deleted ones are struck, in each kind of theme", async () => {
  model.rule = (region) =>
    region.replace(
      / {4}result = 0\n {4}for.*\n.*\n/,
      "    result = sum(amounts)\n    if rate < 0:\n        raise ValueError(rate)\n    log(result)\n",
    );
  const file = await renamed("lines.py");
  await editor.untilStatus(/Next edit, line 2: replace/);
  for (const [name, theme] of [
    ["light", "Default Light Modern"],
    ["dark", "Default Dark Modern"],
    ["contrast", "Default High Contrast"],
  ] as const) {
    workbench.set("workbench.colorTheme", theme);
    await until(`the theme is ${name}`, async () => {
      const workbenchClasses = await editor.page.locator(".monaco-workbench").getAttribute("class");
      const kind = { light: /\bvs\b/, dark: /\bvs-dark\b/, contrast: /\bhc-black\b/ }[name];
      return kind.test(workbenchClasses ?? "");
    });
    await editor.picture(`next-edit-lines-${name}`);
  }
  await editor.keys("Tab");
  await editor.saved(file, (text) => text.includes("    log(result)\n    print(prices)\n"));
});

test("an edit goes with its server, and comes again with the next one", async () => {
  await renamed("killed.py");
  await editor.untilStatus(LINE_3);
  // Those of the windows before may not have ended.
  const servers = serversBelow(workbench.pid);
  assert.ok(servers.length > 0);
  for (const server of servers) process.kill(server, "SIGKILL");
  await editor.untilStatus(NONE);
  await editor.untilStatus(/ready/);
  await editor.command("Ask for a Next Edit");
  await editor.untilStatus(LINE_3);
});

test("a snooze and the switch hold for next edits", async () => {
  await renamed("snooze.py");
  await editor.untilStatus(LINE_3);
  workbench.set("speclsp.nextEdits", false);
  await editor.untilStatus(NONE);
  workbench.set("speclsp.nextEdits", true);
  await editor.command("Ask for a Next Edit");
  await editor.untilStatus(LINE_3);
  await editor.command("Describe the Next Edit");
  await editor.page.locator(".notification-toast", { hasText: "in amounts:" }).waitFor();
});

test("the README's picture shows a next edit", async () => {
  workbench.set("workbench.colorTheme", "Default Dark Modern");
  await renamed("picture.py");
  await editor.untilStatus(LINE_3);
  await editor.showSideBar(false);
  await editor.picture("next-edit", 200);
});

/** Open client.py, and a file whose function it uses, which is renamed there by analogy. */
async function renameFunction(file: string, name: string): Promise<void> {
  model.rule = (place) => place.replace("total", name);
  await opened("client.py");
  await opened(file);
  for (let n = 0; n < "def ".length; n++) await editor.keys("ArrowRight");
  await editor.keys("Control+Shift+ArrowRight");
  await editor.type(name);
  await editor.keys("ArrowDown");
}

test("closing another file takes away what is announced of it", async () => {
  workbench.set("speclsp.editFormat", "analogy");
  await renameFunction("closed.py", "sum_of");
  await editor.untilStatus(/client\.py line 1: replace from renamed import total by /);
  await editor.page.locator('.tab[data-resource-name="client.py"]').click({ button: "middle" });
  await editor.untilStatus(NONE);
  workbench.set("speclsp.editFormat", "auto");
});

test("Tab leads to another file, the next Tab applies the edit there, Esc declines", async () => {
  workbench.set("speclsp.editFormat", "analogy");
  const shown = (name: string): Promise<void> =>
    editor.page.locator(`.editor-instance .monaco-editor[data-uri$="/${name}"]`).waitFor();
  await renameFunction("renamed.py", "price_of");
  await editor.untilStatus(/client\.py line 1: replace from renamed import total by /);
  await editor.picture("next-edit-elsewhere");
  await editor.keys("Tab");
  await shown("client.py");
  await editor.untilStatus(/Next edit, line 1: replace from renamed import total by /);
  await editor.keys("Tab");
  await editor.untilStatus(/Next edit, line 33: /);
  await editor.keys("Tab", "Escape");
  await editor.untilStatus(NONE);
  const file = join(folder, "client.py");
  await editor.saved(file, (text) => text === USES.replace("total", "price_of"));
  workbench.set("speclsp.editFormat", "auto");
});

test("Tab renames three uses by the embedded model", async () => {
  // The scripted model suggests nothing meanwhile.
  workbench.set("speclsp.editModel", "embedded");
  const file = join(garden, "cart.py");
  const other = await otherWindow();
  await until("both windows' servers have loaded it", () => {
    return (workbench.log().match(/ loaded embedded-edit/g)?.length ?? 0) >= 2;
  });
  await other.untilStatus(/speclsp: ready/);
  await other.openFile("cart.py");
  await other.toEnd();
  await other.keys("Control+Home", "ArrowDown", "ArrowDown");
  for (let n = 0; n < "        self.".length; n++) await other.keys("ArrowRight");
  await other.keys("Control+Shift+ArrowRight");
  await other.type("entries");
  await other.keys("ArrowDown");
  await other.untilStatus(/line 6: replace .*line 9: replace .*line 12: replace /);
  await other.keys("Tab");
  await other.saved(file, (text) => text === CART.replaceAll("items", "entries"));
});
