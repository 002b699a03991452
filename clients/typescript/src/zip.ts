/** Reads the entries of a zip of outputs, which the service stores uncompressed, with sizes in their local headers. */

import type { FileHandle } from "node:fs/promises";

/** A file in a zip: its name, and where its bytes are. */
export interface Entry {
  readonly name: string;
  readonly begin: number;
  readonly size: number;
}

const ENTRY = 0x04034b50;
const DIRECTORY = 0x02014b50;
const END = 0x06054b50;
const HEAD_BYTES = 30;
const END_BYTES = 22;

/** Returns the entries of a zip; throws RangeError if it is no whole zip of stored files. */
export async function entriesOf(file: FileHandle): Promise<Entry[]> {
  const { size } = await file.stat();
  if (size < END_BYTES || (await read(file, size - END_BYTES, END_BYTES)).readUInt32LE(0) !== END) {
    throw new RangeError("it has no end");
  }
  const entries: Entry[] = [];
  for (let place = 0; ; ) {
    const head = await read(file, place, Math.min(HEAD_BYTES, size - place));
    const kind = head.readUInt32LE(0);
    if (kind === DIRECTORY || kind === END) return entries;
    if (kind !== ENTRY || head.readUInt16LE(8) !== 0) throw new RangeError("it has an entry that is not stored");
    const length = head.readUInt16LE(26);
    const begin = place + HEAD_BYTES + length + head.readUInt16LE(28);
    const entry = {
      name: (await read(file, place + HEAD_BYTES, length)).toString("utf-8"),
      begin,
      size: head.readUInt32LE(18),
    };
    entries.push(entry);
    place = begin + entry.size;
  }
}

async function read(file: FileHandle, place: number, size: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, place);
  if (bytesRead < size) throw new RangeError("it ends early");
  return buffer;
}
