"""A fan-out executes its step once for each item of a list, each by itself, and gives the list of their values."""

import json
from typing import Any, Final

import pytest

from tests.services.runtime.conftest import RuntimeWorld, agent_step
from workflow_api.v1 import runs_pb2

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
      return [context.item_index, number * number, context.idempotency_key.removeprefix(context.run_id), context.attempt]
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
