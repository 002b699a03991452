"""Campaigns short enough for every change: each kind of fault once, and nothing that was acknowledged may be broken."""

from pathlib import Path

import pytest

from tests.faults.campaign import run_campaign
from tests.faults.plan import EMBEDDED, FAULTS, FOLDER, S3, Extent, faults

SEED = 7
_PACE = 0.35


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("store", "operations"),
    [
        (S3, 320),
        (FOLDER, 100),
        # `make faults` adds a service with several edges, whose faults are each in one of these but that of an edge.
        (EMBEDDED, 80),
    ],
)
def test_nothing_acknowledged_is_broken_whatever_fails(tmp_path: Path, store: str, operations: int) -> None:
    extent = Extent(operations, faults=len(FAULTS[store]), rate=15.0, pace=_PACE)
    kinds = {fault.kind for fault in faults(SEED, store, extent)}
    outcome = run_campaign(tmp_path, SEED, store, extent)
    assert outcome.code == 0, str(outcome)
    assert outcome.faults.keys() == kinds
    assert sum(outcome.operations.values()) >= operations
