"""Checks between the fields of a workflow: references, unique names, graph, result, parameters (contract 24.12).

Every check gets a definition in which invalid fields are missing or None.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

from backend.common.errors import suggestion
from backend.common.json_text import JsonMapping, JsonObject
from backend.services.workflows.manifests.approvals import approval_problems
from backend.services.workflows.manifests.nodes import DocumentNode, Problem
from backend.services.workflows.manifests.publishing import publication_problems
from backend.services.workflows.manifests.schedules import schedule_problems
from backend.services.workflows.parameters import value_problems


class ResourceReference(NamedTuple):
    """A reference of a workflow to another document, by kind and name, with the line and field of the reference."""

    kind: str
    name: str
    line: int
    field: str


def references(definition: JsonMapping, node: DocumentNode) -> Iterator[ResourceReference]:
    """Yields the references in the readable parts of a workflow's definition."""
    for field in ("steps", "on_failure", "always"):
        for index, step in _sequence(definition, field):
            yield from _of_step(step, node, field, index)
    for index, parameter in _sequence(definition, "parameters"):
        if parameter.get("connector"):
            yield _reference("Connector", parameter["connector"], node, "parameters", index, "connector")
    for index, entry in _sequence(definition, "publish"):
        if entry.get("knowledge_graph"):
            yield _reference("KnowledgeGraph", entry["knowledge_graph"], node, "publish", index, "knowledge_graph")


def _of_step(step: JsonMapping, node: DocumentNode, *path: str | int) -> Iterator[ResourceReference]:
    for kind in ("Agent", "Workflow", "Environment"):
        field = kind.lower()
        if step.get(field):
            yield _reference(kind, step[field], node, *path, field)
    for position, name in enumerate(step.get("connectors") or ()):
        if name:
            yield _reference("Connector", name, node, *path, "connectors", position)


def field_of(*path: str | int) -> str:
    """Returns a path in the form of messages: `steps[0].needs`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _reference(kind: str, name: str, node: DocumentNode, *path: str | int) -> ResourceReference:
    return ResourceReference(kind, name, node.line_of(*path), field_of(*path))


def _sequence(definition: JsonMapping, name: str) -> Iterator[tuple[int, JsonMapping]]:
    for index, one in enumerate(definition.get(name) or ()):
        if isinstance(one, dict):
            yield index, one


_WORK_FIELDS: Final = ("agent", "approval", "workflow")
_UNIQUE: Final = (("steps", "step"), ("parameters", "name"), ("publish", "knowledge_graph"), ("schedules", "name"))

_MOST_CYCLES: Final = 20
_MOST_SUGGESTED: Final = 10
_MOST_IN_CYCLES: Final = 50
"""Most steps in which cycles are searched, a bound for hostile manifests; a workflow may have fewer."""


class Violation(NamedTuple):
    """A violation of a rule: the path of the field, and what is allowed."""

    path: tuple[str | int, ...]
    reason: str


def workflow_problems(definition: JsonObject, node: DocumentNode) -> list[Problem]:
    """Returns all contradictions between the fields of a workflow."""
    rules = (_steps, _graph, _result, _publish, _parameters, _schedules, _budget)
    violations = [*_repetitions(node), *(one for rule in rules for one in rule(definition))]
    return [Problem(node.line_of(*one.path), field_of(*one.path), one.reason) for one in violations]


def workflow_gaps(definition: JsonObject, node: DocumentNode) -> Iterator[Problem]:
    """Yields the gaps with which a workflow may be applied, but is not ready (contract 24.10)."""
    if definition.get("steps") == []:
        yield Problem(node.line_of("steps"), "steps", "has none, and needs at least one to run")
    for index, _ in members(definition, "steps"):
        entry = node.value["steps"].value[index]
        if not any((one := entry.value.get(name)) is not None and one.value is not None for name in _WORK_FIELDS):
            path = ("steps", index, "agent")
            yield Problem(node.line_of(*path), field_of(*path), "is missing, and the step needs one to run")


def members(definition: JsonObject, name: str) -> list[tuple[int, JsonObject]]:
    """Returns the readable objects in a list of a definition, each with its index."""
    return [(index, one) for index, one in enumerate(definition.get(name) or ()) if isinstance(one, dict)]


def _repetitions(node: DocumentNode) -> Iterator[Violation]:
    """Yields duplicate names, also among entries with other problems."""
    for name, key in _UNIQUE:
        listed = node.value.get(name)
        seen: set[str] = set()
        for index, one in enumerate(listed.value if listed and isinstance(listed.value, list) else ()):
            named = one.value.get(key) if isinstance(one.value, dict) else None
            if named is None or not isinstance(named.value, str):
                continue
            if named.value in seen:
                yield Violation((name, index, key), f"must be unique within the workflow; {named.value} is there twice")
            seen.add(named.value)


def _steps(definition: JsonObject) -> Iterator[Violation]:
    for index, step in members(definition, "steps"):
        present = [name for name in _WORK_FIELDS if step.get(name) is not None]
        for name in present[1:]:
            reason = f"must not be there beside {present[0]}: a step has one of {', '.join(_WORK_FIELDS)}"
            yield Violation(("steps", index, name), reason)
        if step.get("approval") is not None and step.get("optional"):
            yield Violation(("steps", index, "optional"), "must not be true of an approval: people decide it")
        if step.get("approval") is not None and step.get("outputs") is False:
            yield Violation(("steps", index, "outputs"), "must not be false of an approval: it leaves no files")
        if step.get("retry") is not None and step.get("approval") is not None:
            yield Violation(("steps", index, "retry"), "must not be there beside approval: a decision is final")
        if step.get("timeout_seconds") is not None and step.get("approval") is not None:
            reason = "must not be there beside approval: people take their time"
            yield Violation(("steps", index, "timeout_seconds"), reason)
        for path, reason in approval_problems(step.get("approval") or {}):
            yield Violation(("steps", index, "approval", *path), reason)
        retry = step.get("retry") or {}
        for failure in sorted({*(retry.get("on") or ())} & {*(retry.get("not_on") or ())}):
            yield Violation(("steps", index, "retry", "not_on"), f"must not name {failure}, which on names too")


def _graph(definition: JsonObject) -> Iterator[Violation]:
    needs: dict[str, list[str]] = {
        step["step"]: [need for need in step.get("needs") or () if need]
        for _, step in members(definition, "steps")
        if step.get("step")
    }
    suggestions = 0
    for index, step in members(definition, "steps"):
        for position, need in enumerate(step.get("needs") or ()):
            if need and need not in needs:
                # A suggestion takes time.
                meant = suggestion(need, needs) if suggestions < _MOST_SUGGESTED else ""
                suggestions += 1
                reason = f"must name a step; there is no step {need}{f'.{meant}' if meant else ''}"
                yield Violation(("steps", index, "needs", position), reason)
    places = {step["step"]: index for index, step in reversed(members(definition, "steps")) if step.get("step")}
    for cycle in islice(_cycles(dict(islice(needs.items(), _MOST_IN_CYCLES))), _MOST_CYCLES):
        first = min(range(len(cycle)), key=lambda position: places[cycle[position]])
        shown = " needs ".join([*cycle[first:], *cycle[: first + 1]])
        yield Violation(("steps", places[cycle[first]], "needs"), f"must not form a circle: {shown}")


def _cycles(needs: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Yields cycles, as lists of steps that each need the next one, until every need of a cycle is in a yielded one.

    Needs outside of cycles are left out.
    """
    found: set[tuple[str, str]] = set()
    for step, needed in needs.items():
        for need in needed:
            if (step, need) not in found and (path := _shortest_path(needs, need, step)) is not None:
                found.update(pairwise([step, *path]))
                yield path


