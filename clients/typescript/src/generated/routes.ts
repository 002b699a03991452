/** Routes of the API. Made from the protos by `make generate`; never edited by hand. */

/** One method on one path below the base address. */
export interface Route {
  readonly method: string;
  readonly path: string;
  /** True if a call whose answer was lost may be sent again: it changes nothing, or the service recognizes it. */
  readonly repeatable: boolean;
  readonly takesBody: boolean;
}

/** Liveness, and whether keys are accepted on this deployment. */
export const GET_HEALTH: Route = {
  method: "GET",
  path: "/health",
  repeatable: true,
  takesBody: false,
};

/** The calling key and its limits. */
export const GET_ME: Route = {
  method: "GET",
  path: "/me",
  repeatable: true,
  takesBody: false,
};

/** Active workflows within the key's reach, by name, then id. */
export const LIST_WORKFLOWS: Route = {
  method: "GET",
  path: "/workflows",
  repeatable: true,
  takesBody: false,
};

/**
 * One workflow, with its readiness. Only a key with a list of workflows reads drafts and inactive ones, those
 * listed.
 */
export const GET_WORKFLOW: Route = {
  method: "GET",
  path: "/workflows/{workflow_id}",
  repeatable: true,
  takesBody: false,
};

/** The declared run inputs of the workflow's active version. */
export const LIST_PARAMETERS: Route = {
  method: "GET",
  path: "/workflows/{workflow_id}/parameters",
  repeatable: true,
  takesBody: false,
};

/**
 * Starts a run; the same `Idempotency-Key` with the same body answers, for 24 hours, the run that exists
 * already.
 */
export const START_RUN: Route = {
  method: "POST",
  path: "/workflows/{workflow_id}/runs",
  repeatable: true,
  takesBody: true,
};

/** The calling key's runs, newest first. */
export const LIST_RUNS: Route = {
  method: "GET",
  path: "/runs",
  repeatable: true,
  takesBody: false,
};

/** One run in full. */
export const GET_RUN: Route = {
  method: "GET",
  path: "/runs/{run_id}",
  repeatable: true,
  takesBody: false,
};

/**
 * The nodes parked on a human gate now. While the deployment's licence is on hold they can still be decided, and
 * a run that has begun goes on.
 */
export const LIST_RUN_APPROVALS: Route = {
  method: "GET",
  path: "/runs/{run_id}/approvals",
  repeatable: true,
  takesBody: false,
};

/** Asks for the end of a run; asking again before it took effect is accepted again. */
export const CANCEL_RUN: Route = {
  method: "POST",
  path: "/runs/{run_id}/cancel",
  repeatable: false,
  takesBody: true,
};

/**
 * Erases a finished run's objects and every value that holds content; ids, status, times and counts stay. Nobody
 * can reach any of it from the answer on; the stored objects are removed soon after.
 */
export const ERASE_RUN_DATA: Route = {
  method: "DELETE",
  path: "/runs/{run_id}/data",
  repeatable: false,
  takesBody: true,
};

/**
 * Replays the durable event log of one runtime segment. An attempt of a step writes at most 10,000 events with 8
 * MB of data together; what is beyond is dropped, and one `warning` event counts it.
 */
export const LIST_RUN_EVENTS: Route = {
  method: "GET",
  path: "/runs/{run_id}/events",
  repeatable: true,
  takesBody: false,
};

/** The state of every step, read from the run's board. */
export const LIST_RUN_STEPS: Route = {
  method: "GET",
  path: "/runs/{run_id}/steps",
  repeatable: true,
  takesBody: false,
};

/**
 * The promoted outputs of a finished run. A step leaves at most 10,000 files in 10,000 directories, 32 levels
 * deep; what is beyond, and what is no plain file, is not promoted, and a warning of the run counts it.
 */
export const LIST_OUTPUTS: Route = {
  method: "GET",
  path: "/runs/{run_id}/outputs",
  repeatable: true,
  takesBody: false,
};

/** All outputs as one zip of at most 500,000,000 bytes of content and 2,000 files, whole or one range of it. */
export const GET_OUTPUTS_ZIP: Route = {
  method: "GET",
  path: "/runs/{run_id}/outputs.zip",
  repeatable: true,
  takesBody: false,
};

/** One output's bytes, whole or one range of them. */
export const GET_OUTPUT_CONTENT: Route = {
  method: "GET",
  path: "/runs/{run_id}/outputs/{output_id}/content",
  repeatable: true,
  takesBody: false,
};

/** What redaction found and did, in counts only. */
export const GET_PII_REDACTION: Route = {
  method: "GET",
  path: "/runs/{run_id}/pii-redaction",
  repeatable: true,
  takesBody: false,
};
