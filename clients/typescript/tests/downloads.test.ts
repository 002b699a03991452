import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { CorruptDownloadError, UnexpectedAnswerError, type Run } from "../src/index.js";
import { FakeService, json, pieces, refused, run } from "./fake.js";

const TEXT = "0123456789";

function output(path: string, text = TEXT, size = text.length) {
  const sha256 = createHash("sha256").update(text).digest("hex");
  return { output_id: `out_${path}`, path, name: path, size_bytes: size, sha256 };
}

function tag(text = TEXT): Record<string, string> {
  return { ETag: `"${output("a", text).sha256}"` };
}

function part(begin: number, end: number, headers = tag(), breaks = false) {
  const range = { "Content-Range": `bytes ${begin}-${end - 1}/10`, ...headers };
  return pieces([TEXT.slice(begin, end)], range, breaks, 206);
}

async function finished(...answers: ConstructorParameters<typeof FakeService>[0]): Promise<[Run, FakeService]> {
  const service = new FakeService([json(run("completed")), ...answers]);
  return [await service.client().runs.get("run_1"), service];
}

const folder = () => mkdtemp(join(tmpdir(), "downloads-"));
const listed = (...outputs: object[]) => json({ items: outputs });

test("a read that breaks off is resumed by a range of the tagged bytes", async () => {
  const [run, service] = await finished(listed(output("a/b")), pieces(["01234"], tag(), true), part(5, 10));
  assert.equal(new TextDecoder().decode(await run.outputs.read("a/b")), TEXT);
  const { headers } = service.requests[3]!;
  assert.deepEqual([headers.get("range"), headers.get("if-range")], ["bytes=5-", tag().ETag]);
});

test("a service that sends the whole file again is read from its begin", async () => {
  const [run] = await finished(listed(output("a")), pieces(["0123"], tag(), true), pieces([TEXT], tag()));
  assert.equal(new TextDecoder().decode(await run.outputs.read("a")), TEXT);
});

test("only the bytes that were asked for are fetched", async () => {
  const [run, service] = await finished(part(2, 6));
  const bytes = await run.outputs.read(output("a") as never, { begin: 2, end: 6 });
  assert.equal(new TextDecoder().decode(bytes), "2345");
  assert.equal(service.requests[1]?.headers.get("range"), "bytes=2-5");
  await assert.rejects(run.outputs.read(output("a") as never, { begin: 7, end: 6 }), RangeError);
  const [whole] = await finished(pieces([TEXT], tag()));
  assert.equal(new TextDecoder().decode(await whole.outputs.read(output("a") as never, { begin: 2, end: 6 })), "2345");
});

test("bytes with another digest are refused", async () => {
  const [run] = await finished(listed(output("a")), pieces(["0123456789".replace("9", "8")], tag()));
  await assert.rejects(run.outputs.read("a"), CorruptDownloadError);
  const [other] = await finished(part(2, 6, tag("other")));
  await assert.rejects(other.outputs.read(output("a") as never, { begin: 2, end: 6 }), CorruptDownloadError);
});

test("files are written under their paths, resumed where a part is there, and kept where they are whole", async () => {
  const made = await folder();
  const hidden = `.b.txt.${output("b").sha256.slice(0, 16)}.part`;
  await writeFile(join(made, hidden), "012345");
  const both = listed(output("a/deep/a.txt"), output("b.txt"));
  const [run, service] = await finished(both, pieces([TEXT], tag()), part(6, 10));
  const progress: number[] = [];
  const files = await run.outputs.download(made, { progress: ({ doneBytes }) => progress.push(doneBytes) });
  assert.deepEqual(files, [join(made, "a/deep/a.txt"), join(made, "b.txt")]);
  for (const file of files) assert.equal(await readFile(file, "utf-8"), TEXT);
  assert.equal(service.requests[3]?.headers.get("range"), "bytes=6-");
  assert.deepEqual(progress, [10, 20]);
  const [again, unasked] = await finished(both);
  await again.outputs.download(made);
  assert.equal(unasked.requests.length, 2);
});

test("a file with another digest is not kept", async () => {
  const made = await folder();
  const [run] = await finished(listed(output("a")), pieces(["9876543210"], {}));
  await assert.rejects(run.outputs.download(made), CorruptDownloadError);
  await assert.rejects(readFile(join(made, "a")), { code: "ENOENT" });
});

test("a path that leads out of the folder is refused, also through a link", async () => {
  const made = await folder();
  await symlink(tmpdir(), join(made, "out"));
  for (const path of ["../a", "/a", "a/../../b", "out/a", "a\\b", ""]) {
    const [run, service] = await finished(listed(output(path)), pieces([TEXT], tag()));
    await assert.rejects(run.outputs.download(made), UnexpectedAnswerError, path);
    assert.equal(service.requests.length, 2);
  }
});

function zipOf(name: string, text: string): string {
  const head = Buffer.alloc(30);
  head.writeUInt32LE(0x04034b50);
  head.writeUInt32LE(text.length, 18);
  head.writeUInt32LE(text.length, 22);
  head.writeUInt16LE(name.length, 26);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50);
  return `${head.toString("latin1")}${name}${text}${end.toString("latin1")}`;
}

test("a zip is kept once its files have the listed digests; a file too large for itself is taken from it", async () => {
  const made = await folder();
  const [run] = await finished(listed(output("a")), pieces([zipOf("a", TEXT)], {}));
  assert.equal(await run.downloadZip(join(made, "all.zip")), join(made, "all.zip"));
  const [corrupt] = await finished(listed(output("a")), pieces([zipOf("a", "9876543210")], {}));
  await assert.rejects(corrupt.downloadZip(join(made, "b.zip")), CorruptDownloadError);
  const [cut] = await finished(listed(output("a")), pieces([zipOf("a", TEXT).slice(0, 50)], {}));
  await assert.rejects(cut.downloadZip(join(made, "c.zip")), /no whole zip/);
  const [large] = await finished(listed(output("a")), refused("use_bundle", 413), pieces([zipOf("a", TEXT)], {}));
  const [file] = await large.outputs.download(made);
  assert.equal(await readFile(file!, "utf-8"), TEXT);
});
