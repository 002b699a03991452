"""ApiError, the exception of every refusal; its form as google.rpc.Status; and messages for unknown names."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from contract.refusals import BY_REASON, ERROR_DOMAIN, Refusal, refusal_of
from workflow_api.v1 import errors_pb2

_CODES: Final[Mapping[int, grpc.StatusCode]] = {code.value[0]: code for code in grpc.StatusCode}


class ApiError(Exception):
    """A refused request: a reason with its data and a message for a person, raised where the cause is known.

    Args:
        reason: Why, a value of `ErrorReason`.
        message: For a person; the reason's own message when none is given.
        problems: `(name, reason)` pairs of a problem list.
        metadata: Details as strings.
        reasons: What keeps a workflow from running.
        retry_after: Seconds until another try makes sense; the reason's own number when none is given.
    """

    def __init__(
        self,
        reason: errors_pb2.ErrorReason.ValueType,
        message: str | None = None,
        *,
        problems: Sequence[tuple[str, str]] = (),
        metadata: Mapping[str, str] | None = None,
        reasons: Sequence[str] = (),
        retry_after: int | None = None,
    ) -> None:
        rules = BY_REASON[reason]
        self.reason = reason
        self.message = message if message is not None else rules.message
        self.problems = tuple(problems)
        self.metadata = dict(metadata or {})
        self.reasons = tuple(reasons)
        self.retry_after = retry_after if retry_after is not None else rules.retry_after or None
        super().__init__(self.message)

    @property
    def grpc_code(self) -> grpc.StatusCode:
        """The status code of the gRPC answer."""
        return _CODES[BY_REASON[self.reason].grpc_code]

    def to_refusal(self) -> Refusal:
        """Returns the Refusal that a caller in this process gets; callers on the wire make it from `to_status`."""
        return refusal_of(
            BY_REASON[self.reason].code,
            self.message,
            problems=self.problems,
            reasons=self.reasons,
            metadata=self.metadata,
            retry_after=self.retry_after,
        )

    def to_status(self) -> status_pb2.Status:
        """The google.rpc.Status with ErrorInfo and, where there is something to say, the other standard details."""
        name = BY_REASON[self.reason].code.upper()
        details: list[Message] = [error_details_pb2.ErrorInfo(reason=name, domain=ERROR_DOMAIN, metadata=self.metadata)]
        if self.problems:
            violation = error_details_pb2.BadRequest.FieldViolation
            details.append(
                error_details_pb2.BadRequest(
                    field_violations=[violation(field=field, description=why) for field, why in self.problems]
                )
            )
        if self.reasons:
            failure = error_details_pb2.PreconditionFailure.Violation
            details.append(
                error_details_pb2.PreconditionFailure(violations=[failure(description=why) for why in self.reasons])
            )
        if self.retry_after is not None:
            delay = duration_pb2.Duration(seconds=self.retry_after)
            details.append(error_details_pb2.RetryInfo(retry_delay=delay))
        return status_pb2.Status(
            code=BY_REASON[self.reason].grpc_code, message=self.message, details=[_packed(detail) for detail in details]
        )


def _packed(detail: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail, deterministic=True)
    return packed


def invalid(field: str, why: str) -> ApiError:
    """Returns the refusal of one field: `invalid_request` with the field, and the allowed values in `why`."""
    return ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, problems=[(field, why)])


_MOST: Final = 3
_LEAST_LIKENESS: Final = 0.6
_LONGEST_COMPARED: Final = 128
_MOST_COMPARED: Final = 1_000


def not_found_message(what: str, given: str, known: Iterable[str]) -> str:
    """Returns the message that nothing of a kind has the given name, and which of the known names may be meant."""
    return f"There is no {what} named {given}.{suggestion(given, known)}"


def id_not_found_message(what: str, given: str, known: Mapping[str, str]) -> str:
    """Returns the message that nothing of a kind has the given id, and which known ids may be meant, by their names."""
    return f"There is no {what} {given}.{_suggestion(given, {name: f'{name} ({one})' for one, name in known.items()})}"


def suggestion(given: str, known: Iterable[str]) -> str:
    """Returns the question, after a blank, which known names may be meant; empty where none is like the given one."""
    return _suggestion(given, {name: name for name in known})


def _suggestion(given: str, shown: Mapping[str, str]) -> str:
    if len(given) > _LONGEST_COMPARED:
        return ""
    folded = {name.casefold(): name for name in islice(shown, _MOST_COMPARED)}
    close = get_close_matches(given.casefold(), folded, n=_MOST, cutoff=_LEAST_LIKENESS)
    return f" Did you mean {' or '.join(shown[folded[name]] for name in close)}?" if close else ""
