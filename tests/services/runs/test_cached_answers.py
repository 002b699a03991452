"""Cached answers are those that the database gives, whatever is committed in which order. (contract 14.1)"""

import random
from collections.abc import Callable

import pytest

from tests.services.cached_answers import CachedAnswers, compared
from tests.services.calls import RefusedError
from tests.services.runs.world import World


class Interleaving:
    """Changes of runs of two keys, in an order of chance."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._random = random.Random(seed)
        self.runs: dict[str, list[str]] = {world.key: [], world.new_key(): []}
        self._segments: dict[str, str] = {}
        self._approvals: list[str] = []

    def go(self, changes: int) -> None:
        runs = (self.start, self.start, self.begin, self.ask, self.decide, self.cancel, self.close, self.erase)
        changes_of_chance = (*runs, self.edit)
        for _ in range(changes):
            self._world.clock.advance(seconds=self._random.choice((0, 1, 40_000)))
            try:
                self._random.choice(changes_of_chance)()
            except (RefusedError, LookupError):
                continue

    def _any_run(self) -> tuple[str, str]:
        return self._random.choice([(key, run_id) for key, runs in self.runs.items() for run_id in runs])

    def start(self) -> None:
        key = self._random.choice(list(self.runs))
        self.runs[key].append(self._world.started(self._random.choice(("Plain", "Gated")), key=key))

    def begin(self) -> None:
        _, run_id = self._any_run()
        self._segments[run_id] = self._world.begin(run_id)

    def ask(self) -> None:
        run_id, segment_id = self._random.choice(list(self._segments.items()))
        del self._segments[run_id]
        self._approvals += self._world.park(run_id, segment_id, "review")

    def decide(self) -> None:
        self._world.decide(self._random.choice(self._approvals), self._random.random() < 0.7, comment="so")

    def cancel(self) -> None:
        key, run_id = self._any_run()
        self._call(key, lambda: self._world.cancel(run_id))

    def close(self) -> None:
        _, run_id = self._any_run()
        self._world.close(run_id)

    def erase(self) -> None:
        key, run_id = self._any_run()
        self._call(key, lambda: self._world.erase(run_id))

    def edit(self) -> None:
        self._world.switch("Plain", active=self._random.random() < 0.8)

    def _call(self, key: str, call: Callable[[], object]) -> None:
        usual, self._world.key = self._world.key, key
        try:
            call()
        finally:
            self._world.key = usual


def interleaved(world: World, seed: int, monkeypatch: pytest.MonkeyPatch) -> CachedAnswers:
    interleaving = Interleaving(world, seed)
    with compared(world, interleaving.runs, monkeypatch) as answers:
        interleaving.go(60)
    return answers


@pytest.mark.parametrize("seed", range(6))
def test_a_cached_answer_is_that_of_the_database_after_every_commit(
    world: World, seed: int, database_url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database_url is not None:
        # Nothing is cached where other processes commit as well.
        return
    answers = interleaved(world, seed, monkeypatch)
    assert answers.wrong == []
    assert answers.times > 30


def test_starts_decisions_and_cancellations_leave_other_runs_and_keys_cached(
    world: World, database_url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database_url is not None:
        # Nothing is cached where other processes commit as well.
        return
    other = world.new_key()
    others = [world.started(key=other)]
    approval = world.park(run_id := world.started("Gated"), world.begin(run_id), "review")[0]
    with compared(world, {other: others}, monkeypatch) as answers:
        answers.compare()
        answers.dropped.clear()
        started = world.started()
        world.decide(approval, True)
        world.cancel(started)
    assert answers.wrong == []
    assert not answers.dropped
    assert answers.times == 4
