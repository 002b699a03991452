/** A service of scripted answers, and a clock that moves only when somebody waits. */

import { Client, type Clock, type ClientOptions } from "../src/index.js";

/** A request that was received. */
export interface Received {
  method: string;
  url: URL;
  headers: Headers;
  body: unknown;
}

type Script = (request: Received, signal: AbortSignal) => Response | Promise<Response>;

export class FakeClock implements Clock {
  time = 1000;
  readonly slept: number[] = [];

  now(): number {
    return this.time;
  }

  async sleep(seconds: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    this.slept.push(seconds);
    this.time += seconds;
  }
}

export class FakeService {
  readonly clock = new FakeClock();
  readonly requests: Received[] = [];

  /** Each request gets the next answer; the last answer is given again. */
  constructor(private readonly scripts: Script[]) {}

  client(options: Partial<ClientOptions> = {}): Client {
    return new Client("https://flows.example.org", {
      key: "ak_1",
      externalId: "ake_1",
      fetch: this.fetch,
      clock: this.clock,
      ...options,
    });
  }

  readonly fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const body = typeof init.body === "string" ? JSON.parse(init.body) : undefined;
    const request = { method: init.method ?? "", url: new URL(url), headers: new Headers(init.headers), body };
    this.requests.push(request);
    const script = this.scripts[Math.min(this.requests.length, this.scripts.length) - 1];
    if (script === undefined) throw new Error("no answer is scripted");
    return script(request, init.signal ?? new AbortController().signal);
  };
}

export function json(value: unknown, headers: Record<string, string> = {}, status = 200): Script {
  return () => Response.json(value, { status, headers });
}

export function refused(code: string, status: number, headers: Record<string, string> = {}): Script {
  return json({ error: { code, message: `It is ${code}.`, request_id: "req_1" } }, headers, status);
}

export function broken(code?: string): Script {
  return () => {
    throw new TypeError("fetch failed", { cause: { code, message: "broken" } });
  };
}

/** Answers with pieces, after which the connection breaks if `breaks` is true. */
export function pieces(texts: string[], headers: Record<string, string>, breaks = false, status = 200): Script {
  return () => {
    const left = [...texts];
    const stream = new ReadableStream<Uint8Array>({
      pull(controller) {
        const text = left.shift();
        if (text !== undefined) controller.enqueue(new TextEncoder().encode(text));
        else if (breaks) controller.error(new TypeError("terminated"));
        else controller.close();
      },
    });
    return new Response(stream, { headers, status });
  };
}

export function run(status: string, more: object = {}): Record<string, unknown> {
  const empty = { result: null, result_json: null, data_purged_at: null, pii_redaction: null };
  return { run_id: "run_1", status, ...empty, ...more };
}

export const WORKFLOW_ID = `wf_${"0".repeat(26)}`;
