"""Every target holds for its seeds, and for every input that once failed."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.target import DEEPEST_CALLS, KEPT, TARGETS, load


@pytest.fixture(autouse=True)
def deep_calls() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(DEEPEST_CALLS)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_holds_for_its_seeds(name: str) -> None:
    target = load(name)
    for seed in target.seeds():
        target.check(seed)


@pytest.mark.parametrize("path", sorted(KEPT.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_inputs_that_once_failed_hold(path: Path) -> None:
    load(path.parent.name).check(path.read_bytes())
