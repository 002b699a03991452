import assert from "node:assert/strict";
import { test } from "node:test";

import type { Run } from "../src/index.js";
import { FakeService, json, pieces, run } from "./fake.js";

const STREAM = { "Content-Type": "text/event-stream; charset=utf-8" };
const END = "event: end\ndata: {}\n\n";

function sent(seq: number, type = "step.progress"): string {
  return `id: s1:${seq}\nevent: ${type}\ndata: {"seq": ${seq}, "type": "${type}", "data": {"message": "é"}}\n\n`;
}

async function started(service: FakeService): Promise<Run> {
  return service.client().runs.get("run_1");
}

async function ids(run: Run, after?: string): Promise<string[]> {
  const seen: string[] = [];
  for await (const event of run.events({ live: true, after })) seen.push(event.id);
  return seen;
}

test("a stream that breaks is continued after the last event, each event once", async () => {
  const service = new FakeService([
    json(run("running")),
    pieces([": hello\n\n", sent(1).slice(0, 20), sent(1).slice(20) + sent(2)], STREAM, true),
    pieces([sent(2), sent(3)], STREAM),
    pieces([sent(4, "run.completed") + END, sent(5)], STREAM),
  ]);
  assert.deepEqual(await ids(await started(service)), ["s1:1", "s1:2", "s1:3", "s1:4"]);
  const positions = service.requests.slice(1).map((one) => one.headers.get("last-event-id"));
  assert.deepEqual(positions, [null, "s1:2", "s1:3"]);
  assert.deepEqual(service.clock.slept, [5, 5]);
});

test("a stream begins after the event that the caller knows", async () => {
  const service = new FakeService([json(run("running")), pieces([END], STREAM)]);
  const known = await started(service);
  assert.deepEqual(await ids(known, "s1:7"), []);
  assert.equal(service.requests[1]?.headers.get("last-event-id"), "s1:7");
  await assert.rejects(ids(known, "seven"), RangeError);
});

test("a multi-byte letter that is cut between two pieces is whole", async () => {
  const bytes = new TextEncoder().encode(sent(1) + END);
  const cut = bytes.indexOf(0xc3) + 1;
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of [bytes.slice(0, cut), bytes.slice(cut)]) controller.enqueue(piece);
      controller.close();
    },
  });
  const service = new FakeService([json(run("running")), () => new Response(stream, { headers: STREAM })]);
  for await (const event of (await started(service)).events({ live: true })) {
    assert.equal(event.type === "step.progress" && event.data.message, "é");
  }
});

test("a service without streams is asked for pages, through all segments", async () => {
  const segment = (id: string, last_seq: number) => ({ segment_id: id, last_seq, ended_at: "2026-09-24T10:00:00Z" });
  const segments = [segment("s1", 1), segment("s2", 1)];
  const event = (seq: number) => ({ seq, type: "warning", data: {} });
  const service = new FakeService([
    json(run("completed")),
    json({ segment_id: "s2", events: [], segments }),
    json({ segment_id: "s2", events: [event(1)], segments }),
    json({ segment_id: "s1", events: [event(1)], segments }),
    json({ segment_id: "s2", events: [event(1)], segments }),
    json(run("completed")),
    json({ segment_id: "s2", events: [], segments }),
  ]);
  assert.deepEqual(await ids(await started(service)), ["s1:1", "s2:1"]);
});

test("a caller that leaves the loop closes the stream", async () => {
  let cancelled = false;
  const stream = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new TextEncoder().encode(sent(1))),
  });
  const service = new FakeService([
    json(run("running")),
    (_, signal) => {
      signal.addEventListener("abort", () => (cancelled = true));
      return new Response(stream, { headers: STREAM });
    },
  ]);
  for await (const event of (await started(service)).events({ live: true })) {
    assert.equal(event.id, "s1:1");
    break;
  }
  assert.ok(cancelled);
});
