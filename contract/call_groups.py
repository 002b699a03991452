"""Groups of recorded calls by key, the form in which usage records are sent and stored.

A message for each call would take four times the processor time: the lists of a group are filled by loops that are not
Python's. (`python -m benchmarks`: GET /me)
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from contract.times import milliseconds_of
from workflow_api.v1.usage_pb2 import CallGroup, CallKind, UsageRecord

GROUP_MS: Final = 10_000
"""Time span of a group's calls; hours, by which calls are counted, are multiples of the span."""

NOT_MEASURED: Final = -1

Kind = tuple[str, str, int, str]
"""Method, route template, status and the code of a refusal."""

RecordedCall = tuple[int, str, Kind, str, str, int]
"""Milliseconds since the epoch, key id, kind, source address, request id and microseconds."""


NO_COUNTS: Final[Mapping[RecordedCall, int]] = MappingProxyType({})


def group_calls(calls: Iterable[RecordedCall], counts: Mapping[RecordedCall, int] = NO_COUNTS) -> Iterator[CallGroup]:
    """Yields calls in groups; the calls of a key are in the order of time.

    `counts` has the number of calls for each record that stands for several.
    """
    grouped: defaultdict[tuple[str, int], list[RecordedCall]] = defaultdict(list)
    for call in calls:
        grouped[call[1], call[0] // GROUP_MS].append(call)
    for key_id, part in sorted(grouped):
        yield _group(key_id, grouped[key_id, part], counts)


def _group(key_id: str, calls: list[RecordedCall], counts: Mapping[RecordedCall, int]) -> CallGroup:
    times, _, kinds, addresses, request_ids, durations = zip(*calls, strict=True)
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    return CallGroup(
        key_id=key_id,
        times=times,
        kinds=[
            CallKind(method=method, route=route, status=status, reason=reason)
            for method, route, status, reason in numbers
        ],
        kind=[numbers[kind] for kind in kinds],
        addresses=addresses,
        request_ids=request_ids,
        durations_us=durations,
        calls=[counts.get(call, 1) for call in calls] if counts else (),
    )


def calls_of(records: Iterable[UsageRecord]) -> Iterator[RecordedCall]:
    """Returns the calls of single records."""
    for record in records:
        kind = record.method, record.route, record.status, record.reason
        took = record.duration_us if record.HasField("duration_us") else NOT_MEASURED
        yield milliseconds_of(record.at), record.key_id, kind, record.address, record.request_id, took


def calls_in(group: CallGroup) -> Iterator[RecordedCall]:
    """Returns the calls of a group."""
    kinds = [(kind.method, kind.route, kind.status, kind.reason) for kind in group.kinds]
    columns = group.times, group.kind, group.addresses, group.request_ids, group.durations_us
    for at, number, address, request_id, took in zip(*columns, strict=True):
        yield at, group.key_id, kinds[number], address, request_id, took
