"""The definition of a workflow version as the runtime reads it. (DECISIONS.md, 9)."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from backend.runtime import store
from backend.storage.database import Tx

AGENT: Final = "agent"
APPROVAL: Final = "approval"

_MOST_KEPT: Final = 64


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """One step; `title` and `instructions` are those of an approval, and `agent` is None for one."""

    step: str
    kind: str = AGENT
    needs: tuple[str, ...] = ()
    optional: bool = False
    agent: str | None = None
    environment: str | None = None
    connectors: tuple[str, ...] = ()
    title: str = ""
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class InputDefinition:
    """One `s3_prefix` parameter."""

    parameter: str
    connector: str
    max_objects: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Definition:
    """One workflow version; `publish` names the knowledge graphs to publish to."""

    steps: tuple[StepDefinition, ...]
    parallel_steps: int
    inputs: tuple[InputDefinition, ...] = ()
    result_step: str | None = None
    result_schema: Any = None
    publish: tuple[str, ...] = ()


def parse_definition(text: str) -> Definition:
    """Reads a definition as `apply` stored it, with every default filled in."""
    manifest: dict[str, Any] = orjson.loads(text)
    result = manifest["result"] or {}
    return Definition(
        steps=tuple(_step(step) for step in manifest["steps"]),
        parallel_steps=manifest["settings"]["parallel_steps"],
        inputs=tuple(
            InputDefinition(parameter["name"], parameter["connector"], parameter["max_objects"], parameter["max_bytes"])
            for parameter in manifest["parameters"]
            if parameter["type"] == "s3_prefix"
        ),
        result_step=result.get("step"),
        result_schema=result.get("schema"),
        publish=tuple(target["knowledge_graph"] for target in manifest["publish"]),
    )


def _step(step: Mapping[str, Any]) -> StepDefinition:
    approval = step["approval"]
    return StepDefinition(
        step=step["step"],
        kind=AGENT if approval is None else APPROVAL,
        needs=tuple(step["needs"]),
        optional=step["optional"],
        agent=step["agent"],
        environment=step["environment"],
        connectors=tuple(step["connectors"]),
        title=approval["title"] if approval else "",
        instructions=approval["instructions"] if approval else None,
    )


class Definitions:
    """Definitions used last, parsed. A version never changes, so they never go stale; thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], Definition] = OrderedDict()

    def get(self, tx: Tx, workflow_id: str, version: int) -> Definition:
        """The definition of a version that exists."""
        key = (workflow_id, version)
        found = self._kept.get(key)
        if found is None:
            found = parse_definition(store.definition(tx, workflow_id, version))
            self._kept[key] = found
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return found
