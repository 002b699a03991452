/** Downloads into files, for Node.js. */

import { createHash } from "node:crypto";
import { mkdir, open, realpath, rename, rm, stat, type FileHandle } from "node:fs/promises";
import { basename, dirname, join, sep } from "node:path";

import type { Core } from "./core.js";
import { fetchInto, type Part, type Source } from "./downloading.js";
import { ApiError, CorruptDownloadError, UnexpectedAnswerError } from "./failures.js";
import type { Output } from "./generated/records.js";
import { GET_OUTPUTS_ZIP } from "./generated/routes.js";
import { listOutputs, sourceOf, type Progress } from "./outputs.js";
import { entriesOf, type Entry } from "./zip.js";

type Report = (progress: Progress) => void;

const BLOCK = 2 ** 20;

/** Writes every output below a folder, under its path; files too large for a download of their own from the zip. */
export async function download(core: Core, runId: string, folder: string, report?: Report): Promise<string[]> {
  const outputs = await listOutputs(core, runId);
  const totalBytes = sum(outputs);
  const targets: string[] = [];
  const large: { output: Output; target: string }[] = [];
  let done = 0;
  for (const output of outputs) {
    const target = await targetIn(folder, output.path);
    const arrived = (size: number): void =>
      report?.({ path: output.path, doneBytes: Math.min(done + size, totalBytes), totalBytes });
    targets.push(target);
    try {
      await checkedFile(core, runId, output, target, arrived);
      done += output.size_bytes;
    } catch (error) {
      if (!(error instanceof ApiError && error.code === "use_bundle")) throw error;
      large.push({ output, target });
    }
  }
  if (large.length) {
    const bundle = join(folder, `.${runId}.zip`);
    await downloadZip(core, runId, bundle, undefined, outputs);
    await extract(bundle, large);
    report?.({ path: large[large.length - 1]?.output.path ?? "", doneBytes: totalBytes, totalBytes });
    await rm(bundle);
  }
  return targets;
}

/** Writes the zip of all outputs, once every file in it has the listed digest; completes a partial zip. */
export async function downloadZip(
  core: Core,
  runId: string,
  path: string,
  report?: Report,
  listed?: Output[],
): Promise<string> {
  const outputs = listed ?? (await listOutputs(core, runId));
  const totalBytes = sum(outputs);
  const names = outputs.map((one) => `${one.output_id} ${one.path} ${one.sha256}`).join("\n");
  const part = partOf(path, createHash("sha256").update(names).digest("hex"));
  await mkdir(dirname(path), { recursive: true });
  let resumed = (await sizeOf(part)) > 0;
  for (;;) {
    let problem = resumed ? await problemOf(part, outputs) : "it is not there yet";
    if (problem !== null) {
      const arrived = (size: number): void =>
        report?.({ path: basename(path), doneBytes: Math.min(size, totalBytes), totalBytes });
      try {
        await intoFile(core, { route: GET_OUTPUTS_ZIP, path: { run_id: runId } }, part, arrived);
        problem = await problemOf(part, outputs);
      } catch (error) {
        // The partial zip is as long as the whole one, or longer.
        if (!(resumed && error instanceof ApiError && error.code === "range_not_satisfiable")) throw error;
      }
    }
    if (problem === null) {
      await rename(part, path);
      return path;
    }
    await rm(part, { force: true });
    if (!resumed) throw new CorruptDownloadError(`${basename(path)}: ${problem}`);
    // The partial zip may have been of other outputs.
    resumed = false;
  }
}

/** Downloads a file with a known digest; keeps an existing file with the digest. */
async function checkedFile(
  core: Core,
  runId: string,
  output: Output,
  target: string,
  arrived: (size: number) => void,
): Promise<void> {
  const { sha256, size_bytes: size } = output;
  if ((await sizeOf(target)) === size && (await digestOf(target)) === sha256) {
    arrived(size);
    return;
  }
  const part = partOf(target, sha256);
  const present = await sizeOf(part);
  if (present > size) await rm(part);
  if (present !== size) await intoFile(core, sourceOf(runId, output), part, arrived);
  if ((await digestOf(part)) !== sha256) {
    await rm(part);
    throw new CorruptDownloadError(`${basename(target)} arrived with another digest than the service lists.`);
  }
  await rename(part, target);
}

