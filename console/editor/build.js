// Bundles the editor into the file that is given, with the licences of what is in it: `npm run build -- FILE`.
import { build } from "esbuild";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync } from "node:zlib";

const [target] = process.argv.slice(2);
const made = await build({
  entryPoints: ["main.js"], bundle: true, format: "esm", minify: true, target: "es2022", charset: "utf8",
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
const bundle = notices.join("") + made.outputFiles[0].text;
writeFileSync(target, bundle);
// Python has nothing that compresses as well; the console hands this out as it is.
writeFileSync(`${target}.br`, brotliCompressSync(bundle));
