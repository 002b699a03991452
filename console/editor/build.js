// Bundles the editor into the file that is given, with the licences of what is in it, and beside it what loads later and
// what both import: `npm run build -- FILE`.
import { build } from "esbuild";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { brotliCompressSync } from "node:zlib";

const [target] = process.argv.slice(2);
const name = basename(target, ".js");
const made = await build({
  entryPoints: { [name]: "main.js" }, outdir: dirname(target), chunkNames: `${name}-[name]`, splitting: true,
  bundle: true, format: "esm", minify: true, target: "es2022", charset: "utf8",
  legalComments: "inline", write: false, metafile: true, logLevel: "warning",
});

// Most packages have their licence in a file alone.
const packages = new Set(Object.keys(made.metafile.inputs)
  .map((path) => /^node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]).filter(Boolean));
const byLicence = new Map();
for (const folder of [...packages].sort()) {
  const { name, version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  if (!file) throw new Error(`${name} has no file with its licence`);
  const text = readFileSync(join(folder, file), "utf8").trim();
  byLicence.set(text, [...(byLicence.get(text) ?? []), `${name} ${version}`]);
}
const notices = [...byLicence].map(([text, names]) => `/*! ${names.join(", ")}\n\n${text.replaceAll("*/", "* /")}\n*/\n`);
for (const { path, text } of made.outputFiles) {
  const content = path.endsWith(basename(target)) ? notices.join("") + text : text;
  writeFileSync(path, content);
  // Python has nothing that compresses as well; the console hands this out as it is.
  writeFileSync(`${path}.br`, brotliCompressSync(content));
}
