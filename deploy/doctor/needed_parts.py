"""Optional parts that active workflows and agents need, read from the database of either kind."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from backend.local_model import LOCAL
from backend.optional_parts import GRAPHS, LLM, PARQUET, PII_MODEL, REDACTION, OptionalPart
from deploy.doctor.check import Check, failed, warning
from deploy.doctor.software import Judge, optional_part

Definition = Mapping[str, Any]
Rows = Callable[[str], Iterable[tuple[object, ...]]]
"""Reads the rows of a query."""

_WORKFLOWS: Final = """
SELECT workflows.name, written.definition FROM workflows
JOIN workflow_versions AS active
    ON active.workflow_id = workflows.workflow_id AND active.version = workflows.active_version
JOIN workflow_versions AS written
    ON written.workflow_id = active.workflow_id
    AND written.version = coalesce(active.definition_version, active.version)
WHERE workflows.status = 'active' ORDER BY workflows.name"""
_AGENTS: Final = "SELECT name, definition FROM resources WHERE kind = 'agent' ORDER BY name"


class _Need(NamedTuple):
    """A part, the query of the definitions that may need it, which of them do, and what each is called."""

    part: OptionalPart
    query: str
    needs: Callable[[Definition], bool]
    what: str
    judge: Judge = failed


def _searches(workflow: Definition) -> bool:
    return bool((workflow["pii_policy"] or {}).get("mode", "off") != "off")


def _model(workflow: Definition) -> str | None:
    # A version that was stored before there were models has no such field.
    model: str | None = workflow["pii_policy"].get("model") if _searches(workflow) else None
    return model


_NEEDS: Final = (
    _Need(REDACTION, _WORKFLOWS, _searches, "PII policies of active workflows"),
    # Such a workflow runs, and its Parquet files are withheld.
    _Need(PARQUET, _WORKFLOWS, _searches, "PII policies of active workflows for Parquet files", warning),
    _Need(PII_MODEL, _WORKFLOWS, lambda workflow: _model(workflow) == LOCAL, "PII policies with `model: local`"),
    _Need(
        LLM, _WORKFLOWS, lambda workflow: _model(workflow) not in {None, LOCAL}, "PII policies with a language model"
    ),
    _Need(LLM, _AGENTS, lambda agent: bool(agent["type"] == "llm"), "agents of type llm"),
    _Need(GRAPHS, _WORKFLOWS, lambda workflow: bool(workflow["publish"]), "active workflows that publish to a graph"),
)
"""What makes a workflow not ready, fails its steps, or keeps something from being done for its runs."""


def needed_parts(rows: Rows) -> Iterator[Check]:
    """Checks the optional parts that active workflows and agents need; each finding names one of those that do."""
    first: dict[_Need, str] = {}
    for query in dict.fromkeys(need.query for need in _NEEDS):
        for name, text in rows(query):
            definition = json.loads(str(text))
            for need in _NEEDS:
                if need.query == query and need not in first and need.needs(definition):
                    first[need] = str(name)
    for need, name in first.items():
        yield optional_part(need.part, f"{need.what}, such as '{name}',", need.judge)
