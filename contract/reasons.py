"""The error reasons: what each means over HTTP and over gRPC, read from the options of `ErrorReason`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from workflow_api.v1.errors_pb2 import ErrorDetail, ErrorReason, error_rules

ERROR_DOMAIN: Final = "workflow-api"
"""The `domain` of the google.rpc.ErrorInfo of every refusal."""

_PREFIX: Final = "ERROR_REASON_"


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """The meaning of one error reason.

    Attributes:
        reason: The number of the reason.
        code: The value of `error.code` in JSON.
        http_status: Status of the JSON answer.
        grpc_code: Number of the google.rpc.Code.
        message: For a person, where the raiser gives none.
        retry_after: Seconds of `Retry-After` where the raiser gives none; 0 for no such header.
        problem_list: Whether `error.details` is the list of problems.
        details: The members of `error.details`.
    """

    reason: ErrorReason.ValueType
    code: str
    http_status: int
    grpc_code: int
    message: str
    retry_after: int
    problem_list: bool
    details: Sequence[ErrorDetail]


def code_of(reason: int) -> str:
    """Returns the JSON error code of a reason."""
    return ErrorReason.Name(ErrorReason.ValueType(reason)).removeprefix(_PREFIX).lower()


def _read_rules() -> dict[int, ErrorRule]:
    rules = {}
    for value in ErrorReason.DESCRIPTOR.values:
        options = value.GetOptions().Extensions[error_rules]
        if options.http_status:
            rules[value.number] = ErrorRule(
                reason=ErrorReason.ValueType(value.number),
                code=code_of(value.number),
                http_status=options.http_status,
                grpc_code=options.grpc_code,
                message=options.message,
                retry_after=options.retry_after.seconds,
                problem_list=options.problem_list,
                details=tuple(options.details),
            )
    return rules


BY_REASON: Final[Mapping[int, ErrorRule]] = MappingProxyType(_read_rules())
"""The rule of every reason."""

BY_CODE: Final[Mapping[str, ErrorRule]] = MappingProxyType({rule.code: rule for rule in BY_REASON.values()})
"""The rule of every code that `error.code` may have."""
