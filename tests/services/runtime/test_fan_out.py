"""A fan-out executes its step once for each item of a list, each by itself, and gives the list of their values."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from backend.common.retry import Backoff
from backend.runtime.execution import fan_out_sql, retries
from backend.settings import OutputLimits, StepDataLimits
from backend.storage.database import DatabaseUnavailableError
from backend.storage.object_keys import run_prefix
from tests.services.calls import RefusedError
from tests.services.runtime.conftest import SLEEP_SECONDS, RuntimeWorld, agent_step, gate
from tests.services.runtime.test_ending_early import sleepers
from tests.services.runtime.test_logs import Reader
from tests.support.poll import until

AGENTS: Final = """
kind: Agent
name: lister
type: python
code: |
  def run(context):
      return [{"number": number} for number in range(int(context.input_text or "5"))]
---
kind: Agent
name: square
type: python
code: |
  def run(context):
      number = context.item["number"]
      (context.outputs / "square.txt").write_text(str(number * number))
      (context.shared / "kept.txt").write_text("kept")
      key = context.idempotency_key.removeprefix(context.run_id)
      return [context.item_index, number * number, key, context.attempt]
---
kind: Agent
name: odd
type: python
code: |
  def run(context):
      if context.item["number"] % 2:
          raise ValueError(f"no luck with {context.item['number']}")
      return context.item["number"]
---
kind: Agent
name: timed
type: python
code: |
  import time
  def run(context):
      began = time.time()
      time.sleep(0.2)
      return [began, time.time()]
---
kind: Agent
name: talker
type: python
code: |
  def run(context):
      for number in range(4):
          context.progress("at", number=number)
          (context.outputs / f"{number}.txt").write_text("x")
      print("item", context.item)
      return "x" * context.item
---
kind: Agent
name: second
type: python
code: |
  def run(context):
      if context.item["number"] == 2 and context.attempt == 1:
          raise TimeoutError("try again")
      return [context.item["number"], context.attempt]
