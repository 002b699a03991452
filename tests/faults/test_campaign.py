"""Campaigns short enough for every change: each kind of fault once, and nothing that was acknowledged may be broken."""

from pathlib import Path

import pytest

from tests.faults.campaign import run_campaign
from tests.faults.plan import EMBEDDED, FOLDER, MACHINES, S3, Extent, kinds_of

SEED = 7
_PACE = 0.25


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("store", "operations", "rate"),
    [
        # Slower: there are four step slots.
        (MACHINES, 1000, 10.0),
        (S3, 320, 15.0),
        (FOLDER, 100, 15.0),
        # `make faults` adds an embedded service with objects in S3, whose faults are each in one of these.
        (EMBEDDED, 80, 15.0),
    ],
)
def test_nothing_acknowledged_is_broken_whatever_fails(
    tmp_path: Path, store: str, operations: int, rate: float
) -> None:
    kinds = kinds_of(store, _PACE)
    extent = Extent(operations, faults=len(kinds), rate=rate, pace=_PACE)
    outcome = run_campaign(tmp_path, SEED, store, extent)
    assert outcome.code == 0, str(outcome)
    assert outcome.faults.keys() == set(kinds)
    assert sum(outcome.operations.values()) >= operations