def _shortest_path(needs: Mapping[str, Sequence[str]], start: str, end: str) -> list[str] | None:
    """Returns the shortest path of needs from a step to another, both included, or None."""
    dependents: dict[str, str | None] = {start: None}
    queue = [start]
    for step in queue:
        if step == end:
            path = [end]
            while (before := dependents[path[-1]]) is not None:
                path.append(before)
            return path[::-1]
        for need in needs.get(step, ()):
            if need not in dependents:
                dependents[need] = step
                queue.append(need)
    return None


def _result(definition: JsonObject) -> Iterator[Violation]:
    wanted = (definition.get("result") or {}).get("step")
    if wanted is None or definition.get("steps") is None:
        return
    found = next((step for _, step in members(definition, "steps") if step.get("step") == wanted), None)
    if found is None:
        yield Violation(("result", "step"), f"must name a step; there is no step {wanted}")
    elif found.get("approval") is not None:
        yield Violation(("result", "step"), "must name a step of an agent or a workflow")


def _publish(definition: JsonObject) -> Iterator[Violation]:
    readable = definition.get("steps") is not None
    steps = {step.get("step"): step for _, step in members(definition, "steps")}
    for index, entry in members(definition, "publish"):
        for position, step in enumerate((entry.get("steps") or ()) if readable else ()):
            if step and step not in steps:
                yield Violation(("publish", index, "steps", position), f"must name a step; there is no step {step}")
            elif step and steps[step].get("agent") is None and _has_no_agent(steps[step]):
                yield Violation(("publish", index, "steps", position), "must name a step that an agent runs")
            elif step and steps[step].get("outputs") is False:
                reason = f"must name a step that leaves outputs; {step} has outputs: false"
                yield Violation(("publish", index, "steps", position), reason)
        for path, reason in publication_problems(entry):
            yield Violation(("publish", index, *path), reason)


def _has_no_agent(step: JsonObject) -> bool:
    return step.get("approval") is not None or step.get("workflow") is not None


def _parameters(definition: JsonObject) -> Iterator[Violation]:
    for index, parameter in members(definition, "parameters"):
        for path, reason in _declaration(parameter):
            yield Violation(("parameters", index, *path), reason)


def _schedules(definition: JsonObject) -> Iterator[Violation]:
    yield from (Violation(path, reason) for path, reason in schedule_problems(definition))


def _budget(definition: JsonObject) -> Iterator[Violation]:
    budget = definition.get("budget")
    if isinstance(budget, dict) and budget.get("tokens", "") is None and budget.get("cost", "") is None:
        yield Violation(("budget",), "must have tokens, cost or both")


def _declaration(parameter: JsonObject) -> Iterator[Violation]:
    bare = {"type": parameter["type"]}
    sound = dict(parameter)
    for bound in ("minimum", "maximum"):
        if parameter.get(bound) is not None:
            reasons = value_problems(bare, parameter[bound])
            if reasons:
                del sound[bound]
            yield from (Violation((bound,), reason) for reason in reasons)
    for position, allowed in enumerate(parameter.get("enum") or ()):
        reasons = value_problems(bare, allowed)
        yield from (Violation(("enum", position), reason) for reason in reasons)
    for low, high in (("minimum", "maximum"), ("min_length", "max_length")):
        least, most = sound.get(low), sound.get(high)
        if least is not None and most is not None and least > most:
            yield Violation((high,), f"must not be less than {low}")
    default = parameter.get("default")
    if default is not None:
        yield from (Violation(("default",), reason) for reason in value_problems(sound, default))