"""


def fan_out(agent: str, **fields: Any) -> list[dict[str, Any]]:
    return [
        agent_step("list", "lister"),
        agent_step("page", agent, "list", **{"for_each": "needs.list", **fields}),
        agent_step("last", "reader", "page"),
    ]


def run(world: RuntimeWorld, name: str, agent: str = "square", *, items: str = "5", **fields: Any) -> str:
    world.apply(AGENTS)
    workflow = {"result": {"step": "page"}, **fields.pop("workflow", {})}
    return world.run(name, fan_out(agent, **fields), workflow=workflow, input_text=items)


def items_of(world: RuntimeWorld, run_id: str) -> tuple[int, int, int]:
    items = world.steps(run_id)["page"].items
    return items.total, items.completed, items.failed


def events_of(world: RuntimeWorld, run_id: str, event_type: str) -> list[dict[str, Any]]:
    found = [event for segment in world.all_events(run_id) for event in segment if event.type == event_type]
    return [json.loads(event.data) for event in found]


def test_values_are_in_the_order_of_the_items_and_files_below_their_index(world: RuntimeWorld) -> None:
    run_id = run(world, "Squares")
    row = world.until_ended(run_id)
    assert (row.status, row.error_message) == ("completed", None)
    assert json.loads(row.result) == [[index, index * index, f"/page/{index}", 1] for index in range(5)]
    assert items_of(world, run_id) == (5, 5, 0)
    assert (row.steps_total, row.steps_completed) == (3, 3)
    outputs = world.dump(f"outputs WHERE run_id = '{run_id}' AND step = 'page'")
    assert sorted(row.path for row in outputs) == [f"page/{index}/square.txt" for index in range(5)]
    seen = json.loads(world.dump(f"steps WHERE run_id = '{run_id}' AND step = 'last'")[0].value)
    assert seen["files"] == {
        f"page/{index}/{name}": text
        for index in range(5)
        for name, text in (("square.txt", str(index * index)), ("kept.txt", "kept"))
    }
    completed = events_of(world, run_id, "step.item_completed")
    assert sorted(event["item_index"] for event in completed) == list(range(5))
    assert {(event["attempt"], event["outputs"]) for event in completed} == {(1, 1)}
    assert world.dump("step_items") == []


def test_a_large_item_arrives_as_it_was(world: RuntimeWorld) -> None:
    code = "def run(context):\n  return [len(context.item['text']), context.item['index'] == context.item_index]"
    world.apply(json.dumps({"kind": "Agent", "name": "measurer", "type": "python", "code": code}))
    listed = "def run(context): return [{'index': n, 'text': 'é' * 100_000} for n in range(3)]"
    world.apply(json.dumps({"kind": "Agent", "name": "large-lister", "type": "python", "code": listed}))
    steps = [agent_step("list", "large-lister"), agent_step("page", "measurer", "list", for_each="needs.list")]
    run_id = world.run("Large items", steps, workflow={"result": {"step": "page"}})
    assert json.loads(world.until_ended(run_id).result) == [[100_000, True]] * 3


def test_a_step_without_a_list_has_no_item(world: RuntimeWorld) -> None:
    code = "def run(context): return [context.item, context.item_index]"
    world.apply(json.dumps({"kind": "Agent", "name": "itemless", "type": "python", "code": code}))
    run_id = world.run("No item", [agent_step("main", "itemless")], workflow={"result": {"step": "main"}})
    assert json.loads(world.until_ended(run_id).result) == [None, None]
    assert not world.steps(run_id)["main"].HasField("items")


def test_the_list_sees_parameters_and_the_run(world: RuntimeWorld) -> None:
    world.apply(AGENTS)
    code = "def run(context): return context.item"
    world.apply(json.dumps({"kind": "Agent", "name": "same", "type": "python", "code": code}))
    source = "parameters.words.map(word, word + '-' + run.labels.team + '-' + run.client_reference)"
    words = [{"name": "words", "type": "json", "default": ["a", "b"]}]
    fields = {"parameters": words, "result": {"step": "page"}}
    run_id = world.run(
        "Seen",
        [agent_step("page", "same", for_each=source)],
        workflow=fields,
        labels={"team": "t"},
        client_reference="r",
    )
    assert json.loads(world.until_ended(run_id).result) == ["a-t-r", "b-t-r"]


def test_an_empty_list_completes_at_once(world: RuntimeWorld) -> None:
    run_id = run(world, "Empty", items="0")
    row = world.until_ended(run_id)
    assert (row.status, json.loads(row.result), items_of(world, run_id)) == ("completed", [], (0, 0, 0))


def test_an_item_is_retried_by_itself(world: RuntimeWorld) -> None:
    run_id = run(world, "Second", "second", retry={"attempts": 2, "backoff_seconds": 0})
    row = world.until_ended(run_id)
    assert (row.status, json.loads(row.result)) == ("completed", [[0, 1], [1, 1], [2, 2], [3, 1], [4, 1]])
    (failed,) = events_of(world, run_id, "step.item_failed")
    assert failed["retry_at"]
    assert {**failed, "retry_at": None} == {
        "item_index": 2,
        "type": "TimeoutError",
        "message": "TimeoutError: try again",
        "attempt": 1,
        "retry_at": None,
    }
    assert (items_of(world, run_id), world.steps(run_id)["page"].attempt) == ((5, 5, 0), 1)


def test_the_first_item_that_fails_for_good_fails_the_step(world: RuntimeWorld) -> None:
    run_id = run(world, "Odd", "odd", items="3")
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "node_failed")
    assert world.steps(run_id)["page"].error.message == "Item 1: ValueError: no luck with 1"
    (failed,) = events_of(world, run_id, "step.failed")
    assert (failed["type"], failed["message"], failed["retry_at"]) == (
        "ValueError",
        "Item 1: ValueError: no luck with 1",
        None,
    )
    assert items_of(world, run_id)[2] == 1


def test_collected_failures_are_errors_among_the_values(world: RuntimeWorld) -> None:
    run_id = run(world, "Collected", "odd", on_item_failure="collect")
    row = world.until_ended(run_id)
    assert row.status == "completed"
    assert json.loads(row.result) == [
        number
        if number % 2 == 0
        else {"error": {"type": "ValueError", "message": f"ValueError: no luck with {number}"}}
        for number in range(5)
    ]
    assert items_of(world, run_id) == (5, 3, 2)
    assert {event["item_index"] for event in events_of(world, run_id, "step.item_failed")} == {1, 3}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_items": 4}, "The expression `needs.list` gave 5 items, more than max_items of 4"),
        ({"for_each": "needs.list[0]"}, "The expression `needs.list[0]` gave an object where a list is expected"),
        ({"for_each": "needs.list[7]"}, "The expression `needs.list[7]` failed: "),
    ],
)
def test_what_is_no_list_or_too_long_fails_the_step(world: RuntimeWorld, fields: dict[str, Any], message: str) -> None:
    run_id = run(world, "No list", **fields)
    assert world.until_ended(run_id).status == "failed"
    step = world.steps(run_id)["page"]
    assert (step.error.message.startswith(message), step.HasField("items")) == (True, False), step.error.message
    (failed,) = events_of(world, run_id, "step.failed")
    assert failed["type"] == "InvalidItems"


def overlap(intervals: list[list[float]]) -> int:
    """How many intervals there are at most at the same time."""
    return max(sum(begin <= at < end for begin, end in intervals) for at, _ in intervals)


def intervals_of(world: RuntimeWorld, run_id: str, *steps: str) -> list[list[float]]:
    rows = {row.step: json.loads(row.value) for row in world.dump(f"steps WHERE run_id = '{run_id}'")}
    return [one for step in steps for one in rows[step]]


def test_no_more_items_execute_at_once_than_max_parallel_and_the_run_allow(world: RuntimeWorld) -> None:
    world.apply(AGENTS)
    steps = [
        agent_step("two", "timed", for_each="[1, 2, 3, 4, 5, 6]", max_parallel=2),
        agent_step("many", "timed", for_each="[1, 2, 3, 4, 5, 6]", max_parallel=10),
        agent_step("alone", "timed"),
    ]
    run_id = world.run("Parallel", steps, workflow={"settings": {"parallel_steps": 3}})
    assert world.until_ended(run_id).status == "completed"
    rows = {row.step: json.loads(row.value) for row in world.dump(f"steps WHERE run_id = '{run_id}'")}
    assert overlap(rows["two"]) <= 2
    assert overlap([*rows["two"], *rows["many"], rows["alone"]]) <= 3


def test_a_step_begins_before_the_items_that_wait(world: RuntimeWorld) -> None:
    world.apply(AGENTS)
    steps = [
        agent_step("first", "timed"),
        agent_step("many", "timed", for_each="[1, 2, 3, 4, 5, 6, 7, 8]"),
        agent_step("next", "timed", "first"),
    ]
    run_id = world.run("Turns", steps, workflow={"settings": {"parallel_steps": 2}})
    assert world.until_ended(run_id).status == "completed"
    rows = {row.step: json.loads(row.value) for row in world.dump(f"steps WHERE run_id = '{run_id}'")}
    assert rows["next"][0] < max(begin for begin, _ in rows["many"])


@pytest.fixture
def bounded(idle_world: RuntimeWorld) -> Iterator[RuntimeWorld]:
    """A world with tight bounds on what a step reports and leaves."""
    idle_world.apply(AGENTS)
    data = StepDataLimits(result_bytes=60, events=6)
    runtime = idle_world.new_runtime(idle_world.folder / "data", step_data=data, outputs=OutputLimits(files=6))
    runtime.start()
    yield idle_world
    runtime.stop()


def test_values_that_are_too_large_together_fail_the_step(bounded: RuntimeWorld) -> None:
    steps = [agent_step("page", "talker", for_each="[20, 20, 20]", max_parallel=1, on_item_failure="collect")]
    run_id = bounded.run("Large", steps)
    assert bounded.until_ended(run_id).status == "failed"
    message = "Item 2: the values of all items are together larger than 60 bytes of JSON"
    assert bounded.steps(run_id)["page"].error.message == message
    assert items_of(bounded, run_id) == (3, 2, 1)


def test_values_may_be_as_large_together_as_a_step_may_return(bounded: RuntimeWorld) -> None:
    run_id = bounded.run("Fits", [agent_step("page", "talker", for_each="[20, 33]")])
    assert bounded.until_ended(run_id).status == "completed"
    (row,) = bounded.dump(f"steps WHERE run_id = '{run_id}'")
    assert len(row.value) == 60


def test_items_share_the_bounds_on_events_and_files_of_a_step(bounded: RuntimeWorld) -> None:
    run_id = bounded.run("Floods", [agent_step("page", "talker", for_each="[1, 2, 3]")])
    row = bounded.until_ended(run_id)
    assert row.status == "completed"
    progress = events_of(bounded, run_id, "step.progress")
    assert (len(progress), set(progress[0])) == (6, {"message", "number", "item_index"})
    assert len(bounded.dump(f"outputs WHERE run_id = '{run_id}'")) == 6
    warnings = {warning["message"]: warning for warning in events_of(bounded, run_id, "warning")}
    assert warnings["Progress events of this attempt were dropped: 6 after the first 6."]["dropped"] == 6
    left = "Step 'page' left files that are no outputs: 6 over the limit of 6 files."
    assert left in warnings
    assert json.loads(row.warnings) == [left]


def test_items_that_are_too_large_together_fail_the_step(bounded: RuntimeWorld) -> None:
    run_id = bounded.run("Long", [agent_step("page", "talker", for_each="['x', 'y'].map(x, [x, x, x, x, x, x, x, x])")])
    assert bounded.until_ended(run_id).status == "failed"
    assert "gave items of more than 60 bytes of JSON" in bounded.steps(run_id)["page"].error.message


def test_each_item_has_a_log_of_its_own(world: RuntimeWorld) -> None:
    world.apply(AGENTS)
    run_id = world.run("Talks", [agent_step("page", "talker", for_each="[1, 2]")])
    world.until_ended(run_id)
    reader = Reader(world)
    read = reader.get(run_id, "page/1")
    assert (read.text, read.log.step, read.log.attempt) == ("item 2\n", "page/1", 1)
    assert {part.step: part.text for part in reader.stream(run_id, step="page")} == {
        "page/0": "item 1\n",
        "page/1": "item 2\n",
    }
    assert [part.text for part in reader.stream(run_id, step="page/0")] == ["item 1\n"]
    for name, allowed in (("page", "one of its 2 items"), ("page/2", "of which it has 2"), ("page/x", "has 2")):
        with pytest.raises(RefusedError) as caught:
            reader.get(run_id, name)
        assert allowed in str(caught.value.problems)


def test_a_cancel_ends_all_items_and_leaves_nothing(world: RuntimeWorld) -> None:
    before = sleepers()
    run_id = world.run("Cancelled", [agent_step("page", "sleeper", for_each="[1, 2, 3, 4, 5]", max_parallel=2)])
    until(lambda: len(sleepers() - before) >= 4, f"two items that sleep for {SLEEP_SECONDS} s")
    world.cancel(run_id)
    assert world.until_ended(run_id).status == "cancelled"
    assert sleepers() <= before
    assert (world.board(run_id), items_of(world, run_id)) == ({"page": "cancelled"}, (5, 0, 0))
    assert world.until_ended(run(world, "After the cancel")).status == "completed"
    until(lambda: not (world.work / run_id).exists(), "the removal of the run's folder")


def test_an_item_that_fails_ends_the_others(world: RuntimeWorld) -> None:
    before = sleepers()
    code = """
