"""Usage records, which are kept together by batch and key, as single records newest first (contract 27.1)."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import text

from backend.services.dependencies import Services
from backend.storage.statements import Command
from contract.call_groups import NOT_MEASURED, calls_of, group_calls
from contract.times import milliseconds_of, to_timestamp
from tests.services.calls import Caller, RefusedError
from workflow_api.v1 import edge_pb2, usage_pb2
from workflow_api_testing import TestBackend

ADD_SINGLE = Command(
    text(
        "INSERT INTO usage_records (batch_id, position, at, key_id, method, route, status, address, reason,"
        " request_id) VALUES ('b', :position, :at, 'ak_1', 'GET', '/me', 200, '::1', '', :request_id)"
    )
)


@pytest.fixture
def usage(backend: TestBackend) -> Caller:
    return Caller.of_backend(backend)


def record(at_ms: int, request_id: str, key_id: str = "ak_1") -> usage_pb2.UsageRecord:
    return usage_pb2.UsageRecord(
        at=to_timestamp(at_ms), key_id=key_id, method="GET", route="/me", status=200, request_id=request_id
    )


def keep(usage: Caller, batch_id: str, records: Sequence[usage_pb2.UsageRecord]) -> None:
    usage("RecordUsage", edge_pb2.RecordUsageRequest(batch_id=batch_id, groups=group_calls(calls_of(records))))


def pages(usage: Caller, size: int, key_id: str | None = None, since: int = 0) -> list[usage_pb2.UsageRecord]:
    """Every record, page by page."""
    asked = usage_pb2.ListUsageRecordsRequest(page_size=size, key_id=key_id, since=to_timestamp(since))
    found: list[usage_pb2.UsageRecord] = []
    while True:
        page = usage("ListUsageRecords", asked)
        assert len(page.items) <= size
        found += page.items
        if not page.next_page_token:
            return found
        asked.page_token = page.next_page_token


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_records_of_batches_that_overlap_are_listed_once_and_newest_first(usage: Caller, size: int) -> None:
    chance = random.Random(5)
    kept: list[usage_pb2.UsageRecord] = []
    for batch in range(30):
        # Edges send at their own pace; calls of one moment are in several batches.
        begin = chance.randrange(60_000)
        times = sorted(begin + chance.randrange(25_000) for _ in range(chance.choice([1, 2, 9])))
        records = [
            record(at - at % 500, f"{batch}/{number}", chance.choice(["ak_1", "ak_2", ""]))
            for number, at in enumerate(times)
        ]
        keep(usage, f"b{batch:02}", records)
        kept += records

    listed = pages(usage, size)

    assert sorted(item.request_id for item in listed) == sorted(item.request_id for item in kept)
    times = [milliseconds_of(item.at) for item in listed]
    assert times == sorted(times, reverse=True)
    of_key = pages(usage, size, "ak_2", since=30_000)
    assert [item.request_id for item in of_key] == [
        item.request_id for item in listed if item.key_id == "ak_2" and milliseconds_of(item.at) >= 30_000
    ]


def test_a_record_is_listed_as_it_was_sent(usage: Caller) -> None:
    sent = usage_pb2.UsageRecord(duration_us=0, address="10.0.0.1", reason="forbidden")
    sent.MergeFrom(record(5, "r"))
    keep(usage, "b", [sent])
    assert pages(usage, 10) == [sent]


def test_single_records_of_an_edge_of_an_earlier_release_are_kept(usage: Caller) -> None:
    sent = [record(5, "first"), record(60_000, "second")]
    usage("RecordUsage", edge_pb2.RecordUsageRequest(batch_id="b", records=sent))
    assert pages(usage, 10) == sent[::-1]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"addresses": []}, "groups"),
        ({"times": [], "kind": [], "addresses": [], "request_ids": [], "durations_us": []}, "groups"),
        ({"times": [9_999, 10_000]}, "groups.times"),
        ({"kind": [0, 1]}, "groups.kind"),
        ({"calls": [1]}, "groups.calls"),
        ({"calls": [0, 1]}, "groups.calls"),
        ({"calls": [1, 2**31]}, "groups.calls"),
        ({"kind": [-1, 0]}, "groups.kind"),
        ({"kinds": [usage_pb2.CallKind(route="/me\0")]}, "groups.kinds.route"),
    ],
)
def test_groups_that_could_not_be_read_again_are_refused(usage: Caller, changes: dict[str, Any], field: str) -> None:
    whole: dict[str, Any] = {
        "times": [1, 2],
        "kinds": [usage_pb2.CallKind(method="GET", route="/me", status=200)],
        "kind": [0, 0],
        "addresses": ["::1", "::1"],
        "request_ids": ["a", "b"],
        "durations_us": [1, 1],
    }
    with pytest.raises(RefusedError) as refused:
        usage("RecordUsage", edge_pb2.RecordUsageRequest(groups=[usage_pb2.CallGroup(**whole | changes)]))
    assert set(refused.value.problems) == {field}
    assert not pages(usage, 10)


def test_records_of_earlier_releases_are_listed_among_the_others(usage: Caller, services: Services) -> None:
    single = [{"position": number, "at": 10 * number, "request_id": f"single {number}"} for number in range(3)]
    services.database.write(lambda tx: tx.many(ADD_SINGLE, single))
    keep(usage, "c", [record(5, "in a batch, 5"), record(15, "in a batch, 15")])
    for size in (1, 2, 10):
        assert [item.request_id for item in pages(usage, size, "ak_1")] == [
            "single 2", "in a batch, 15", "single 1", "in a batch, 5", "single 0"
        ]  # fmt: skip


def test_a_record_of_several_calls_is_listed_with_their_number_and_counts_as_many_by_the_hour(usage: Caller) -> None:
    refused = 1_000, "ak_1", ("GET", "/me", 429, "rate_limited"), "::1", "r", NOT_MEASURED
    single = 2_000, "ak_1", ("GET", "/me", 429, "rate_limited"), "::1", "s", 1
    groups = list(group_calls([refused, single], {refused: 10_439}))
    usage("RecordUsage", edge_pb2.RecordUsageRequest(batch_id="b", groups=groups))
    assert [(item.request_id, item.calls, item.HasField("calls")) for item in pages(usage, 10)] == [
        ("s", 0, False), ("r", 10_439, True)
    ]  # fmt: skip
    (hour,) = usage("ListUsageHours", usage_pb2.ListUsageHoursRequest()).items
    assert (hour.status, hour.calls) == (429, 10_440)
    until = to_timestamp(3_600_000)
    counted = usage(
        "CountCallsByKey", usage_pb2.CountCallsByKeyRequest(key_ids=["ak_1"], since=to_timestamp(0), until=until)
    ).items
    assert [(each.calls, each.refused) for each in counted] == [(10_440, 10_440)]
