"""The filters of the run list. (SPEC.md, GET /runs; DECISIONS.md, 2)."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from backend.errors import ApiError
from backend.run_status import TRANSITIONS
from workflow_api.v1 import errors_pb2, runs_pb2

_DATE_TIME: Final = re.compile(
    r"(?P<base>\d{4}-\d\d-\d\dT\d\d(?::\d\d(?P<seconds>:\d\d)?)?|\d{8}T\d\d(?:\d\d(?P<basic_seconds>\d\d)?)?)"
    r"(?:[.,](?P<fraction>\d+))?"
    r"(?P<offset>Z|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - computed without zones, which overflow at the ends of the range
_MILLISECOND: Final = timedelta(milliseconds=1)
_EARLIEST_MS: Final = -(2**63)
_LATEST_MS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RunFilters:
    """The filters of a list; None or empty means no filter. Times are exclusive, in whole milliseconds."""

    statuses: tuple[str, ...] = ()
    workflow_id: str | None = None
    client_reference: str | None = None
    after_ms: int | None = None
    before_ms: int | None = None

    def equalities(self) -> dict[str, str]:
        """Returns the columns, besides the status, that must have one value."""
        given = {"workflow_id": self.workflow_id, "client_reference": self.client_reference}
        return {name: value for name, value in given.items() if value is not None}

    def bounds(self, after: tuple[int, str] | None) -> dict[str, int | str]:
        """Returns positions of created_at and run id: listed runs are not below `lower` and are below `upper`.

        `after` is the last position of the previous page; it may lie on either side of `before_ms`.
        """
        before = (_LATEST_MS if self.before_ms is None else self.before_ms, "")
        upper = min(before, after or before)
        lower = _EARLIEST_MS if self.after_ms is None else self.after_ms + 1
        return {"upper_created_at": upper[0], "upper_run_id": upper[1], "lower_created_at": lower, "lower_run_id": ""}


def read_filters(request: runs_pb2.ListRunsRequest) -> RunFilters:
    """Returns the filters of a request.

    Raises:
        ApiError: `invalid_filter`, for the first filter that is not valid.
    """
    after, before = _given(request, "created_after"), _given(request, "created_before")
    return RunFilters(
        statuses=_statuses(_given(request, "status")),
        workflow_id=_given(request, "workflow_id"),
        client_reference=_given(request, "client_reference"),
        # Times of runs are whole milliseconds: after 0.5 ms means after 0, before 0.5 ms means before 1.
        after_ms=None if after is None else _instant("created_after", after)[0],
        before_ms=None if before is None else sum(_instant("created_before", before)),
    )


def _given(request: runs_pb2.ListRunsRequest, name: str) -> str | None:
    has_presence = request.DESCRIPTOR.fields_by_name[name].has_presence
    value: str = getattr(request, name)
    return value if value or (has_presence and request.HasField(name)) else None  # type: ignore[arg-type]


def _statuses(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    named = {part.strip() for part in text.split(",")}
    if not named <= TRANSITIONS.keys():
        raise _refusal("status", f"must be a comma-separated list of {', '.join(TRANSITIONS)}")
    return tuple(sorted(named))


def _instant(name: str, text: str) -> tuple[int, int]:
    """Returns milliseconds since the epoch, rounded down, and 1 where a finer fraction was cut off, else 0."""
    # A raw `+` in a query arrives as a space.
    match = _DATE_TIME.fullmatch(re.sub(r" (?=[\d:]+$)", "+", text.upper()))
    fraction = (match and match["fraction"]) or ""
    if match is None or (fraction and not (match["seconds"] or match["basic_seconds"])):
        raise _refusal(name, "must be an ISO 8601 date-time")
    try:
        moment = datetime.fromisoformat(match["base"] + (match["offset"] or ""))
    except ValueError:
        raise _refusal(name, "must be an ISO 8601 date-time") from None
    since_epoch = moment.replace(tzinfo=None) - _EPOCH - (moment.utcoffset() or timedelta())
    return since_epoch // _MILLISECOND + int(f"{fraction[:3]:0<3}"), int(fraction[3:].strip("0") != "")


def _refusal(name: str, why: str) -> ApiError:
    return ApiError(errors_pb2.ERROR_REASON_INVALID_FILTER, f"{name} {why}.")
