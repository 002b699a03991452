/** Requests by `fetch`, each within bounds of time. */

import { UnexpectedAnswerError } from "./failures.js";

/** The function that makes requests. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** An HTTP request. */
export interface Request {
  readonly method: string;
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly content: string | undefined;
  /** Seconds until the whole answer, or for an opened answer until its head. */
  readonly within: number;
  /** With it the body is left to be read, with at most these seconds between two reads. */
  readonly idle: number | undefined;
  readonly signal: AbortSignal | undefined;
}

/** No answer came. `sent` is true if the service may have received the request. */
export class TransportError extends Error {
  constructor(
    message: string,
    readonly sent: boolean,
  ) {
    super(message);
  }
}

/** An HTTP answer; `text` is empty where `body` is left to be read. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: Body;
}

// `setTimeout` takes a longer time for none.
const LONGEST_TIMER_MS = 2 ** 31 - 1;
const REDIRECT = 300;
// Node's causes of a failure before anything was sent; browsers do not tell.
const NEVER_SENT = new Set([
  "EAI_AGAIN",
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** Sends a request; returns the answer, with `idle` and unless it is a refusal with its body left to be read. */
export async function exchange(fetch: Fetch, request: Request): Promise<Answer> {
  const bound = new Bound(request.signal);
  let opened = false;
  try {
    const response = await bound.keep(request.within, () =>
      fetch(request.url, {
        method: request.method,
        headers: request.headers,
        ...(request.content === undefined ? {} : { body: request.content }),
        // Redirects are not followed, so that credentials go to no other server.
        redirect: "manual",
        credentials: "omit",
        cache: "no-store",
        signal: bound.signal,
      }),
    );
    if (response.type === "opaqueredirect") {
      throw new UnexpectedAnswerError("The answer is a redirect: is this the service's address?");
    }
    opened = request.idle !== undefined && response.status < REDIRECT;
    const text = opened ? "" : await bound.keep(request.within, () => response.text());
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: new Body(opened ? response.body : null, bound, request.idle ?? request.within),
    };
  } finally {
    if (!opened) bound.end();
  }
}

/** The body of an opened answer. */
export class Body {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(
    stream: ReadableStream<Uint8Array> | null,
    private readonly bound: Bound,
    private readonly idle: number,
  ) {
    this.#reader = stream?.getReader();
  }

  /** Returns the next bytes; undefined at the end. */
  async read(): Promise<Uint8Array | undefined> {
    const reader = this.#reader;
    return reader && (await this.bound.keep(this.idle, () => reader.read())).value;
  }

  /** Closes the answer and its connection. */
  close(): void {
    this.bound.end();
  }
}

/** Bound of the time of one request, and the caller's signal. */
class Bound {
  readonly #controller = new AbortController();
  readonly #abort = (): void => this.#controller.abort(this.outer?.reason);

  constructor(private readonly outer: AbortSignal | undefined) {
    if (outer?.aborted) this.#abort();
    outer?.addEventListener("abort", this.#abort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Returns the outcome of a step of the request; throws TransportError if it fails or takes too long. */
  async keep<T>(seconds: number, step: () => Promise<T>): Promise<T> {
    let late = false;
    const timer = setTimeout(
      () => {
        late = true;
        this.#controller.abort();
      },
      Math.min(LONGEST_TIMER_MS, seconds * 1000),
    );
    try {
      return await step();
    } catch (error) {
      this.outer?.throwIfAborted();
      throw late ? new TransportError("the answer took too long", true) : translated(error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the request and what is left of its answer. */
  end(): void {
    this.outer?.removeEventListener("abort", this.#abort);
    this.#controller.abort();
  }
}

function translated(error: unknown): TransportError {
  const cause = (error as { cause?: { code?: unknown; message?: unknown } }).cause;
  const text = String(cause?.message || (error as { message?: unknown }).message || error);
  return new TransportError(text, !NEVER_SENT.has(String(cause?.code)));
}
