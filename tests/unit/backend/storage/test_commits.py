"""Marks of commits: what counts as unchanged since a commit never was changed after it."""

import random

import pytest

from backend.storage.commits import CommitMarks


def commit(marks: CommitMarks, *transactions: set[tuple[str, str]]) -> None:
    marks.begin(transactions)
    marks.end()


def test_commits_are_numbered_in_their_order() -> None:
    marks = CommitMarks()
    assert marks.ended == 0
    marks.begin([set()])
    assert marks.ended == 0
    marks.end()
    assert marks.ended == 1


def test_a_run_counts_as_changed_from_the_beginning_of_the_commit_on() -> None:
    marks = CommitMarks()
    assert marks.unchanged("run_1", 0)
    marks.begin([{("run_1", "ak_1")}])
    assert not marks.unchanged("run_1", marks.ended)
    assert not marks.unchanged("ak_1", marks.ended)
    assert marks.unchanged("run_2", marks.ended)
    marks.end()
    assert marks.unchanged("run_1", marks.ended)
    assert not marks.unchanged("run_1", 0)


def test_a_commit_that_names_no_run_in_one_of_its_transactions_changes_anything() -> None:
    marks = CommitMarks()
    commit(marks, {("run_1", "ak_1")}, set())
    assert not marks.unchanged("run_2", 0)
    assert marks.unchanged("run_2", 1)


@pytest.mark.parametrize("seed", range(5))
def test_marks_that_are_forgotten_only_make_more_count_as_changed(seed: int) -> None:
    chance, marks = random.Random(seed), CommitMarks(most=8)
    last: dict[str, int] = {}
    kept = 0
    for number in range(1, 500):
        run = (f"run_{chance.randrange(60)}", f"ak_{chance.randrange(10)}")
        commit(marks, {run})
        last |= dict.fromkeys(run, number)
        for name in last:
            since = chance.randrange(max(0, number - 20), number + 1)
            if marks.unchanged(name, since):
                assert last[name] <= since
                kept += 1
    assert kept > 1000


def test_as_many_marks_as_asked_for_are_kept() -> None:
    marks = CommitMarks(most=8)
    commit(marks, {("run_0", "ak_0")})
    since = marks.ended
    for number in range(1, 4):
        commit(marks, {(f"run_{number}", "ak_0")})
    assert marks.unchanged("run_0", since)
    assert marks.unchanged("run_9", since)
