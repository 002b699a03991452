/** Errors of the client. */

import type { ErrorCode } from "./generated/errors.js";

/** Base of all errors of the client. */
export class WorkflowApiError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** An address or a credential is missing or malformed. Never shows a credential. */
export class ConfigurationError extends WorkflowApiError {}

/** Particulars of a refusal. */
export interface Refusal {
  code: string;
  status: number;
  requestId: string | null;
  details?: unknown;
  retryAfter?: number | null;
}

/** The service refused a call; `code` tells why. */
export class ApiError extends WorkflowApiError {
  /** Stable error code; a later release of the service may have codes that this type lacks. */
  readonly code: ErrorCode | (string & {});
  /** HTTP status. */
  readonly status: number;
  /** Id to quote in a report; null where the client itself made the error. */
  readonly requestId: string | null;
  /** A list of problems or an object, depending on the code; undefined without details. */
  readonly details: unknown;
  /** Seconds to wait before the next try, if the service gave them. */
  readonly retryAfter: number | null;

  constructor(message: string, refusal: Refusal) {
    super(message);
    this.code = refusal.code;
    this.status = refusal.status;
    this.requestId = refusal.requestId;
    this.details = refusal.details;
    this.retryAfter = refusal.retryAfter ?? null;
  }
}

/** The answer is not the API's, but from a proxy, a sign-in page or an incompatible release. */
export class UnexpectedAnswerError extends WorkflowApiError {}

/** No answer came: the service cannot be reached, or the connection broke. */
export class ConnectionFailedError extends WorkflowApiError {
  /** `sent` is true if the service may have received the call. */
  constructor(
    message: string,
    readonly sent: boolean,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The given time has passed. The run itself goes on. */
export class TimedOutError extends WorkflowApiError {}

/** The downloaded bytes differ from the digest or size that the service listed. */
export class CorruptDownloadError extends WorkflowApiError {}

/** A message to a webhook is not the service's, or was recorded and sent again later. */
export class WebhookVerificationError extends WorkflowApiError {}

/** The run has not ended as far as this process knows: `wait()` for it, or `refresh()`. */
export class RunNotFinishedError extends WorkflowApiError {}

/** The run has no result, because it failed or was cancelled. */
export class RunFailedError extends WorkflowApiError {
  /** `code` is the run's failure code, as `node_failed`; `cancelled` for a cancelled run. */
  constructor(
    readonly code: string,
    message: string | null,
  ) {
    super(message === null ? code : `${code}: ${message}`);
  }
}
