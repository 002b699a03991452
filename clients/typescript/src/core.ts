/** Calls of the API's routes: requests, refusals and retries. */

import type { Clock } from "./clock.js";
import { exchange, TransportError, type Answer, type Fetch } from "./exchange.js";
import { ApiError, ConnectionFailedError, TimedOutError, UnexpectedAnswerError, WorkflowApiError } from "./failures.js";
import type { Route } from "./generated/routes.js";
import type { Settings } from "./settings.js";
import { VERSION } from "./version.js";

/** Options that every call takes. */
export interface CallOptions {
  /** Bound of the call with its retries, in seconds; beyond it the call throws TimedOutError. */
  timeoutSeconds?: number | undefined;
  /** Ends the call, which then throws the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** Values of one call. */
export interface Call {
  path?: Record<string, string>;
  query?: Record<string, string | number | undefined>;
  body?: Record<string, unknown>;
  headers?: Record<string, string>;
  /** Time of the clock at which the call ends. */
  deadline?: number | undefined;
  /** Seconds for which the service may hold the answer. */
  held?: number;
  /** With it the body is left to be read, with at most these seconds between two reads. */
  idle?: number;
}

const MAX_BACK_OFF_SECONDS = 8;
const SECONDS = /^[0-9]{1,9}$/;
// Codes of refusals before any effect, after which every call may be sent again.
const NOT_BEGUN = new Set(["rate_limited", "quota_exceeded", "too_many_active_runs", "deployment_updating"]);
// Codes of temporary refusals, if the service gives `Retry-After`.
const TEMPORARY = new Set(["idempotency_conflict", "redaction_pending"]);
const REDIRECT = 300;
const NOT_MODIFIED = 304;
const TOO_MANY = 429;
const GATEWAY = new Set([502, 503, 504]);
// Browsers send their own.
const IN_NODE = (globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node !== undefined;
const USER_AGENT = IN_NODE ? { "User-Agent": `workflow-api-client-typescript/${VERSION}` } : {};

/** Caller of the API with one key. */
export class Core {
  constructor(
    private readonly settings: Settings,
    readonly clock: Clock,
    private readonly fetch: Fetch,
    /** Properties of the service, as far as known. */
    readonly service = { streams: true },
    private readonly deadline?: number,
    readonly signal?: AbortSignal,
  ) {}

  get address(): string {
    return this.settings.url;
  }

  get retrySeconds(): number {
    return this.settings.retrySeconds;
  }

  /** Returns a core whose calls, retries and downloads keep these options together. */
  bounded(options: CallOptions = {}): Core {
    const { timeoutSeconds, signal } = options;
    if (timeoutSeconds !== undefined && !(timeoutSeconds >= 0 && timeoutSeconds < Infinity)) {
      throw new RangeError("`timeoutSeconds` must be a number of seconds.");
    }
    const deadline = timeoutSeconds === undefined ? this.deadline : this.clock.now() + timeoutSeconds;
    return new Core(this.settings, this.clock, this.fetch, this.service, deadline, signal ?? this.signal);
  }

  /** Throws TimedOutError once the time given to `bounded` has passed. */
  checkTime(): void {
    if (this.deadline !== undefined && this.clock.now() >= this.deadline) throw late();
  }

  pause(seconds: number): Promise<void> {
    return this.clock.sleep(seconds, this.signal);
  }

  /** Returns the JSON in the answer of a call. */
  async json<T>(route: Route, call: Call = {}): Promise<T> {
    return jsonOf<T>(await this.call(route, call));
  }

  /** Returns the answer of a call; retries while a retry is safe and may help. */
  async call(route: Route, call: Call = {}): Promise<Answer> {
    const { settings, clock } = this;
    const deadline = Math.min(call.deadline ?? Infinity, this.deadline ?? Infinity);
    // A deadline for the call replaces the client's bound, also with a longer time.
    const longest = this.deadline === undefined ? settings.timeoutSeconds + (call.held ?? 0) : Infinity;
    let lastTry: number | undefined;
    for (let tries = 1; ; tries++) {
      this.signal?.throwIfAborted();
      const begun = clock.now();
      if (begun >= deadline) throw late();
      const requestId = randomId();
      const within = Math.min(longest, deadline - begun);
      let failure: WorkflowApiError;
      let pause: number | undefined;
      try {
        const answer = await exchange(this.fetch, {
          ...this.request(route, call, requestId),
          within,
          idle: call.idle === undefined ? undefined : Math.min(call.idle, deadline - begun),
          signal: this.signal,
        });
        if (answer.status < REDIRECT || answer.status === NOT_MODIFIED) return answer;
        failure = refusal(answer, requestId);
        pause = pauseAfter(failure, answer, route, tries);
      } catch (error) {
        if (!(error instanceof TransportError)) throw error;
        const text = `${settings.url}: ${error.message} (request ${requestId})`;
        failure = new ConnectionFailedError(text, error.sent, { cause: error });
        pause = route.repeatable || !error.sent ? backOff(tries) : undefined;
      }
      if (pause === undefined) throw failure;
      const now = clock.now();
      lastTry ??= now + settings.retrySeconds;
      if (now + pause >= deadline && deadline <= lastTry) {
        await this.pause(Math.max(0, deadline - now));
        throw late(failure);
      }
      if (now + pause > lastTry) throw failure;
      await this.pause(pause);
    }
  }

  private request(route: Route, call: Call, requestId: string) {
    const filled = route.path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(call.path?.[name] ?? ""));
    const asked = new URLSearchParams();
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined) asked.set(name, String(value));
    }
    const content = route.takesBody ? JSON.stringify(call.body ?? {}) : undefined;
    return {
      method: route.method,
      url: `${this.settings.url}${filled}${asked.size ? "?" : ""}${asked}`,
      content,
      headers: {
        ...USER_AGENT,
        ...this.settings.headers,
        Authorization: `Bearer ${this.settings.key}`,
        "X-Service-Key-External-Id": this.settings.externalId,
        // No compression, because ranges and digests are of the stored bytes.
        "Accept-Encoding": "identity",
        ...(content === undefined ? {} : { "Content-Type": "application/json" }),
        ...call.headers,
        "X-Request-Id": requestId,
      },
    };
  }
}

