import assert from "node:assert/strict";
import { test } from "node:test";

import { ApiError, Client, ConfigurationError, ConnectionFailedError, TimedOutError } from "../src/index.js";
import { RunFailedError, RunNotFinishedError, UnexpectedAnswerError } from "../src/index.js";
import { broken, FakeService, json, refused, run, WORKFLOW_ID } from "./fake.js";

test("a start is repeated with one idempotency key", async () => {
  const service = new FakeService([broken(), refused("unavailable", 503), json(run("queued"), {}, 201)]);
  const started = await service.client().runs.start(WORKFLOW_ID, { inputText: "hello", parameters: { top: 3 } });
  assert.equal(started.id, "run_1");
  assert.equal(service.requests.length, 3);
  const [first] = service.requests;
  assert.deepEqual(first?.body, { input_text: "hello", parameters: { top: 3 } });
  assert.equal(first?.headers.get("authorization"), "Bearer ak_1");
  const keys = service.requests.map((one) => one.headers.get("idempotency-key"));
  assert.match(keys[0] ?? "", /^[0-9a-f]{32}$/);
  assert.deepEqual(new Set(keys).size, 1);
  const given = new FakeService([json(run("queued"))]);
  await given.client().runs.start(WORKFLOW_ID, { idempotencyKey: "order-7" });
  assert.equal(given.requests[0]?.headers.get("idempotency-key"), "order-7");
});

test("a limited call is repeated after the time that the service gives", async () => {
  const service = new FakeService([refused("rate_limited", 429, { "Retry-After": "17" }), json({ status: "ok" })]);
  assert.equal((await service.client().health()).status, "ok");
  assert.deepEqual(service.clock.slept, [17]);
});

test("retries end after the bound, and at once where the time given is beyond it", async () => {
  const service = new FakeService([refused("runtime_unreachable", 503)]);
  await assert.rejects(service.client({ retrySeconds: 20 }).me(), { code: "runtime_unreachable", retryAfter: null });
  assert.ok(service.clock.time <= 1020 && service.clock.time > 1010);
  const quota = new FakeService([refused("quota_exceeded", 429, { "Retry-After": "3600" })]);
  await assert.rejects(quota.client().me(), { code: "quota_exceeded", retryAfter: 3600 });
  assert.deepEqual(quota.clock.slept, []);
});

test("a cancel that may have arrived is not repeated, one that was not sent is", async () => {
  const service = new FakeService([json(run("running")), broken("ECONNRESET"), json({})]);
  const started = await service.client().runs.get("run_1");
  await assert.rejects(started.cancel("enough"), (error) => error instanceof ConnectionFailedError && error.sent);
  const away = new FakeService([json(run("running")), broken("ECONNREFUSED"), json({ status: "running" })]);
  assert.equal((await (await away.client().runs.get("run_1")).cancel()).status, "running");
});

test("a refusal has code, status, details and request id, and its calls are not repeated", async () => {
  const details = [{ name: "top", reason: "must be a number" }];
  const error = { code: "invalid_parameters", message: "No.", details, request_id: "req_9" };
  const service = new FakeService([json({ error }, {}, 400)]);
  await assert.rejects(service.client().runs.start(WORKFLOW_ID), (thrown) => {
    assert.ok(thrown instanceof ApiError);
    assert.equal(thrown.name, "ApiError");
    assert.deepEqual([thrown.code, thrown.status, thrown.requestId], ["invalid_parameters", 400, "req_9"]);
    assert.deepEqual(thrown.details, details);
    return true;
  });
  assert.equal(service.requests.length, 1);
});

test("an answer of another server is unexpected, and redirects are not followed", async () => {
  for (const script of [() => new Response("<html>"), () => new Response(null, { status: 302 })]) {
    await assert.rejects(new FakeService([script]).client().me(), UnexpectedAnswerError);
  }
});

test("a call ends by its time, with its retries, and by its signal", async () => {
  const service = new FakeService([broken("ECONNREFUSED")]);
  await assert.rejects(service.client().me({ timeoutSeconds: 3 }), TimedOutError);
  assert.equal(service.clock.time, 1003);
  const silent = new FakeService([
    (_, signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  ]);
  await assert.rejects(silent.client({ timeoutSeconds: 0.01, retrySeconds: 0 }).me(), ConnectionFailedError);
  await assert.rejects(silent.client().me({ signal: AbortSignal.timeout(5) }), { name: "TimeoutError" });
});

test("lists are read page by page, and a workflow is found by its name", async () => {
  const named = { workflow_id: WORKFLOW_ID, name: "Text digest" };
  const first = json({ items: [{ ...named, name: "Text digests" }], next_cursor: "c1" });
  const service = new FakeService([first, json({ items: [named], next_cursor: null })]);
  assert.equal((await service.client().workflows.get("Text digest")).workflow_id, WORKFLOW_ID);
  assert.equal(service.requests[0]?.url.searchParams.get("q"), "Text digest");
  assert.equal(service.requests[1]?.url.searchParams.get("cursor"), "c1");
  const none = new FakeService([json({ items: [], next_cursor: null })]);
  await assert.rejects(none.client().runs.start("Other"), { code: "workflow_not_found" });
  const filtered = new FakeService([json({ items: [], next_cursor: null })]);
  await filtered.client().runs.page({ status: ["queued", "running"] }, { limit: 5 });
  assert.equal(filtered.requests[0]?.url.search, "?limit=5&status=queued%2Crunning");
});

test("a wait is held, ends at the end of the run or its time, and takes a sweep into account", async () => {
  const sweep = { pii_redaction: { stages: [{ stage: "outputs", status: "pending" }] } };
  const ended = run("completed", { result: { words: 3 } });
  const service = new FakeService([json(run("running")), json(run("completed", sweep)), json(ended)]);
  const started = await service.client().runs.get("run_1");
  assert.throws(() => started.result, RunNotFinishedError);
  await started.wait();
  assert.deepEqual(started.result, { words: 3 });
  const asked = service.requests.map((one) => one.url.searchParams.get("wait_seconds"));
  assert.deepEqual(asked, [null, null, "30"]);
  const running = json(run("running"), { ETag: '"1"' });
  const slow = new FakeService([running, running, () => new Response(null, { status: 304 })]);
  const parked = await slow.client().runs.get("run_1");
  await assert.rejects(parked.wait({ timeoutSeconds: 60 }), /run_1 was not done within 60 s/);
  assert.equal(slow.clock.time, 1060);
  assert.equal(slow.requests.at(-1)?.headers.get("if-none-match"), '"1"');
});

test("the result of a failed run is its error", async () => {
  const failed = run("failed", { error: { code: "node_failed", message: "boom" } });
  const started = await new FakeService([json(failed)]).client().runs.get("run_1");
  assert.throws(() => started.result, (error) => error instanceof RunFailedError && error.code === "node_failed");
});

test("settings that do not fit are refused without the credential", () => {
  const good = { key: "ak_1", externalId: "ake_1" };
  const wrong: [string, ConstructorParameters<typeof Client>[1]][] = [
    ["ftp://flows.example.org", good],
    ["https://user@flows.example.org", good],
    ["https://flows.example.org", { ...good, key: "secret key" }],
    ["https://flows.example.org", { ...good, timeoutSeconds: -1 }],
    ["https://flows.example.org", { ...good, headers: { Authorization: "x" } }],
  ];
  for (const [url, options] of wrong) {
    assert.throws(
      () => new Client(url, options),
      (error) => error instanceof ConfigurationError && !error.message.includes("secret"),
    );
  }
});
