"""An exception for each error code of the API. Made from the protos by `make generate`; never edited by hand."""

from collections.abc import Mapping
from typing import Final

from workflow_api_client.failures import ApiError


class InvalidRequestError(ApiError):
    """`invalid_request`, 400: Malformed JSON, a field or parameter outside its bounds, or at a start a missing or
    malformed `Idempotency-Key`."""


class InvalidParametersError(ApiError):
    """`invalid_parameters`, 400: Run parameters fail the version's contract, one problem each."""


class InvalidFilterError(ApiError):
    """`invalid_filter`, 400: A filter of the run list is invalid."""


class InvalidCursorError(ApiError):
    """`invalid_cursor`, 400: A cursor that this API did not issue for this route and key."""


class PolicyNotTighteningError(ApiError):
    """`policy_not_tightening`, 400: `pii_policy_override` loosens the workflow's policy."""


class InvalidPiiPolicyError(ApiError):
    """`invalid_pii_policy`, 400: `pii_policy_override` is not a valid policy."""


class UnauthorizedError(ApiError):
    """`unauthorized`, 401: Credentials missing, malformed, wrong, revoked or expired; never says which."""


class ForbiddenError(ApiError):
    """`forbidden`, 403: Source address outside the allow-list, or the route's scope is missing."""


class OutsideTimeWindowError(ApiError):
    """`outside_time_window`, 403: Current UTC hour outside the key's allowed hours."""


class WorkflowNotFoundError(ApiError):
    """`workflow_not_found`, 404: No such workflow within the key's reach."""


class RunNotFoundError(ApiError):
    """`run_not_found`, 404: No such run within the key's reach."""


class OutputNotFoundError(ApiError):
    """`output_not_found`, 404: No such output of the run."""


class SegmentNotFoundError(ApiError):
    """`segment_not_found`, 404: No such segment of the run."""


class PiiRedactionNotAppliedError(ApiError):
    """`pii_redaction_not_applied`, 404: The redaction policy of the run was off."""


class NotFoundError(ApiError):
    """`not_found`, 404: A path that does not exist, or a run whose board or event log no longer exists."""


class MethodNotAllowedError(ApiError):
    """`method_not_allowed`, 405: The path exists, the method does not."""


class IdempotencyConflictError(ApiError):
    """`idempotency_conflict`, 409: Same `Idempotency-Key` with a different body, or while the first request is still
    processing (Retry-After 1)."""


class WorkflowNotActiveError(ApiError):
    """`workflow_not_active`, 409: The workflow is a draft or inactive."""


class WorkflowNotReadyError(ApiError):
    """`workflow_not_ready`, 409: The workflow cannot run as it is."""


class RunNotTerminalError(ApiError):
    """`run_not_terminal`, 409: Outputs asked for, or erasure requested, while the run is going."""


class RedactionPendingError(ApiError):
    """`redaction_pending`, 409: The final redaction sweep of the outputs has not finished."""


class AlreadyTerminalError(ApiError):
    """`already_terminal`, 409: Cancel of a finished run."""


class AlreadyPurgedError(ApiError):
    """`already_purged`, 409: Erasure of an already erased run."""


class UseBundleError(ApiError):
    """`use_bundle`, 413: One output over 25,000,000 bytes."""


class BundleTooLargeError(ApiError):
    """`bundle_too_large`, 413: The zip would exceed 500,000,000 bytes of content or 2,000 files."""


class PayloadTooLargeError(ApiError):
    """`payload_too_large`, 413: Body over 1,048,576 bytes, refused before it is read."""


class RangeNotSatisfiableError(ApiError):
    """`range_not_satisfiable`, 416: `Range` does not fit the file."""


class VersionNotFoundError(ApiError):
    """`version_not_found`, 422: The requested version of the workflow does not exist."""


class RateLimitedError(ApiError):
    """`rate_limited`, 429: The key's requests-per-minute limit is full."""


class QuotaExceededError(ApiError):
    """`quota_exceeded`, 429: The key's daily run quota is used up."""


