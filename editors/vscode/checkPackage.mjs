// Asserts what is in the packaged extension: small beside the server's wheel, which `make dist`
// adds, and without source maps or node_modules.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";

// `make dist` puts the server's wheel, with its embedded models, into the package.
const wheel = existsSync("server") ? readdirSync("server").find((n) => n.endsWith(".whl")) : null;
const MAX_BYTES = 1_000_000 + (wheel ? statSync(`server/${wheel}`).size : 0);
const PACKAGE = "dist/speclsp.vsix";
const NEEDED = [
  "dist/extension.js",
  "dist/docs/troubleshooting.md",
  "dist/docs/statistics.md",
  "package.json",
  "media/gutter/nextEdit.svg",
  "media/icon.png",
  "media/panel.css",
  "media/panel.js",
  "media/walkthrough/suggestion.png",
  "readme.md",
  "changelog.md",
  "LICENSE.txt",
  ...(wheel ? [`server/${wheel}`] : []),
];

const wheels = existsSync("server") ? readdirSync("server").map((name) => `server/${name}`) : [];
const wheelBytes = wheels.reduce((sum, name) => sum + statSync(name).size, 0);
const bytes = statSync(PACKAGE).size - wheelBytes;
const files = execFileSync("python3", ["-m", "zipfile", "-l", PACKAGE], { encoding: "utf8" })
  .split("\n")
  .slice(1)
  .map((line) => line.split(/\s+\d{4}-\d\d-\d\d /)[0])
  .filter((name) => name !== "");
const problems = [
  ...(bytes < MAX_BYTES ? [] : [`${bytes} bytes are more than ${MAX_BYTES}`]),
  ...files.filter((name) => /\.map$|node_modules|\.ts$/.test(name)).map((name) => `holds ${name}`),
  ...[...NEEDED, ...wheels]
    .filter((name) => !files.includes(`extension/${name}`))
    .map((name) => `lacks ${name}`),
];
for (const problem of problems) console.error(`${PACKAGE}: ${problem}`);
console.log(`${PACKAGE}: ${files.length} files, ${bytes} bytes, and ${wheelBytes} of the server`);
process.exit(problems.length > 0 ? 1 : 0);
