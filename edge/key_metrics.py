"""Metrics that name keys, exposed where `metrics.keys_and_workflows` is set; see docs/metrics.md."""

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from contract.call_groups import NO_COUNTS, NOT_MEASURED, RecordedCall
from telemetry import Family, NamedCounter

_REQUESTS: Final = NamedCounter("key_requests_total", "Requests with a key.", ("key_id", "status", "code"))
_SECONDS: Final = NamedCounter("key_request_seconds_total", "Time until their answers were ready.", ("key_id",))
_ANSWERED: Final = "none"


def count_calls(calls: Iterable[RecordedCall], counts: Mapping[RecordedCall, int] = NO_COUNTS) -> None:
    """Counts calls by key; those without one are left out. `counts` is as for `group_calls`."""
    numbers: Tally[tuple[str, int, str]] = Tally()
    microseconds: defaultdict[str, int] = defaultdict(int)
    for call in calls:
        _, key_id, (_, _, status, reason), _, _, took = call
        if key_id:
            numbers[key_id, status, reason] += counts.get(call, 1) if counts else 1
            if took != NOT_MEASURED:
                microseconds[key_id] += took
    for (key_id, status, reason), number in numbers.items():
        _REQUESTS.add_many(number, key_id, status, reason or _ANSWERED)
    for key_id, total in microseconds.items():
        _SECONDS.add_many(total / 1_000_000, key_id)


def counted() -> list[Family]:
    """Returns what was counted in this process."""
    return [_REQUESTS.collect(), _SECONDS.collect()]
