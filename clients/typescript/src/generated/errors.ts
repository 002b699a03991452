/** Error codes of the API. Made from the protos by `make generate`; never edited by hand. */

/** Every error code that this release knows. */
export type ErrorCode =
  /**
   * 400: Malformed JSON, a field or parameter outside its bounds, or at a start a missing or malformed
   * `Idempotency-Key`.
   */
  | "invalid_request"
  /** 400: Run parameters fail the version's contract, one problem each. */
  | "invalid_parameters"
  /** 400: A filter of the run list is invalid. */
  | "invalid_filter"
  /** 400: A cursor that this API did not issue for this route and key. */
  | "invalid_cursor"
  /** 400: `pii_policy_override` loosens the workflow's policy. */
  | "policy_not_tightening"
  /** 400: `pii_policy_override` is not a valid policy. */
  | "invalid_pii_policy"
  /** 401: Credentials missing, malformed, wrong, revoked or expired; never says which. */
  | "unauthorized"
  /** 403: Source address outside the allow-list, or the route's scope is missing. */
  | "forbidden"
  /** 403: Current UTC hour outside the key's allowed hours. */
  | "outside_time_window"
  /** 404: No such workflow within the key's reach. */
  | "workflow_not_found"
  /** 404: No such run within the key's reach. */
  | "run_not_found"
  /** 404: No such output of the run. */
  | "output_not_found"
  /** 404: No such segment of the run. */
  | "segment_not_found"
  /** 404: The redaction policy of the run was off. */
  | "pii_redaction_not_applied"
  /** 404: A path that does not exist, or a run whose board or event log no longer exists. */
  | "not_found"
  /** 405: The path exists, the method does not. */
  | "method_not_allowed"
  /**
   * 409: Same `Idempotency-Key` with a different body, or while the first request is still processing (Retry-After
   * 1).
   */
  | "idempotency_conflict"
  /** 409: The workflow is a draft or inactive. */
  | "workflow_not_active"
  /** 409: The workflow cannot run as it is. */
  | "workflow_not_ready"
  /** 409: Outputs asked for, or erasure requested, while the run is going. */
  | "run_not_terminal"
  /** 409: The final redaction sweep of the outputs has not finished. */
  | "redaction_pending"
  /** 409: Cancel of a finished run. */
  | "already_terminal"
  /** 409: Erasure of an already erased run. */
  | "already_purged"
  /** 413: One output over 25,000,000 bytes. */
  | "use_bundle"
  /** 413: The zip would exceed 500,000,000 bytes of content or 2,000 files. */
  | "bundle_too_large"
  /** 413: Body over 1,048,576 bytes, refused before it is read. */
  | "payload_too_large"
  /** 416: `Range` does not fit the file. */
  | "range_not_satisfiable"
  /** 422: The requested version of the workflow does not exist. */
  | "version_not_found"
  /** 429: The key's requests-per-minute limit is full. */
  | "rate_limited"
  /** 429: The key's daily run quota is used up. */
  | "quota_exceeded"
  /** 429: The key's concurrent-run bound is reached. */
  | "too_many_active_runs"
  /**
   * 451: The deployment's licence is on hold, so no run is started. Runs that have begun go on, also past an
   * approval.
   */
  | "license_unavailable"
  /** 500: Unexpected failure. */
  | "internal"
  /** 502: The runtime answered with an error. */
  | "runtime_error"
  /** 502: The runtime did not answer. */
  | "runtime_unreachable"
  /**
   * 503: The deployment does not take keys now; the reason is `not_governed`, `not_enabled` or
   * `keys_table_unreachable`.
   */
  | "deployment_updating";