import subprocess
def run(context):
    context.progress("began")
    if context.item == 0:
        raise ValueError("no luck")
    subprocess.run(["sleep", "SECONDS"])
""".replace("SECONDS", str(SLEEP_SECONDS))
    world.apply(json.dumps({"kind": "Agent", "name": "first-fails", "type": "python", "code": code}))
    run_id = world.run("Ends", [agent_step("page", "first-fails", for_each="[1, 2, 0, 3, 4]", max_parallel=3)])
    assert world.until_ended(run_id).error_message == "Step 'page' failed: Item 2: ValueError: no luck"
    assert (sleepers() <= before, items_of(world, run_id)) == (True, (5, 0, 1))


def test_files_of_items_are_there_again_after_an_approval(world: RuntimeWorld) -> None:
    world.apply(AGENTS)
    steps = [*fan_out("square")[:2], gate("look", "page"), agent_step("last", "reader", "page", "look")]
    run_id = world.run("Parked", steps, workflow={"result": {"step": "last"}}, input_text="2")
    world.until_status(run_id, "waiting_for_approval")
    world.decide(world.approvals(run_id)["look"], True)
    row = world.until_ended(run_id)
    assert sorted(json.loads(row.result)["files"]) == [
        f"page/{index}/{name}" for index in range(2) for name in ("kept.txt", "square.txt")
    ]
    assert row.outputs_count == 3


@pytest.fixture
def unavailable(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[int]:
    """How often the database will refuse the ends of items."""
    caplog.set_level(logging.CRITICAL)
    left = [0]
    write = fan_out_sql.end_items

    def refuse(*arguments: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise DatabaseUnavailableError("the database is away")
        write(*arguments)

    monkeypatch.setattr(fan_out_sql, "end_items", refuse)
    monkeypatch.setattr(retries, "DATABASE", replace(retries.DATABASE, attempts=4, backoff=Backoff(0.0, 0.0)))
    return left


def test_items_are_recorded_once_the_database_is_back(world: RuntimeWorld, unavailable: list[int]) -> None:
    unavailable[0] = 3
    run_id = run(world, "Waits", items="3")
    assert world.until_ended(run_id).status == "completed"
    assert (unavailable, items_of(world, run_id)) == ([0], (3, 3, 0))
    assert len(events_of(world, run_id, "step.item_completed")) == 3


def test_items_that_cannot_be_recorded_fail_the_step_and_leave_no_object(
    world: RuntimeWorld, unavailable: list[int]
) -> None:
    unavailable[0] = 1_000
    run_id = run(world, "Loses", items="3")
    assert world.until_ended(run_id).status == "failed"
    assert world.steps(run_id)["page"].error.message == "the runtime could not carry out the step"
    folder = world.stored_below(run_prefix(run_id))
    until(lambda: not [path for path in folder.rglob("*") if path.is_file()], "the removal of the objects")


def test_the_slots_of_a_fan_out_starve_no_other_key(idle_world: RuntimeWorld) -> None:
    world = idle_world
    world.apply(AGENTS)
    world.local_runtime = world.new_runtime(world.folder / "shared", step_slots=4, memory_mb=1_000_000)
    world.local_runtime.start()
    try:
        world.key = busy = world.new_key(name="busy")
        steps = [agent_step("page", "sleeper", for_each="[1, 2, 3, 4, 5, 6]")]
        long = world.run("Sleeps", steps, workflow={"settings": {"parallel_steps": 10}})
        until(lambda: len(events_of(world, long, "step.progress")) == 3, "three items that hold slots")
        world.key = world.new_key(name="other")
        assert world.until_ended(world.run("Other", [agent_step("main")])).status == "completed"
        world.key = busy
        world.cancel(long)
        assert world.until_ended(long).status == "cancelled"
    finally:
        world.local_runtime.stop()


def test_values_and_failures_of_items_are_swept_before_they_are_stored(world: RuntimeWorld) -> None:
    mail = "jane.roe@example.com"
    code = "def run(context):\n  if context.item_index:\n    raise ValueError(context.item)\n  return context.item"
    world.apply(json.dumps({"kind": "Agent", "name": "told", "type": "python", "code": code}))
    steps = [
        agent_step("page", "told", for_each="[run.client_reference, run.client_reference]", on_item_failure="collect")
    ]
    run_id = world.run("Swept", steps, workflow={"pii_policy": {"mode": "redact"}}, client_reference=mail)
    assert world.until_ended(run_id).status == "completed"
    (row,) = world.dump(f"steps WHERE run_id = '{run_id}'")
    assert mail not in row.value
    assert mail not in str(world.all_events(run_id))
    assert len(events_of(world, run_id, "redaction.completed")) == 2, "of the inputs, and of the item that completed"
