/** Output files of a finished run. */

import { hexOf, type CallOptions, type Core } from "./core.js";
import { fetchInto, MemoryPart, type Source } from "./downloading.js";
import { ApiError, CorruptDownloadError } from "./failures.js";
import type { ListOutputsResponse, Output } from "./generated/records.js";
import { GET_OUTPUT_CONTENT, LIST_OUTPUTS } from "./generated/routes.js";

/** Progress of a download: bytes of all files together, and the path of the present file. */
export interface Progress {
  readonly path: string;
  readonly doneBytes: number;
  readonly totalBytes: number;
}

/** Options of a download into files. */
export interface DownloadOptions extends CallOptions {
  /** Called as bytes arrive. */
  progress?: ((progress: Progress) => void) | undefined;
}

/** Options of reading one output; with `begin` or `end`, offsets in bytes, only the bytes between are fetched. */
export interface ReadOptions extends CallOptions {
  begin?: number | undefined;
  end?: number | undefined;
}

/** Output files of a finished run. */
export class Outputs {
  constructor(
    private readonly core: Core,
    private readonly runId: string,
  ) {}

  /** Returns the outputs by path. */
  async list(options?: CallOptions): Promise<Output[]> {
    return listOutputs(this.core.bounded(options), this.runId);
  }

  /** Returns the record of one output by its path; throws `output_not_found`. */
  async get(path: string, options?: CallOptions): Promise<Output> {
    const found = (await this.list(options)).find((one) => one.path === path || one.output_id === path);
    if (found !== undefined) return found;
    const refusal = { code: "output_not_found", status: 404, requestId: null };
    throw new ApiError(`The run has no output ${JSON.stringify(path)}.`, refusal);
  }

  /**
   * Returns the bytes of one output, by path or record, checked against the listed digest; a part of them without a
   * check by digest. Throws `use_bundle` for one that is too large: `download` takes it from the zip.
   */
  async read(path: string | Output, options: ReadOptions = {}): Promise<Uint8Array> {
    const core = this.core.bounded(options);
    const output = typeof path === "string" ? await new Outputs(core, this.runId).get(path) : path;
    const size = output.size_bytes;
    const begin = options.begin ?? 0;
    const end = Math.min(options.end ?? size, size);
    if (!(Number.isInteger(begin) && Number.isInteger(end) && 0 <= begin && begin <= end)) {
      throw new RangeError(`\`begin\` must be from 0 to ${end}.`);
    }
    const whole = end - begin === size;
    if (begin === end && !whole) return new Uint8Array();
    const source = sourceOf(this.runId, output);
    const part = new MemoryPart(begin, end);
    await part.begin(begin);
    await fetchInto(core, whole ? source : { ...source, end }, part);
    if ((await part.size()) !== end || (whole && (await digestOf(part.bytes)) !== output.sha256)) {
      throw new CorruptDownloadError(`${output.path} arrived with other bytes than the service lists.`);
    }
    return part.bytes;
  }

  /**
   * Writes every output below a folder, under its path; returns the files. For Node.js.
   *
   * Interrupted downloads are resumed, and files with the listed digest are kept.
   */
  async download(folder: string, options: DownloadOptions = {}): Promise<string[]> {
    const files = await import("./files.js");
    return files.download(this.core.bounded(options), this.runId, folder, options.progress);
  }
}

/** Returns the outputs of a run by path. */
export async function listOutputs(core: Core, runId: string): Promise<Output[]> {
  return (await core.json<ListOutputsResponse>(LIST_OUTPUTS, { path: { run_id: runId } })).items;
}

/** Returns the source of an output's bytes. */
export function sourceOf(runId: string, output: Output): Source {
  const path = { run_id: runId, output_id: output.output_id };
  return { route: GET_OUTPUT_CONTENT, path, tag: `"${output.sha256}"`, size: output.size_bytes };
}

async function digestOf(bytes: Uint8Array): Promise<string> {
  return hexOf(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>)));
}
