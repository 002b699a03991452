"""Refusals: the rules of error reasons, from the options of `ErrorReason`, and the exception `Refusal`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeVar
from urllib.parse import quote

import orjson
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, PreconditionFailure, RetryInfo
from google.rpc.status_pb2 import Status

from workflow_api.v1.errors_pb2 import ErrorDetail, ErrorReason, error_rules

ERROR_DOMAIN: Final = "workflow-api"
"""The `domain` of the google.rpc.ErrorInfo of every refusal."""

_PREFIX: Final = "ERROR_REASON_"

M = TypeVar("M", ErrorInfo, RetryInfo, BadRequest, PreconditionFailure)

# Headers of every answer with a code (contract 5.5).
_HEADERS_OF_CODE: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {"unauthorized": MappingProxyType({"WWW-Authenticate": "Bearer"})}
)


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """The meaning of one error reason.

    Attributes:
        reason: The number of the reason.
        code: The value of `error.code` in JSON.
        http_status: Status of the JSON answer.
        grpc_code: Number of the google.rpc.Code.
        message: Text for people, where the raiser gives none.
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


class Refusal(Exception):  # noqa: N818 - a refusal is an answer of the contract, not an error of the program
    """An answer with the error envelope (contract 7.1, 7.2).

    `details` is the value of `error.details`, `None` for none. `retry_after` is in seconds.
    """

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        details: object | None = None,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        rule = BY_CODE[code]
        super().__init__(code)
        self.code = code
        self.status = rule.http_status
        self.message = message or rule.message
        self.details = details
        self.retry_after = retry_after if retry_after is not None else rule.retry_after
        self.headers = {**_HEADERS_OF_CODE.get(code, {}), **(headers or {})}
        if self.retry_after:
            self.headers["Retry-After"] = str(self.retry_after)

    def __str__(self) -> str:
        return f"{self.status} {self.code}: {self.message}"


class NoAnswer(Refusal):
    """`runtime_unreachable` because no backend answered a call; the channel logs it once until one answers."""

    def __init__(self) -> None:
        super().__init__("runtime_unreachable")


def envelope(refusal: Refusal, request_id: str) -> bytes:
    """Returns the JSON body of a refusal (contract 7.1)."""
    body: dict[str, object] = {"code": refusal.code, "message": refusal.message, "request_id": request_id}
    if refusal.details is not None:
        body["details"] = refusal.details
    return orjson.dumps({"error": body})


def refusal_from_status(status: Status) -> Refusal:
    """Returns the refusal that a servicer put into a google.rpc.Status.

    A status without our ErrorInfo, or with a reason that this release does not know, is `runtime_error`.
    """
    try:
        info = _unpack(status, ErrorInfo())
        if info is None or info.domain != ERROR_DOMAIN or info.reason.lower() not in BY_CODE:
            return Refusal("runtime_error")
        retry, bad = _unpack(status, RetryInfo()), _unpack(status, BadRequest())
        failure = _unpack(status, PreconditionFailure())
        return refusal_of(
            info.reason.lower(),
            status.message or None,
            problems=[(each.field, each.description) for each in bad.field_violations] if bad else (),
            reasons=[each.description for each in failure.violations] if failure else (),
            metadata=info.metadata,
            retry_after=None if retry is None else retry.retry_delay.seconds + bool(retry.retry_delay.nanos),
        )
    except (DecodeError, KeyError):
        return Refusal("runtime_error")


def refusal_of(
    code: str,
    message: str | None,
    *,
    problems: Sequence[tuple[str, str]],
    reasons: Sequence[str],
    metadata: Mapping[str, str],
    retry_after: int | None,
) -> Refusal:
    """Returns a refusal with the details that its code has.

    Raises:
        KeyError: a detail's link needs metadata that is missing.
    """
    rule = BY_CODE[code]
    details: object | None = None
    if rule.problem_list:
        details = [{"name": name, "reason": reason} for name, reason in problems]
    elif rule.details:
        details = {detail.name: _detail(detail, metadata, reasons) for detail in rule.details}
    return Refusal(code, message, details=details, retry_after=retry_after, headers=_content_range(code, metadata))


def _unpack(status: Status, message: M) -> M | None:
    return next((message for detail in status.details if detail.Unpack(message)), None)


def _detail(detail: ErrorDetail, metadata: Mapping[str, str], reasons: Sequence[str]) -> object | None:
    if detail.list:
        return list(reasons)
    if detail.link:
        return detail.link.format_map({name: quote(value, safe="") for name, value in metadata.items()})
    return metadata.get(detail.name)


def _content_range(code: str, metadata: Mapping[str, str]) -> dict[str, str]:
    if code == "range_not_satisfiable" and "size" in metadata:
        return {"Content-Range": f"bytes */{metadata['size']}"}
    return {}


def refusal_from_trailer(trailer: object) -> Refusal:
    """Returns the refusal in a trailer with a google.rpc.Status; `runtime_error` for a foreign status."""
    if isinstance(trailer, bytes):
        with suppress(DecodeError):
            return refusal_from_status(Status.FromString(trailer))
    return Refusal("runtime_error")
