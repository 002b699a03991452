from collections import Counter
from itertools import islice

import pytest

from backend.storage.tables.metadata import METADATA
from tests.faults import plan
from tests.faults.contention import TABLES

EXTENT = plan.Extent(operations=10_000, faults=100, rate=12.0)


@pytest.mark.parametrize("store", list(plan.FAULTS))
def test_a_seed_repeats_the_plan_and_another_does_not(store: str) -> None:
    assert list(islice(plan.operations(7), 500)) == list(islice(plan.operations(7), 500))
    assert plan.faults(7, store, EXTENT) == plan.faults(7, store, EXTENT)
    assert list(islice(plan.operations(7), 500)) != list(islice(plan.operations(8), 500))
    assert plan.faults(7, store, EXTENT) != plan.faults(8, store, EXTENT)


@pytest.mark.parametrize("store", list(plan.FAULTS))
def test_every_kind_of_fault_comes_before_any_comes_again(store: str) -> None:
    kinds = plan.FAULTS[store].keys()
    faults = plan.faults(3, store, EXTENT)
    assert len(faults) == 100
    assert {fault.kind for fault in faults[: len(kinds)]} == kinds
    assert [fault.after for fault in faults] == sorted(fault.after for fault in faults)


def test_every_kind_of_operation_has_its_share() -> None:
    counted = Counter(operation.kind for operation in islice(plan.operations(1), 10_000))
    whole = sum(plan.MIX.values())
    assert all(abs(counted[kind] / 10_000 - weight / whole) < 0.02 for kind, weight in plan.MIX.items())


def test_a_database_is_away_for_twenty_seconds_and_a_worker_stops_past_its_lease() -> None:
    faults = plan.faults(5, plan.S3, EXTENT)
    assert {fault.seconds for fault in faults if fault.kind == "postgresql away"} == {20.0}
    assert all(fault.seconds > 20 for fault in faults if fault.kind == "stop worker past its lease")


def test_contentions_come_before_faults_that_excuse_calls_long_after_them() -> None:
    kinds = [fault.kind for fault in plan.faults(3, plan.MACHINES, EXTENT)]
    contentions = plan.CONTENTIONS & plan.FAULTS[plan.MACHINES].keys()
    assert set(kinds[: len(contentions)]) == contentions


def test_faults_amid_flows_come_before_those_with_a_backlog() -> None:
    kinds = [fault.kind for fault in plan.faults(3, plan.MACHINES, EXTENT)]
    flows = plan.AMID_FLOWS & plan.FAULTS[plan.MACHINES].keys()
    before = min(number for number, kind in enumerate(kinds) if "backlog" in kind or kind == "fill pool")
    assert len(flows) == 2
    assert flows <= set(kinds[:before])


def test_some_locks_are_held_for_longer_than_a_statement_waits_for_one() -> None:
    seconds = [fault.seconds for fault in plan.faults(5, plan.MACHINES, EXTENT) if fault.kind.endswith("locks")]
    assert 0.5 <= min(seconds) < 8 < max(seconds) <= 9


def test_every_table_that_is_locked_is_there() -> None:
    assert set(TABLES) <= METADATA.tables.keys()
