"""Checks of a workflow's conditions, fan-outs, child workflows and cleanup steps, and of their expressions."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from backend.common.json_text import JsonMapping, JsonObject
from backend.resources.schemas.content_checks import ContentChecks
from backend.resources.schemas.expression_scope import Expected, Scope
from backend.services.workflows.manifests.nodes import DocumentNode, Problem
from backend.services.workflows.manifests.rules import Violation, field_of, members

CLEANUP: Final = ("on_failure", "always")
_MOST_STEPS: Final = 20
_OF_FAN_OUTS: Final = ("max_items", "max_parallel", "on_item_failure")
_OF_CHILDREN: Final = ("version", "parameters")
# Fields of agent steps only, with the default that other steps may have.
_OF_AGENTS: Final[JsonMapping] = {
    "environment": None,
    "connectors": [],
    "outputs": True,
    "retry": None,
    "timeout_seconds": None,
}


def flow_problems(definition: JsonObject, node: DocumentNode) -> Iterator[Problem]:
    """Yields contradictions between the fields of conditions, fan-outs, child workflows and cleanup steps."""
    for one in (*_fields(definition), *_cleanup(definition)):
        yield Problem(node.line_of(*one.path), field_of(*one.path), one.reason)


def _fields(definition: JsonObject) -> Iterator[Violation]:
    for index, step in members(definition, "steps"):
        for rule in (_child_fields, _fan_out_fields):
            yield from (Violation(("steps", index, field), reason) for field, reason in rule(step))
        if step.get("accept") is not None and step.get("needs") == []:
            yield Violation(("steps", index, "accept"), "must not be there without needs")
        if step.get("workflow") is not None and step["workflow"] == definition.get("name"):
            reason = "must name another workflow: it would start itself for ever"
            yield Violation(("steps", index, "workflow"), reason)


def _child_fields(step: JsonObject) -> Iterator[tuple[str, str]]:
    if step.get("workflow") is None:
        yield from ((name, "must not be there without workflow") for name in _OF_CHILDREN if step.get(name) is not None)
        return
    for name, nothing in _OF_AGENTS.items():
        if step.get(name, nothing) not in (nothing, None):
            yield name, "must not be there beside workflow, whose steps have their own"


def _fan_out_fields(step: JsonObject) -> Iterator[tuple[str, str]]:
    if step.get("for_each") is None:
        yield from ((name, "must not be there without for_each") for name in _OF_FAN_OUTS if step.get(name) is not None)
    elif step.get("approval") is not None:
        yield "for_each", "must not be there beside approval: one person decides once"


def _cleanup(definition: JsonObject) -> Iterator[Violation]:
    handles = {step.get("step") for _, step in members(definition, "steps")}
    for name in CLEANUP:
        for index, step in members(definition, name):
            handle = step.get("step")
            if handle is not None and handle in handles:
                reason = f"must be unique within the workflow; {handle} is there twice"
                yield Violation((name, index, "step"), reason)
            handles.add(handle)
    counts = [len(definition.get(name) or ()) for name in ("steps", *CLEANUP)]
    if sum(counts) > _MOST_STEPS >= max(counts):
        reason = f"must have at most {_MOST_STEPS} with those of on_failure and always; there are {sum(counts)}"
        yield Violation(("steps",), reason)


class StepExpression(NamedTuple):
    """An expression of a step: the path of its field, its source, its expected type, and the names in its scope."""

    path: tuple[str | int, ...]
    source: str
    expected: Expected
    scope: Scope


def expression_problems(definition: JsonObject, node: DocumentNode, checks: ContentChecks) -> Iterator[Problem]:
    """Yields the problems of the expressions in the readable parts of a definition."""
    for one in _expressions(definition):
        reason = checks.expression_problem(one.source, one.expected, one.scope)
        if reason is not None:
            yield Problem(node.line_of(*one.path), field_of(*one.path), reason)


def _expressions(definition: JsonObject) -> Iterator[StepExpression]:
    declared = [one for _, one in members(definition, "parameters") if one.get("name") and one.get("type")]
    types = {one["name"]: one["type"] for one in declared}
    nullable = [one["name"] for one in declared if not one.get("required") and one.get("default") is None]
    for index, step in members(definition, "steps"):
        needs = [need for need in step.get("needs") or () if need]
        scope = Scope(parameters=types, nullable=nullable, needs=needs, item=False)
        path = ("steps", index)
        if step.get("when"):
            yield StepExpression((*path, "when"), step["when"], Expected.CONDITION, scope)
        approval = step.get("approval")
        if isinstance(approval, dict) and approval.get("summary"):
            yield StepExpression((*path, "approval", "summary"), approval["summary"], Expected.VALUE, scope)
        if step.get("for_each"):
            yield StepExpression((*path, "for_each"), step["for_each"], Expected.LIST, scope)
        given = step.get("parameters")
        for name, value in given.items() if isinstance(given, dict) else ():
            if (source := expression_in(value)) is not None:
                of_item = Scope(parameters=types, nullable=nullable, needs=needs, item=bool(step.get("for_each")))
                yield StepExpression((*path, "parameters", name), source, Expected.VALUE, of_item)


def expression_in(value: object) -> str | None:
    """Returns the expression in a child's parameter, which begins with `=`; None for a plain value."""
    return value[1:] if isinstance(value, str) and value.startswith("=") else None
