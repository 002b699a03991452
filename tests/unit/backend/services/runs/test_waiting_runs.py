"""The probable wait of a start."""

import random
from collections import Counter
from collections.abc import Iterator

from backend.common.states import KeyPriority
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


def plain_start_wait(waiting: WaitingRuns, key_id: str) -> int | None:
    """The wait as the documents describe it, added up from all rows."""
    number, classes = Counter[str](), dict[str, int]()
    for each in waiting.rows:
        if not each.depth:
            number[each.key_id] += each.queued - each.handed_over
            classes[each.key_id] = list(KeyPriority).index(KeyPriority(each.priority or "normal"))
    if not number.total() or not waiting.rate.begun:
        return None if number.total() else 0
    share = waiting.taken.get(key_id, 0) + number[key_id] + 1
    own = classes.get(key_id, 1)
    place = 1 + sum(
        count if other == key_id else min(count, max(0, share - waiting.taken.get(other, 0)))
        for other, count in number.items()
        if classes[other] == own
    )
    higher = sum(count for other, count in number.items() if classes[other] < own)
    lower = sum(count for other, count in number.items() if classes[other] > own)
    place += min(higher, 7 * place) + min(lower, place // 7)
    return place * waiting.rate.within // waiting.rate.begun


def test_waits_that_share_a_sum_are_equal_to_waits_added_up_one_by_one() -> None:
    chance = random.Random(7)
    for _ in range(200):
        keys = [OF_PEOPLE, *(f"ak_{number}" for number in range(chance.randrange(8)))]
        priorities = {key_id: chance.choice(["high", "normal", "low", None]) for key_id in keys}
        rows = []
        for number in range(chance.randrange(12)):
            key_id, queued = chance.choice(keys), chance.randrange(1, 40)
            depth, handed_over = chance.choice([0, 0, 1]), chance.randrange(queued + 1)
            found = row(key_id, queued, workflow=f"wf_{number}", depth=depth, handed_over=handed_over)
            rows.append(found._replace(priority=priorities[key_id]))
        taken = {key_id: chance.randrange(20) for key_id in keys if chance.random() < 0.7}
        waiting = WaitingRuns(rows, taken, Rate(chance.choice([0, 3, 10]), 60_000))
        plain = {key_id: plain_start_wait(waiting, key_id) for key_id in [*keys, "ak_without_runs"]}
        assert {key_id: waiting.start_wait(key_id) for key_id in plain} == plain
        known = [plain[key_id] for key_id in {OF_PEOPLE, *(each.key_id for each in rows)}]
        assert waiting.longest_start_wait() == max((wait for wait in known if wait is not None), default=None)


def test_the_longest_wait_looks_at_each_of_many_keys_a_few_times() -> None:
    class Rows(list[WaitingRow]):
        read = 0

        def __iter__(self) -> Iterator[WaitingRow]:
            for each in super().__iter__():
                self.read += 1
                yield each

    rows = Rows(row(f"ak_{number}", 1 + number % 20) for number in range(500))
    waiting = WaitingRuns(rows, {}, RATE)
    assert waiting.longest_start_wait() == waiting.start_wait("ak_19")
    assert rows.read <= 3 * len(rows)
