"""The probable wait of a start."""

from backend.services.runs.waiting_runs import OF_PEOPLE, Rate, Waiting, WaitingRuns
from backend.services.runs.waiting_runs_sql import WaitingRow

RATE = Rate(begun=10, within=60_000)


def row(key_id: str, queued: int, *, workflow: str = "wf_1", depth: int = 0, handed_over: int = 0) -> WaitingRow:
    name = f"name of {key_id}"
    return WaitingRow(workflow, workflow.title(), key_id, name, "normal", depth, queued, handed_over, 1_000)


def test_a_start_waits_not_at_all_where_no_run_waits_for_a_place() -> None:
    rows = [row("ak_1", 3, handed_over=3), row("ak_1", 5, depth=1)]
    assert WaitingRuns(rows, {"ak_1": 3}, Rate(0, 0)).start_wait("ak_1") == 0


def test_the_wait_is_unknown_while_no_run_has_begun() -> None:
    waiting = WaitingRuns([row("ak_1", 3)], {}, Rate(0, 60_000))
    assert (waiting.start_wait("ak_1"), waiting.longest_start_wait()) == (None, None)


def test_a_start_waits_for_those_of_its_key_and_for_the_fair_shares_of_others() -> None:
    waiting = WaitingRuns([row("ak_1", 40), row("ak_2", 2)], {"ak_1": 8, "ak_2": 1}, RATE)
    # 40 of its own, two of ak_2, and itself, at one in six seconds.
    assert waiting.start_wait("ak_1") == 43 * 6_000
    # A person has none in process: the next place is theirs.
    assert waiting.start_wait(OF_PEOPLE) == 6_000
    # Two of its own, as many of ak_1 as bring it to four in process, which has more, and itself.
    assert waiting.start_wait("ak_2") == 3 * 6_000
    assert waiting.longest_start_wait() == 43 * 6_000


def test_waiting_runs_are_added_up_by_workflow_and_by_key_with_the_most_first() -> None:
    rows = [
        row("ak_1", 2),
        row("ak_1", 3, workflow="wf_2"),
        row("ak_2", 4)._replace(oldest_at=7),
        row("ak_2", 1, depth=1),
    ]
    waiting = WaitingRuns(rows, {}, RATE)
    assert waiting.by_workflow() == [Waiting("wf_1", "Wf_1", 7, 7), Waiting("wf_2", "Wf_2", 3, 1_000)]
    assert waiting.by_key() == [Waiting("ak_2", "name of ak_2", 5, 7), Waiting("ak_1", "name of ak_1", 5, 1_000)]


def test_a_start_waits_for_up_to_seven_of_higher_priority_and_for_one_in_eight_of_lower() -> None:
    high, low = row("ak_1", 100)._replace(priority="high"), row("ak_2", 100)._replace(priority="low")
    waiting = WaitingRuns([high, low], {}, RATE)
    assert waiting.start_wait(OF_PEOPLE) == (1 + 7) * 6_000
    assert waiting.start_wait("ak_2") == (101 + 100) * 6_000
    assert waiting.start_wait("ak_1") == (101 + 101 // 7) * 6_000
