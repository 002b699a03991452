"""Rules of runs: statuses as enum values, and the filters of the run list (contract 15.2 to 15.8)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from backend.common.clock import first_millisecond_from
from backend.common.errors import ApiError
from contract.times import milliseconds_of
from workflow_api.v1 import errors_pb2, run_lists_pb2, runs_pb2

STATUS_NUMBERS: Final = {
    name.removeprefix("RUN_STATUS_").lower(): number for name, number in runs_pb2.RunStatus.items()
}
STATUS_NAMES: Final = {number: name for name, number in STATUS_NUMBERS.items() if number}


_EARLIEST_MS: Final = -(2**63)
_LATEST_MS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RunFilters:
    """Filters and order of a list; None or empty means no filter. Times are exclusive, in whole milliseconds."""

    statuses: tuple[str, ...] = ()
    workflow_id: str | None = None
    client_reference: str | None = None
    after_ms: int | None = None
    before_ms: int | None = None
    oldest_first: bool = False

    def equalities(self) -> dict[str, str]:
        """Returns the columns, except the status, that must equal a value."""
        given = {"workflow_id": self.workflow_id, "client_reference": self.client_reference}
        return {name: value for name, value in given.items() if value is not None}

    def within(self, workflow_ids: frozenset[str] | None) -> "list[RunFilters]":
        """Returns these filters split by workflow: one for each allowed id; unchanged for None, which allows all."""
        if workflow_ids is None:
            return [self]
        wanted = workflow_ids if self.workflow_id is None else workflow_ids & {self.workflow_id}
        return [replace(self, workflow_id=workflow_id) for workflow_id in sorted(wanted)]

    def bounds(self, after: tuple[int, str] | None) -> dict[str, int | str]:
        """Returns positions (created_at, run id): listed runs are after `lower` and before `upper`.

        `after` is the last position of the previous page; it may lie on either side of the bounds of time.
        """
        # No run has the id that is empty.
        upper = (_LATEST_MS if self.before_ms is None else self.before_ms, "")
        lower = (_EARLIEST_MS if self.after_ms is None else self.after_ms + 1, "")
        if after is not None and self.oldest_first:
            lower = max(lower, after)
        elif after is not None:
            upper = min(upper, after)
        return {
            "upper_created_at": upper[0],
            "upper_run_id": upper[1],
            "lower_created_at": lower[0],
            "lower_run_id": lower[1],
        }


def read_filters(request: runs_pb2.ListRunsRequest | run_lists_pb2.ListFoundRunsRequest) -> RunFilters:
    """Returns the filters of a request, without its search text.

    Raises:
        ApiError: `invalid_filter` for an unknown status.
    """
    reference = None
    if isinstance(request, runs_pb2.ListRunsRequest) and request.HasField("client_reference"):
        reference = request.client_reference
    return RunFilters(
        statuses=_statuses(request.status),
        workflow_id=request.workflow_id if request.HasField("workflow_id") else None,
        client_reference=reference,
        # Runs have whole milliseconds: after 0.5 ms means after 0, before 0.5 ms means before 1.
        after_ms=milliseconds_of(request.created_after) if request.HasField("created_after") else None,
        before_ms=first_millisecond_from(request.created_before) if request.HasField("created_before") else None,
        oldest_first=isinstance(request, run_lists_pb2.ListFoundRunsRequest) and request.oldest_first,
    )


def _statuses(numbers: Sequence[runs_pb2.RunStatus.ValueType]) -> tuple[str, ...]:
    unknown = [number for number in numbers if number not in STATUS_NAMES]
    if unknown:
        raise ApiError(
            errors_pb2.ERROR_REASON_INVALID_FILTER, f"status must be among {', '.join(STATUS_NAMES.values())}."
        )
    return tuple(sorted({STATUS_NAMES[number] for number in numbers}))