/** Returns the JSON of an answer; throws UnexpectedAnswerError if the body is no JSON, as from a sign-in page. */
export function jsonOf<T>(answer: Answer): T {
  try {
    const value: unknown = JSON.parse(answer.text);
    if (typeof value === "object" && value !== null) return value as T;
  } catch {
    // Reported below.
  }
  throw new UnexpectedAnswerError(`Status ${answer.status} without a JSON object: is this the service's address?`);
}

/** Returns 32 random hexadecimal digits; `randomUUID` is missing on pages without TLS. */
export function randomId(): string {
  return hexOf(crypto.getRandomValues(new Uint8Array(16)));
}

/** Returns bytes in hexadecimal. */
export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function refusal(answer: Answer, sentId: string): WorkflowApiError {
  const requestId = answer.headers.get("x-request-id") ?? sentId;
  try {
    const { code, message, details, request_id } = JSON.parse(answer.text).error;
    if (typeof code === "string" && typeof message === "string") {
      return new ApiError(message, {
        code,
        status: answer.status,
        requestId: request_id || requestId,
        details: details ?? undefined,
        retryAfter: retryAfter(answer),
      });
    }
  } catch {
    // Reported below.
  }
  return new UnexpectedAnswerError(
    `Status ${answer.status} without the API's envelope: is this the service's address? (request ${requestId})`,
  );
}

function retryAfter(answer: Answer): number | null {
  const value = answer.headers.get("retry-after")?.trim() ?? "";
  return SECONDS.test(value) ? Number(value) : null;
}

/** Returns the seconds after which a refused call is sent again; undefined if it must not be. */
function pauseAfter(failure: WorkflowApiError, answer: Answer, route: Route, tries: number): number | undefined {
  const given = retryAfter(answer);
  const code = failure instanceof ApiError ? failure.code : "";
  if (NOT_BEGUN.has(code) || answer.status === TOO_MANY) return given ?? backOff(tries);
  if (TEMPORARY.has(code)) return given ?? undefined;
  return GATEWAY.has(answer.status) && route.repeatable ? (given ?? backOff(tries)) : undefined;
}

function backOff(tries: number): number {
  return Math.min(MAX_BACK_OFF_SECONDS, 0.5 * 2 ** Math.min(tries - 1, 10)) * (0.5 + Math.random() / 2);
}

function late(cause?: WorkflowApiError): TimedOutError {
  return new TimedOutError("The time given has passed.", cause && { cause });
}
