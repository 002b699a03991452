/** Client of the Programmatic Workflow API. */

export { Client, Runs, Workflows } from "./client.js";
export type { PageOptions, RunFilters, StartOptions } from "./client.js";
export type { Clock } from "./clock.js";
export type { CallOptions } from "./core.js";
export type { Fetch } from "./exchange.js";
export * from "./failures.js";
export type { EventOptions } from "./following.js";
export type { ErrorCode } from "./generated/errors.js";
export type * as records from "./generated/records.js";
export type * from "./generated/webhooks.js";
export { Outputs } from "./outputs.js";
export type { DownloadOptions, Progress, ReadOptions } from "./outputs.js";
export { Run } from "./run.js";
export type { WaitOptions } from "./run.js";
export type { ClientOptions } from "./settings.js";
export { VERSION } from "./version.js";
export { verifyWebhook } from "./webhooks.js";
export type { ReceivedHeaders, WebhookMessage } from "./webhooks.js";
