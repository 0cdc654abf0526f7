/** The pictures of the README and of next edits by analogy, into artefacts, with Qwen2.5-Coder 0.5B: SPECLSP_PICTURES_MODEL names its file. */
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Editor } from "./editor.js";
import { ARTEFACTS, EXTENSION, Workbench } from "./workbench.js";

const MODEL = process.env["SPECLSP_PICTURES_MODEL"] ?? "";
const CODE = `"""Prices of a shop."""


class Cart:
    def __init__(self) -> None:
        self.prices: dict[str, float] = {}

    def add(self, name: str, price: float) -> None:
        if price < 0:
            raise ValueError(f"{name} has a negative price")
        self.prices[name] = price

    def remove(self, name: str) -> None:
        if name not in self.prices:
            raise KeyError(f"{name} is not in the cart")
        del self.prices[name]

`;
const SHOP = `def total(prices, rate):
    result = 0
    for price in prices:
        result += price
    print(prices)
    if rate:
        result *= rate
    print(rate)
    return result / len(prices)
`;
const OPTIONS = `from argparse import ArgumentParser
from pathlib import Path


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--prices", type=Path, required=True)
    parser.add_argument("--orders", type=Path, required=True)
    parser.add_argument("--report", type=Path, required=True)
`;
const CLIENT = `from shop import total

bill = total([1, 2], rate=2)
`;
let workbench: Workbench;

before(async () => {
  if (MODEL === "") return;
  workbench = await Workbench.start({
    vsix: join(EXTENSION, "dist", "speclsp.vsix"),
    settings: {
      "workbench.colorTheme": "Default Dark Modern",
      "speclsp.model": MODEL,
      "speclsp.minProbability": 0.3,
      "speclsp.tMaxPredictMs": 10_000,
    },
  });
});

after(async () => {
  if (MODEL !== "") await workbench.close();
});

test("pictures", { skip: MODEL === "" && "no model is named" }, async () => {
  const folder = workbench.folder("shop", { "cart.py": CODE });
  const editor = await Editor.open(workbench, folder, join(folder, "cart.py"));
  await editor.showSideBar(false);
  await editor.toEnd();
  await editor.type("    def total(self) -> float:\nreturn ");
  console.log(JSON.stringify(await editor.untilGhost()));
  await editor.picture("suggestion", 440);
  await editor.keys("Tab");
  await editor.page.waitForTimeout(1500);
  await editor.status.click();
  await editor.page.waitForTimeout(1500);
  await editor.page
    .locator(".quick-input-widget")
    .screenshot({ path: join(ARTEFACTS, "menu.png") });
  await editor.keys("Escape");
  for (const line of [
    "    def largest(self) -> float:\nreturn ",
    "\n    def names(self) -> list[str]:\nreturn ",
  ]) {
    await editor.toEnd();
    await editor.type(line);
    await editor.untilGhost();
    await editor.keys("Tab");
  }
  await editor.command("speclsp: Show Statistics");
  await editor.panel.locator("#figures").waitFor();
  await editor.panel.locator("summary").first().click();
  await editor.page.setViewportSize({ width: 1100, height: 1150 });
  await editor.page.waitForTimeout(3000);
  const box = await editor.page.locator("iframe.webview.ready").first().boundingBox();
  if (box !== null) {
    await editor.page.screenshot({ path: join(ARTEFACTS, "statistics.png"), clip: box });
  }
});

test("pictures of edits by analogy", { skip: MODEL === "" && "no model is named" }, async () => {
  workbench.set("speclsp.editFormat", "analogy");
  workbench.set("speclsp.deadlineMs", 30_000);
  const files = { "shop.py": SHOP, "client.py": CLIENT, "options.py": OPTIONS };
  const folder = workbench.folder("prices", files);
  const editor = await Editor.open(workbench, folder, join(folder, "options.py"));
  const right = async (n: number): Promise<void> => {
    for (let k = 0; k < n; k++) await editor.keys("ArrowRight");
  };
  await editor.showSideBar(false);
  await editor.toEnd();
  await editor.keys("Control+Home");
  for (let n = 0; n < 5; n++) await editor.keys("ArrowDown");
  await editor.keys("End", "ArrowLeft");
  await editor.type(", metavar=");
  // The editor closes quotes.
  await editor.type('"FILE"');
  await editor.keys("Escape", "ArrowDown");
  await editor.untilStatus(/line 7: replace .* by .*"FILE"\).*line 8: replace /);
  await editor.picture("argument-vscode", 170, 760);
  await editor.openFile("client.py");
  await editor.openFile("shop.py");
  await editor.toEnd();
  await editor.keys("Control+Home");
  await right("def total(".length);
  await editor.keys("Control+Shift+ArrowRight");
  await editor.type("amounts");
  await editor.keys("Escape", "ArrowDown");
  await editor.untilStatus(/line 3: replace .*line 5: replace .*line 9: replace /);
  await editor.picture("rename-vscode", 190);
  await editor.keys("Tab");
  await editor.untilStatus(/^(?!.*Next edit)/);
  await editor.saved(join(folder, "shop.py"), (text) => !text.includes("prices"));
  await editor.keys("Control+Home");
  await right("def ".length);
  await editor.keys("Control+Shift+ArrowRight");
  await editor.type("price_of");
  await editor.keys("Escape", "ArrowDown");
  await editor.untilStatus(/client\.py line 1: replace /);
  await editor.picture("other-file-vscode", 190);
  await editor.keys("Tab");
  await editor.untilStatus(/Next edit, line 1: replace /);
  await editor.picture("in-other-file-vscode", 90);
  await editor.keys("Tab");
  await editor.saved(join(folder, "client.py"), (text) => text.includes("import price_of"));
});
