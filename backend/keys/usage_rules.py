"""Rules of usage records, as edges send them."""

from collections.abc import Iterable
from typing import Final

from backend.errors import invalid
from contract.call_groups import GROUP_MS
from workflow_api.v1.usage_pb2 import CallGroup

_MOST_CALLS: Final = 2**31 - 1


def require_whole(groups: Iterable[CallGroup]) -> None:
    """Refuses groups that could not be read again.

    Raises:
        ApiError: `invalid_request`: lists of different lengths, an empty group, an unknown kind, a number of calls that
            cannot be added up, or calls further apart than a group may have.
    """
    for group in groups:
        times, numbers = group.times, group.kind
        lengths = {len(times), len(numbers), len(group.addresses), len(group.request_ids), len(group.durations_us)}
        if len(lengths) > 1 or not times:
            raise invalid("groups", "must have lists of the same length, with at least one call")
        if min(times) // GROUP_MS != max(times) // GROUP_MS or min(times) < 0:
            raise invalid("groups.times", f"must be times in the same {GROUP_MS // 1000} seconds since the epoch")
        if min(numbers) < 0 or max(numbers) >= len(group.kinds):
            raise invalid("groups.kind", "must be positions in kinds")
        if group.calls and len(group.calls) != len(times):
            raise invalid("groups.calls", "must be empty, or as long as times")
        if group.calls and not 1 <= min(group.calls) <= max(group.calls) <= _MOST_CALLS:
            raise invalid("groups.calls", f"must be numbers from 1 to {_MOST_CALLS}")
