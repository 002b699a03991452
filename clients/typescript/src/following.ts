/** Reads the events of a run: those so far, or live until its end. */

import { jsonOf, type Core } from "./core.js";
import { TransportError, type Body } from "./exchange.js";
import { ConnectionFailedError, UnexpectedAnswerError } from "./failures.js";
import type { AnyEvent, ListRunEventsResponse } from "./generated/records.js";
import { LIST_RUN_EVENTS } from "./generated/routes.js";
import { Parser } from "./server_sent.js";
import { HELD_SECONDS, isTerminal, POLL_SECONDS, PollPacer, RunWatch } from "./waiting.js";

/** Options of a run's events. */
export interface EventOptions {
  /** True to go on to the end of the run, with events as they happen. */
  live?: boolean | undefined;
  /** The `id` of the last known event. */
  after?: string | undefined;
  /** Ends the events, which then throw the signal's reason. */
  signal?: AbortSignal | undefined;
}

// Silence after which a stream counts as broken; the service sends a comment every 15 seconds.
const SILENT_SECONDS = 45;
const PAGE = 500;
const ID = /^([!-9;-~]{1,128}):([0-9]{1,18})$/;
const STREAM = "text/event-stream";
const AGAIN_SECONDS = 0.5;

/** Position in the events: the last event that was yielded. */
interface Position {
  segmentId: string | null;
  seq: number;
}

/** Yields the events after `after`, by default all; with `live` also future events, to the end of the run. */
export async function* events(core: Core, runId: string, options: EventOptions): AsyncGenerator<AnyEvent, void, void> {
  const position = options.after === undefined ? { segmentId: null, seq: 0 } : positionOf(options.after);
  if (position === undefined) {
    throw new RangeError("`after` must be the `id` of an event, `<segment_id>:<seq>`.");
  }
  const live = options.live ?? false;
  if (live && core.service.streams && (yield* streamed(core, runId, position))) return;
  yield* paged(core, runId, position, live);
}

/** Yields the events of the stream, reopened when it breaks; returns false if the service has no streams. */
async function* streamed(core: Core, runId: string, position: Position): AsyncGenerator<AnyEvent, boolean, void> {
  let failedSince: number | undefined;
  for (;;) {
    const begun = core.clock.now();
    const { headers, body } = await core.call(LIST_RUN_EVENTS, {
      path: { run_id: runId },
      headers: { Accept: STREAM, ...(position.segmentId === null ? {} : { "Last-Event-ID": text(position) }) },
      idle: SILENT_SECONDS,
    });
    const before = text(position);
    let failure: TransportError | undefined;
    try {
      if (!headers.get("content-type")?.startsWith(STREAM)) {
        core.service.streams = false;
        return false;
      }
      if (yield* messages(body, position)) return true;
    } catch (error) {
      if (!(error instanceof TransportError)) throw error;
      failure = error;
    } finally {
      body.close();
    }
    const now = core.clock.now();
    if (failure === undefined || text(position) !== before) failedSince = undefined;
    else if (failedSince === undefined) failedSince = begun;
    else if (now - failedSince > core.retrySeconds + SILENT_SECONDS) {
      throw new ConnectionFailedError(failure.message, true, { cause: failure });
    }
    // A service that is shutting down ends streams at once; a pause keeps reconnects rare.
    await core.pause(Math.max(AGAIN_SECONDS, POLL_SECONDS - (now - begun)));
  }
}

/** Yields the events of one opened stream; returns true at the end of the run. */
async function* messages(body: Body, position: Position): AsyncGenerator<AnyEvent, boolean, void> {
  const parser = new Parser();
  for (let piece = await body.read(); piece !== undefined; piece = await body.read()) {
    for (const message of parser.feed(piece)) {
      if (message.kind === "end") return true;
      const reached = positionOf(message.id);
      if (reached === undefined) throw new UnexpectedAnswerError("The stream has a message that is no event.");
      if (reached.segmentId === position.segmentId && reached.seq <= position.seq) continue;
      const event = eventOf(message.data, message.id);
      Object.assign(position, reached);
      yield event;
    }
  }
  return false;
}

function eventOf(data: string, id: string): AnyEvent {
  try {
    return { ...(JSON.parse(data) as AnyEvent), id };
  } catch (cause) {
    throw new UnexpectedAnswerError("The stream has a message that is no event.", { cause });
  }
}

/** Yields events page by page, and segment by segment; with `live` waits for more at the last page. */
async function* paged(core: Core, runId: string, at: Position, live: boolean): AsyncGenerator<AnyEvent, void, void> {
  const pace = new PollPacer(core.clock);
  const watch = new RunWatch(core, runId);
  let ended = !live;
  let waits = false;
  for (;;) {
    const page = await pageAt(core, runId, at, pace.begin(waits));
    for (const event of page.events) {
      const id = `${page.segment_id}:${event.seq}`;
      Object.assign(at, { segmentId: page.segment_id, seq: event.seq });
      yield { ...event, id } as AnyEvent;
    }
    const pause = pace.pauseAfter(page.events.length > 0);
    const present = page.segments.find((one) => one.segment_id === page.segment_id);
    if (present !== undefined) at.segmentId ??= present.segment_id;
    waits = false;
    if (present !== undefined && at.seq < present.last_seq) continue;
    const ids = page.segments.map((one) => one.segment_id);
    const following = ids[at.segmentId === null ? 0 : ids.indexOf(at.segmentId) + 1];
    if (following !== undefined) {
      Object.assign(at, { segmentId: following, seq: 0 });
    } else if (ended) {
      return;
    } else if (present !== undefined && present.ended_at === null) {
      // The segment goes on: the next event is worth waiting for.
      await core.pause(pause);
      waits = true;
    } else {
      // No step runs: the run has ended, or waits. Its last events are read once more.
      let run = await watch.look(watch.seen);
      while (!isTerminal(run.status) && !watch.changed) run = await watch.look();
      ended = isTerminal(run.status);
    }
  }
}

async function pageAt(core: Core, runId: string, at: Position, waitSeconds: number): Promise<ListRunEventsResponse> {
  const answer = await core.call(LIST_RUN_EVENTS, {
    path: { run_id: runId },
    query: {
      limit: PAGE,
      wait_seconds: waitSeconds || undefined,
      ...(at.segmentId === null ? {} : { segment: at.segmentId, after_seq: at.seq }),
    },
    held: Math.min(waitSeconds, HELD_SECONDS),
  });
  const page = jsonOf<ListRunEventsResponse>(answer);
  const first = page.segments[0];
  if (at.segmentId === null && first !== undefined && first.segment_id !== page.segment_id) {
    // Without a segment the answer has the latest segment, but events begin with the first.
    at.segmentId = first.segment_id;
    return pageAt(core, runId, at, 0);
  }
  return page;
}

function positionOf(id: string): Position | undefined {
  const found = ID.exec(id);
  return found?.[1] === undefined ? undefined : { segmentId: found[1], seq: Number(found[2]) };
}

function text(position: Position): string {
  return `${position.segmentId}:${position.seq}`;
}
