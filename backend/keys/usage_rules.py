"""Rules of usage records, as edges send them."""

from collections.abc import Iterable

from backend.errors import invalid
from contract.call_groups import GROUP_MS
from workflow_api.v1.usage_pb2 import CallGroup


def require_whole(groups: Iterable[CallGroup]) -> None:
    """Refuses groups that could not be read again.

    Raises:
        ApiError: `invalid_request`: lists of different lengths, an empty group, an unknown kind, or calls further apart
            than a group may have.
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
