/** Downloads that resume after a broken connection. */

import type { Core } from "./core.js";
import { TransportError } from "./exchange.js";
import { ConnectionFailedError, CorruptDownloadError } from "./failures.js";
import type { Route } from "./generated/routes.js";

/** Source of a download: route, and the required strong entity tag and size, if known. */
export interface Source {
  readonly route: Route;
  readonly path: Record<string, string>;
  readonly tag?: string;
  readonly size?: number;
  /** With it only the bytes before this offset are fetched. */
  readonly end?: number;
}

/** Destination of a download, which may be partly complete. */
export interface Part {
  /** Returns the offset up to which bytes have arrived. */
  size(): Promise<number>;
  /** Drops the bytes from an offset on, and goes on there. */
  begin(offset: number): Promise<void>;
  write(piece: Uint8Array): Promise<void>;
}

/** A destination in memory for the bytes from one offset to another; other bytes are dropped. */
export class MemoryPart implements Part {
  readonly bytes: Uint8Array;
  #place: number;
  #arrived = 0;

  constructor(
    private readonly from: number,
    end: number,
  ) {
    this.bytes = new Uint8Array(end - from);
    this.#place = from;
  }

  async size(): Promise<number> {
    return this.from + this.#arrived;
  }

  async begin(offset: number): Promise<void> {
    this.#place = offset;
    this.#arrived = Math.max(0, offset - this.from);
  }

  async write(piece: Uint8Array): Promise<void> {
    const kept = piece.subarray(Math.max(0, this.from - this.#place)).subarray(0, this.bytes.length - this.#arrived);
    this.bytes.set(kept, this.#arrived);
    this.#arrived += kept.length;
    this.#place += piece.length;
  }
}

const IDLE_SECONDS = 60;
const PARTIAL = 206;
const TRIES_WITHOUT_PROGRESS = 5;

/** Completes a part, from its present end if the service supports ranges. */
export async function fetchInto(
  core: Core,
  source: Source,
  part: Part,
  arrived: (size: number) => void = () => undefined,
): Promise<void> {
  const last = source.end === undefined ? "" : source.end - 1;
  let tag = source.tag;
  for (let failures = 0; ; ) {
    const offset = await part.size();
    // No request for a complete part, because its range would not be satisfiable.
    if (offset && offset === (source.end ?? source.size)) return;
    const ranged = offset > 0 || source.end !== undefined;
    const { status, headers, body } = await core.call(source.route, {
      path: source.path,
      headers: ranged ? { Range: `bytes=${offset}-${last}`, ...(tag ? { "If-Range": tag } : {}) } : {},
      idle: IDLE_SECONDS,
    });
    let failure: TransportError | undefined;
    try {
      const given = headers.get("etag") ?? tag;
      tag ??= given;
      const goesOn = status === PARTIAL && Boolean(headers.get("content-range")?.startsWith(`bytes ${offset}-`));
      if (source.end !== undefined && (given !== tag || (status === PARTIAL && !goesOn))) {
        throw new CorruptDownloadError("The answer is of other bytes than were asked for.");
      }
      const begin = goesOn ? offset : 0;
      await part.begin(begin);
      let place = begin;
      for (let piece = await body.read(); piece !== undefined; piece = await body.read()) {
        await part.write(piece);
        place += piece.length;
        arrived(place);
        core.checkTime();
      }
      const missing = Number(headers.get("content-length") ?? place - begin) - (place - begin);
      if (missing) failure = new TransportError(`${missing} bytes are missing`, true);
    } catch (error) {
      if (!(error instanceof TransportError)) throw error;
      failure = error;
    } finally {
      body.close();
    }
    if (failure === undefined) return;
    failures = (await part.size()) > offset ? 1 : failures + 1;
    if (failures > TRIES_WITHOUT_PROGRESS) {
      throw new ConnectionFailedError(`The download broke off: ${failure.message}`, true, { cause: failure });
    }
    await core.pause(0.5 * 2 ** (failures - 1));
  }
}
