// Bundles the extension, or with --tests its unit tests; --production leaves out source maps.
import { readdirSync } from "node:fs";
import { build } from "esbuild";

const production = process.argv.includes("--production");
const shared = {
  bundle: true,
  platform: "node",
  target: "node20",
  format: "cjs",
  logLevel: "info",
};

await build({
  ...shared,
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  external: ["vscode"],
  minify: production,
  sourcemap: !production,
});
if (process.argv.includes("--tests")) {
  const tests = readdirSync("test").filter((name) => name.endsWith(".test.ts"));
  await build({
    ...shared,
    entryPoints: tests.map((name) => `test/${name}`),
    outdir: "dist/test",
    sourcemap: "inline",
  });
}
