/** The pictures of the README, into artefacts, with Qwen2.5-Coder 0.5B: SPECLSP_PICTURES_MODEL names its file. */
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
