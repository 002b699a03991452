import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import { verifyWebhook, WebhookVerificationError } from "../src/index.js";

const SECRET = "whsec_c2VjcmV0LW9mLTMyLWJ5dGVzLWZvci10aGUtdGVzdHM=";
const OTHER = "whsec_YW5vdGhlci1zZWNyZXQtZm9yLXRoZS10ZXN0cw==";
const AT = 1_790_000_000;
const RUN = { run_id: "run_1", workflow_id: "wf_1", status: "completed", client_reference: null };
const BODY = message("run.ended", RUN);

function message(type: string, data: unknown): string {
  return JSON.stringify({ type, timestamp: "2026-09-21T14:13:20.000+00:00", data });
}

function signed(secret = SECRET, body = BODY, at = AT): Record<string, string> {
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const signature = createHmac("sha256", key).update(`msg_1.${at}.${body}`).digest("base64");
  return { "Webhook-Id": "msg_1", "WEBHOOK-TIMESTAMP": `${at}`, "webhook-signature": `v1,${signature}` };
}

test("a signed message is returned with its run, from headers of any kind", async () => {
  for (const headers of [signed(), new Headers(signed())]) {
    for (const now of [AT, AT - 300, AT + 300]) {
      const received = await verifyWebhook(SECRET, headers, new TextEncoder().encode(BODY), { now });
      assert.equal(received.id, "msg_1");
      assert.equal(received.type === "run.ended" && received.data.run_id, "run_1");
    }
  }
});

test("a message of a schedule is returned with its decision", async () => {
  const due_at = "2026-09-24T10:15:00.000+00:00";
  const common = { workflow_id: "wf_1", schedule: "nightly", due_at };
  for (const [type, more] of [
    ["schedule.skipped", { reason: "in_flight", count: 2, first_due_at: due_at }],
    ["schedule.failed", { reason: "workflow_not_active", message: "It is not active." }],
  ] as const) {
    const body = message(type, { ...common, ...more });
    const received = await verifyWebhook(SECRET, signed(SECRET, body), body, { now: AT });
    assert.deepEqual([received.type, received.data], [type, { ...common, ...more }]);
  }
});

test("one of several secrets or signatures is enough", async () => {
  const both = `v1a,x ${signed()["webhook-signature"]} ${signed(OTHER)["webhook-signature"]}`;
  const headers = { ...signed(), "webhook-signature": both };
  assert.equal((await verifyWebhook(OTHER, headers, BODY, { now: AT })).id, "msg_1");
  assert.equal((await verifyWebhook([OTHER, SECRET], signed(), BODY, { now: AT })).id, "msg_1");
});

test("a message that was not signed, or at another time, is refused", async () => {
  const cases: [Record<string, string>, string, number][] = [
    [signed(OTHER), BODY, AT],
    [signed(), `${BODY} `, AT],
    [signed(), BODY, AT + 301],
    [signed(), BODY, AT - 301],
    [{ ...signed(), "WEBHOOK-TIMESTAMP": "soon" }, BODY, AT],
    [{ ...signed(), "Webhook-Id": "msg_2" }, BODY, AT],
    [{ ...signed(), "webhook-signature": "v1,ä" }, BODY, AT],
    [{}, BODY, AT],
    [signed(SECRET, "[]"), "[]", AT],
    [signed(SECRET, "{"), "{", AT],
  ];
  for (const [headers, body, now] of cases) {
    await assert.rejects(verifyWebhook(SECRET, headers, body, { now }), WebhookVerificationError);
  }
});

test("a secret of a wrong form is no matter of the message", async () => {
  for (const secret of ["", "whsec_", "whsec_%%%"]) {
    await assert.rejects(verifyWebhook(secret, signed(), BODY, { now: AT }), RangeError);
  }
});
