"""State of flows at the end: steps with their values, items of fan-outs, and the events of both and of children."""

import json
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple


class StepRow(NamedTuple):
    """A row of `steps`; `items` are total, completed and failed ones, of a fan-out whose items are known."""

    status: str
    attempt: int = 1
    value: str | None = None
    reused_from: str | None = None
    phase: str | None = None
    kind: str = "agent"
    items_from: str | None = None
    items: tuple[int, int, int] | None = None


class ItemEnd(NamedTuple):
    """The end of an item as an event has it; `attempt` is 0 where it was reused."""

    item: int
    completed: bool
    attempt: int


class ChildEvent(NamedTuple):
    """An event of a parent about a child: `child.started` or `child.ended`."""

    type: str
    run_id: str
    status: str
    item: int | None


class Interruption(NamedTuple):
    """An orphaned run: its workflow, its place in a chain, and the run that the service started after it."""

    workflow: str
    ordinal: int | None
    followed_by: str | None


@dataclass
class Flows:
    """Steps and items by run and handle."""

    steps: dict[tuple[str, str], StepRow] = field(default_factory=dict)
    items: dict[tuple[str, str], dict[int, tuple[str, str | None]]] = field(default_factory=dict)
    """Status and value of each item of a fan-out that did not complete, by index."""
    items_ended: dict[tuple[str, str], list[ItemEnd]] = field(default_factory=dict)
    children: dict[tuple[str, str], list[ChildEvent]] = field(default_factory=dict)
    interrupted: dict[str, Interruption] = field(default_factory=dict)
    """The orphaned runs that no other run started."""

    def of_run(self, run_id: str) -> dict[str, StepRow]:
        return {step: row for (of, step), row in self.steps.items() if of == run_id}


_STEPS: Final = """
SELECT run_id, step, status, attempt, value, reused_from, phase, kind, items_from, items_total, items_completed,
    items_failed
FROM steps
"""
_ITEMS: Final = "SELECT run_id, step, item_index, status, value FROM step_items"
_INTERRUPTED: Final = """
SELECT r.run_id, r.workflow_name, i.ordinal, i.followed_by FROM runs r LEFT JOIN interruptions i ON i.run_id = r.run_id
WHERE r.error_code = 'orphaned' AND r.parent_run_id IS NULL
"""
_EVENTS: Final = """
SELECT g.run_id, e.step, e.type, e.data FROM events e JOIN segments g USING (segment_id)
WHERE e.type IN ('step.item_completed', 'step.item_failed', 'child.started', 'child.ended') ORDER BY g.ordinal, e.seq
"""


def read_flows(database: Any) -> Flows:
    """Reads them by SQL."""
    flows = Flows()
    for run_id, step, *columns, total, completed, failed in database.execute(_STEPS):
        items = None if total is None else (total, completed or 0, failed or 0)
        flows.steps[run_id, step] = StepRow(*columns)._replace(items=items)
    for run_id, *of_run in database.execute(_INTERRUPTED):
        flows.interrupted[run_id] = Interruption(*of_run)
    for run_id, step, index, status, value in database.execute(_ITEMS):
        flows.items.setdefault((run_id, step), {})[index] = status, value
    for run_id, step, kind, text in database.execute(_EVENTS):
        data = json.loads(text)
        if kind.startswith("child"):
            event = ChildEvent(kind, data["run_id"], data["status"], data["item_index"])
            flows.children.setdefault((run_id, step), []).append(event)
        elif data.get("retry_at") is None:
            end = ItemEnd(data["item_index"], kind == "step.item_completed", data["attempt"])
            flows.items_ended.setdefault((run_id, step), []).append(end)
    return flows
