/** Settings of a client: address of the service, credentials, time bounds and headers. */

import type { Clock } from "./clock.js";
import type { Fetch } from "./exchange.js";
import { ConfigurationError } from "./failures.js";

const BASE = "/api/v1";
const CREDENTIAL = /^[!-~]{1,1000}$/;
const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$/;
const HEADER_VALUE = /^[ -~]{0,8000}$/;
// Headers that the client itself sets.
const OWN_HEADERS = new Set([
  "accept",
  "accept-encoding",
  "authorization",
  "content-length",
  "content-type",
  "host",
  "idempotency-key",
  "if-none-match",
  "if-range",
  "last-event-id",
  "range",
  "transfer-encoding",
  "x-request-id",
  "x-service-key-external-id",
]);

/** Options of a client besides its address. */
export interface ClientOptions {
  /** The key, `ak_…`. */
  key: string;
  /** The key's external id, `ake_…`. */
  externalId: string;
  /** Bound of one request in seconds, 30 by default. */
  timeoutSeconds?: number | undefined;
  /** Bound of the retries of a temporary refusal in seconds, 90 by default. */
  retrySeconds?: number | undefined;
  /** Headers that are sent in addition to the client's own. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** The function that makes requests, by default the platform's. */
  fetch?: Fetch | undefined;
  /** The clock of retries and pauses, which tests replace. */
  clock?: Clock | undefined;
}

/** Checked settings; `url` ends with `/api/v1`. */
export interface Settings {
  readonly url: string;
  readonly key: string;
  readonly externalId: string;
  readonly timeoutSeconds: number;
  readonly retrySeconds: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** Returns checked settings; throws ConfigurationError, whose message does not quote values. */
export function checked(url: string, options: ClientOptions): Settings {
  const { key, externalId, timeoutSeconds = 30, retrySeconds = 90, headers = {} } = options;
  for (const [name, value] of Object.entries({ key, externalId })) {
    if (typeof value !== "string" || !CREDENTIAL.test(value)) {
      throw new ConfigurationError(`\`${name}\` must be the text that was shown when the key was made.`);
    }
  }
  for (const [name, value] of Object.entries({ timeoutSeconds, retrySeconds })) {
    if (!(value >= 0 && value < Infinity)) throw new ConfigurationError(`\`${name}\` must be a number of seconds.`);
  }
  for (const [name, value] of Object.entries(headers)) {
    if (OWN_HEADERS.has(name.toLowerCase()) || !HEADER_NAME.test(name)) {
      throw new ConfigurationError(`\`headers\` must not have ${name}: it is no header, or one that the client sets.`);
    }
    if (!HEADER_VALUE.test(value)) {
      throw new ConfigurationError(`\`headers\` must have printable ASCII as the value of ${name}.`);
    }
  }
  return { url: baseAddress(url), key, externalId, timeoutSeconds, retrySeconds, headers: { ...headers } };
}

/** Returns address, key and external id from the environment; throws ConfigurationError if a variable is missing. */
export function fromEnvironment(): { url: string; key: string; externalId: string } {
  const given = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {};
  const [url, key, externalId] = ["WORKFLOW_API_URL", "WORKFLOW_API_KEY", "WORKFLOW_API_EXTERNAL_ID"].map((name) => {
    const value = given[name];
    if (!value) throw new ConfigurationError(`Set ${name} in the environment.`);
    return value;
  }) as [string, string, string];
  return { url, key, externalId };
}

function baseAddress(text: string): string {
  let url: URL;
  try {
    url = new URL(text.trim());
  } catch {
    throw new ConfigurationError("The address must be of the form https://host or https://host/api/v1.");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new ConfigurationError("The address must be of the form https://host or https://host/api/v1.");
  }
  if (url.username || url.password || url.search || url.hash) {
    throw new ConfigurationError("The address must have no user, no query and no fragment.");
  }
  const path = url.pathname.replace(/\/+$/, "");
  return `${url.origin}${path.endsWith(BASE) ? path : path + BASE}`;
}
