// Bundles the extension, and with --tests its tests; --production leaves out source maps.
import { cpSync, readdirSync, rmSync, statSync } from "node:fs";
import { build } from "esbuild";

const production = process.argv.includes("--production");
const shared = { bundle: true, platform: "node", target: "node20", logLevel: "warning" };

rmSync("dist/extension.js.map", { force: true });
await build({
  ...shared,
  format: "cjs",
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  external: ["vscode"],
  minify: production,
  sourcemap: !production,
});

// Help shows the project's documents, whose links lead from one to another.
rmSync("dist/docs", { recursive: true, force: true });
cpSync("../../docs", "dist/docs", {
  recursive: true,
  filter: (from) => statSync(from).isDirectory() || from.endsWith(".md"),
});

const testsIn = (folder) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => `${folder}/${name}`);

if (process.argv.includes("--tests")) {
  rmSync("dist/test", { recursive: true, force: true });
  // Tests find the repository by where they lie: dist/test mirrors test.
  await build({
    ...shared,
    format: "esm",
    outExtension: { ".js": ".mjs" },
    entryPoints: ["test", "test/real", "test/clients"].flatMap(testsIn),
    outbase: "test",
    outdir: "dist/test",
    packages: "external",
  });
  // What runs in the extension host is loaded by the editor.
  await build({
    ...shared,
    format: "cjs",
    entryPoints: ["test/host/index.ts"],
    outfile: "dist/test/host/index.js",
    external: ["vscode"],
  });
}
