"""CountCallsByKey: calls added up for the keys that a page shows."""

from typing import Any

import pytest

from backend.common.clock import DAY_MS, HOUR_MS
from backend.services.dependencies import Services
from backend.services.keys import usage_sql
from contract.times import milliseconds_of, to_timestamp
from tests.services.calls import Caller, RefusedError
from workflow_api.v1 import usage_pb2
from workflow_api_testing import TestBackend


@pytest.fixture
def keys(backend: TestBackend) -> Caller:
    return Caller.of_backend(backend)


def test_calls_of_keys_are_added_up_however_many_kinds_of_them_there_are(keys: Caller, services: Services) -> None:
    statuses = range(200, 600)
    kinds = [("ak_1", f"/r/{route}", status) for route in range(30) for status in statuses]
    counts = {(HOUR_MS, key_id, "GET", route, status): 2 for key_id, route, status in kinds}
    counts |= {(at * HOUR_MS, "ak_2", "GET", "/me", 200): 5 for at in (1, 2, 3)}
    counts[HOUR_MS, "ak_3", "GET", "/me", 200] = 1
    services.database.write(lambda tx: usage_sql.add_hours(tx, counts))
    assert len(counts) > 10_000  # more than a page of ListUsageHours

    def counted(since: int, until: int, *key_ids: str) -> list[tuple[int, str, int, int]]:
        request = usage_pb2.CountCallsByKeyRequest(
            key_ids=key_ids, since=to_timestamp(since), until=to_timestamp(until)
        )
        items = keys("CountCallsByKey", request).items
        return [(milliseconds_of(item.hour) // HOUR_MS, item.key_id, item.calls, item.refused) for item in items]

    all_kinds = (1, "ak_1", 2 * len(kinds), len(kinds))
    assert counted(0, 3 * HOUR_MS, "ak_1", "ak_2", "ak_9") == [(2, "ak_2", 5, 0), all_kinds, (1, "ak_2", 5, 0)]
    assert counted(2 * HOUR_MS, 4 * HOUR_MS, "ak_2") == [(3, "ak_2", 5, 0), (2, "ak_2", 5, 0)]
    assert counted(0, 7 * DAY_MS, *(f"ak_{number}" for number in range(3, 203))) == [(1, "ak_3", 1, 0)]


def test_counts_of_keys_are_bounded(keys: Caller) -> None:
    fits: dict[str, Any] = {"key_ids": ["ak_1"] * 200, "since": to_timestamp(0), "until": to_timestamp(7 * DAY_MS)}
    keys("CountCallsByKey", usage_pb2.CountCallsByKeyRequest(**fits))
    too_much: list[tuple[str, Any]] = [
        ("key_ids", []), ("key_ids", ["ak_1"] * 201), ("since", None), ("until", to_timestamp(7 * DAY_MS + 1))
    ]  # fmt: skip
    for name, value in too_much:
        with pytest.raises(RefusedError) as refused:
            keys("CountCallsByKey", usage_pb2.CountCallsByKeyRequest(**{**fits, name: value}))
        assert refused.value.reason == "invalid_request"
