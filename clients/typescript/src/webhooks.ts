/** Verifies messages that the service sends to webhooks, as Standard Webhooks defines them. */

import { WebhookVerificationError } from "./failures.js";
import type { RunWebhookMessage, ScheduleWebhookMessage } from "./generated/webhooks.js";

/** A verified message; `type` tells which. An `id` may arrive several times: ignore processed ids. */
export type WebhookMessage = RunWebhookMessage | ScheduleWebhookMessage;

/** Headers of a request, as of `fetch` or of Node's `IncomingMessage`. */
export type ReceivedHeaders = Headers | Readonly<Record<string, string | string[] | undefined>>;

// Most seconds between a message's time and the receiver's, so that recorded messages cannot be replayed later.
const TOLERANCE_SECONDS = 300;
const SECONDS = /^[0-9]{1,12}$/;

/**
 * Verifies signature and time of a received message; returns the message.
 *
 * `secret` is the webhook's secret, `whsec_…`, or several secrets during a rotation; `headers` and `body` are those of
 * the request, with the body's bytes unchanged; `now` is the Unix time in seconds, by default the machine's. Throws
 * WebhookVerificationError if the signature or the time is not valid (ignore the message), and RangeError if a secret
 * has a wrong form.
 */
export async function verifyWebhook(
  secret: string | readonly string[],
  headers: ReceivedHeaders,
  body: string | Uint8Array,
  options: { now?: number | undefined } = {},
): Promise<WebhookMessage> {
  const given = headers instanceof Headers ? headers : headersOf(headers);
  const [id, at, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => {
    const value = given.get(name);
    if (!value) throw new WebhookVerificationError(`The request has no ${name}.`);
    return value;
  }) as [string, string, string];
  const now = options.now ?? Date.now() / 1000;
  if (!SECONDS.test(at) || Math.abs(now - Number(at)) > TOLERANCE_SECONDS) {
    throw new WebhookVerificationError(`The webhook-timestamp is not within ${TOLERANCE_SECONDS} seconds of now.`);
  }
  const content = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const signed = joined(new TextEncoder().encode(`${id}.${at}.`), content);
  if (!(await isSigned(typeof secret === "string" ? [secret] : secret, signed, signatures))) {
    throw new WebhookVerificationError("No webhook-signature fits the secret and the body as it came.");
  }
  return { ...messageOf(content), id };
}

function headersOf(record: Readonly<Record<string, string | string[] | undefined>>): Map<string, string> {
  return new Map(Object.entries(record).map(([name, value]) => [name.toLowerCase(), [value ?? ""].flat().join(" ")]));
}

function joined(head: Uint8Array, content: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(head.length + content.length);
  bytes.set(head);
  bytes.set(content, head.length);
  return bytes;
}

async function isSigned(
  secrets: readonly string[],
  signed: Uint8Array<ArrayBuffer>,
  signatures: string,
): Promise<boolean> {
  let fits = false;
  for (const secret of secrets) {
    const bytes = base64(secret.replace(/^whsec_/, ""));
    if (!bytes?.length) {
      throw new RangeError("`secret` must be the text that was shown when the webhook was made, whsec_….");
    }
    const key = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const one of signatures.split(/\s+/)) {
      const signature = one.startsWith("v1,") ? base64(one.slice(3)) : undefined;
      if (signature && (await crypto.subtle.verify("HMAC", key, signature, signed))) fits = true;
    }
  }
  return fits;
}

function base64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function messageOf(content: Uint8Array): WebhookMessage {
  try {
    const value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(content)) as Partial<WebhookMessage>;
    if (typeof value.type === "string" && typeof value.timestamp === "string" && typeof value.data === "object") {
      if (value.data !== null) return value as WebhookMessage;
    }
  } catch {
    // Reported below.
  }
  throw new WebhookVerificationError("The body is no message of the service.");
}