class TooManyActiveRunsError(ApiError):
    """`too_many_active_runs`, 429: The key's concurrent-run bound is reached."""


class LicenseUnavailableError(ApiError):
    """`license_unavailable`, 451: The deployment's licence is on hold, so no run is started. Runs that have begun go
    on, also past an approval."""


class InternalError(ApiError):
    """`internal`, 500: Unexpected failure."""


class RuntimeError(ApiError):
    """`runtime_error`, 502: The runtime answered with an error."""


class RuntimeUnreachableError(ApiError):
    """`runtime_unreachable`, 502: The runtime did not answer."""


class DeploymentUpdatingError(ApiError):
    """`deployment_updating`, 503: The deployment does not take keys now; the reason is `not_governed`, `not_enabled`
    or `keys_table_unreachable`."""


BY_CODE: Final[Mapping[str, type[ApiError]]] = {
    "invalid_request": InvalidRequestError,
    "invalid_parameters": InvalidParametersError,
    "invalid_filter": InvalidFilterError,
    "invalid_cursor": InvalidCursorError,
    "policy_not_tightening": PolicyNotTighteningError,
    "invalid_pii_policy": InvalidPiiPolicyError,
    "unauthorized": UnauthorizedError,
    "forbidden": ForbiddenError,
    "outside_time_window": OutsideTimeWindowError,
    "workflow_not_found": WorkflowNotFoundError,
    "run_not_found": RunNotFoundError,
    "output_not_found": OutputNotFoundError,
    "segment_not_found": SegmentNotFoundError,
    "pii_redaction_not_applied": PiiRedactionNotAppliedError,
    "not_found": NotFoundError,
    "method_not_allowed": MethodNotAllowedError,
    "idempotency_conflict": IdempotencyConflictError,
    "workflow_not_active": WorkflowNotActiveError,
    "workflow_not_ready": WorkflowNotReadyError,
    "run_not_terminal": RunNotTerminalError,
    "redaction_pending": RedactionPendingError,
    "already_terminal": AlreadyTerminalError,
    "already_purged": AlreadyPurgedError,
    "use_bundle": UseBundleError,
    "bundle_too_large": BundleTooLargeError,
    "payload_too_large": PayloadTooLargeError,
    "range_not_satisfiable": RangeNotSatisfiableError,
    "version_not_found": VersionNotFoundError,
    "rate_limited": RateLimitedError,
    "quota_exceeded": QuotaExceededError,
    "too_many_active_runs": TooManyActiveRunsError,
    "license_unavailable": LicenseUnavailableError,
    "internal": InternalError,
    "runtime_error": RuntimeError,
    "runtime_unreachable": RuntimeUnreachableError,
    "deployment_updating": DeploymentUpdatingError,
}
"""The exception of every error code."""

STATUSES: Final[Mapping[str, int]] = {
    "invalid_request": 400,
    "invalid_parameters": 400,
    "invalid_filter": 400,
    "invalid_cursor": 400,
    "policy_not_tightening": 400,
    "invalid_pii_policy": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "outside_time_window": 403,
    "workflow_not_found": 404,
    "run_not_found": 404,
    "output_not_found": 404,
    "segment_not_found": 404,
    "pii_redaction_not_applied": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "idempotency_conflict": 409,
    "workflow_not_active": 409,
    "workflow_not_ready": 409,
    "run_not_terminal": 409,
    "redaction_pending": 409,
    "already_terminal": 409,
    "already_purged": 409,
    "use_bundle": 413,
    "bundle_too_large": 413,
    "payload_too_large": 413,
    "range_not_satisfiable": 416,
    "version_not_found": 422,
    "rate_limited": 429,
    "quota_exceeded": 429,
    "too_many_active_runs": 429,
    "license_unavailable": 451,
    "internal": 500,
    "runtime_error": 502,
    "runtime_unreachable": 502,
    "deployment_updating": 503,
}
"""The HTTP status of every error code."""