async function intoFile(core: Core, source: Source, path: string, arrived: (size: number) => void): Promise<void> {
  const file = await open(path, (await sizeOf(path)) < 0 ? "w+" : "r+");
  try {
    await fetchInto(core, source, new FilePart(file), arrived);
  } finally {
    await file.close();
  }
}

/** A destination in a file. */
class FilePart implements Part {
  #place = 0;

  constructor(private readonly file: FileHandle) {}

  async size(): Promise<number> {
    return (await this.file.stat()).size;
  }

  async begin(offset: number): Promise<void> {
    await this.file.truncate(offset);
    this.#place = offset;
  }

  async write(piece: Uint8Array): Promise<void> {
    for (let done = 0; done < piece.length; ) {
      const { bytesWritten } = await this.file.write(piece, done, piece.length - done, this.#place);
      done += bytesWritten;
      this.#place += bytesWritten;
    }
  }
}

/** Returns the path of an output below a folder, whose folders are made; throws for a path that leads out of it. */
export async function targetIn(folder: string, path: string): Promise<string> {
  const parts = path.split("/");
  const unsafe = parts.some((part) => part === "" || part === "." || part === ".." || /[\\\0]/.test(part));
  const target = join(folder, ...parts);
  if (!unsafe) {
    await mkdir(folder, { recursive: true });
    const root = await realpath(folder);
    // A folder that is a link may lead out.
    let parent = folder;
    for (const part of parts.slice(0, -1)) {
      parent = join(parent, part);
      await mkdir(parent).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "EEXIST") throw error;
      });
      if (!(await realpath(parent)).startsWith(root.endsWith(sep) ? root : root + sep)) parent = "";
      if (!parent) break;
    }
    if (parent) return target;
  }
  throw new UnexpectedAnswerError(`The output ${JSON.stringify(path)} would lie outside the folder.`);
}

async function extract(bundle: string, large: readonly { output: Output; target: string }[]): Promise<void> {
  const file = await open(bundle);
  try {
    const entries = new Map((await entriesOf(file)).map((entry) => [entry.name, entry]));
    for (const { output, target } of large) {
      const part = partOf(target, output.sha256);
      const made = await open(part, "w");
      try {
        for await (const block of blocksOf(file, entries.get(output.path))) await made.writeFile(block);
      } finally {
        await made.close();
      }
      await rename(part, target);
    }
  } finally {
    await file.close();
  }
}

/** Returns the problem of a zip of these outputs, or null. */
async function problemOf(bundle: string, outputs: readonly Output[]): Promise<string | null> {
  const file = await open(bundle);
  try {
    const entries = await entriesOf(file);
    const digests = new Map(outputs.map((one) => [one.path, one.sha256]));
    if (entries.length !== digests.size || entries.some(({ name }) => !digests.has(name))) {
      return "it holds other files than the service lists";
    }
    for (const entry of entries) {
      if ((await hashed(blocksOf(file, entry))) !== digests.get(entry.name)) return `${entry.name} has another digest`;
    }
    return null;
  } catch (error) {
    if (error instanceof RangeError) return `it is no whole zip: ${error.message}`;
    throw error;
  } finally {
    await file.close();
  }
}

async function digestOf(path: string): Promise<string> {
  const file = await open(path);
  try {
    return await hashed(blocksOf(file, { name: path, begin: 0, size: (await file.stat()).size }));
  } finally {
    await file.close();
  }
}

async function hashed(blocks: AsyncIterable<Uint8Array>): Promise<string> {
  const digest = createHash("sha256");
  for await (const block of blocks) digest.update(block);
  return digest.digest("hex");
}

async function* blocksOf(file: FileHandle, entry: Entry | undefined): AsyncGenerator<Uint8Array> {
  const end = entry ? entry.begin + entry.size : 0;
  for (let place = entry?.begin ?? 0; place < end; ) {
    const size = Math.min(BLOCK, end - place);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, place);
    if (!bytesRead) throw new RangeError("it ends early");
    place += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

function partOf(target: string, digest: string): string {
  return join(dirname(target), `.${basename(target).slice(0, 100)}.${digest.slice(0, 16)}.part`);
}

/** Returns the size of a file, -1 where there is none. */
async function sizeOf(path: string): Promise<number> {
  const found = await stat(path).catch(() => undefined);
  return found?.isFile() ? found.size : -1;
}

function sum(outputs: readonly Output[]): number {
  return outputs.reduce((bytes, one) => bytes + one.size_bytes, 0);
}
