"""What must hold between the fields of a workflow, beyond the form of each (DECISIONS.md, 9).

Every rule takes the definition as far as it could be read: a field that did not fit is missing or None in it.
"""

from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from backend.workflows.manifests.nodes import Node, Problem
from backend.workflows.parameters import value_problems


class Broken(NamedTuple):
    """A rule that does not hold: at which field, as a path, and what is allowed."""

    path: tuple[str | int, ...]
    reason: str


def workflow_problems(definition: dict[str, Any], node: Node) -> list[Problem]:
    """Every problem between the fields of one workflow."""
    return [
        Problem(node.line_of(*broken.path), _field(broken.path), broken.reason)
        for rule in (_steps, _graph, _result, _publish, _parameters)
        for broken in rule(definition)
    ]


def _field(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _members(definition: dict[str, Any], name: str) -> list[tuple[int, dict[str, Any]]]:
    return [(index, one) for index, one in enumerate(definition.get(name) or ()) if isinstance(one, dict)]


def _repeated(definition: dict[str, Any], name: str, key: str) -> Iterator[Broken]:
    members = _members(definition, name)
    counts = Counter(one.get(key) for _, one in members if one.get(key) is not None)
    seen = set()
    for index, one in members:
        value = one.get(key)
        if counts[value] > 1 and value in seen:
            yield Broken((name, index, key), f"must be unique within the workflow; {value} is there twice")
        seen.add(value)


def _steps(definition: dict[str, Any]) -> Iterator[Broken]:
    yield from _repeated(definition, "steps", "step")
    for index, step in _members(definition, "steps"):
        if step.get("agent") is not None and step.get("approval") is not None:
            yield Broken(("steps", index, "approval"), "must not be there beside agent: a step has one of the two")


def _graph(definition: dict[str, Any]) -> Iterator[Broken]:
    needs: dict[str, list[str]] = {
        step["step"]: [need for need in step.get("needs") or () if need]
        for _, step in _members(definition, "steps")
        if step.get("step")
    }
    for index, step in _members(definition, "steps"):
        for position, need in enumerate(step.get("needs") or ()):
            if need and need not in needs:
                yield Broken(("steps", index, "needs", position), f"must name a step; there is no step {need}")
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        cycle = error.args[1][::-1]
        index = next(index for index, step in _members(definition, "steps") if step.get("step") in cycle)
        yield Broken(("steps", index, "needs"), f"must not form a circle: {' needs '.join(cycle)}")


def _result(definition: dict[str, Any]) -> Iterator[Broken]:
    wanted = (definition.get("result") or {}).get("step")
    if wanted is None:
        return
    found = next((step for _, step in _members(definition, "steps") if step.get("step") == wanted), None)
    if found is None:
        yield Broken(("result", "step"), f"must name a step; there is no step {wanted}")
    elif found.get("approval") is not None:
        yield Broken(("result", "step"), "must name a step that an agent runs")


def _publish(definition: dict[str, Any]) -> Iterator[Broken]:
    yield from _repeated(definition, "publish", "knowledge_graph")


def _parameters(definition: dict[str, Any]) -> Iterator[Broken]:
    yield from _repeated(definition, "parameters", "name")
    for index, parameter in _members(definition, "parameters"):
        for path, reason in _declaration(parameter):
            yield Broken(("parameters", index, *path), reason)


def _declaration(parameter: dict[str, Any]) -> Iterator[Broken]:
    bare = {"type": parameter["type"]}
    sound = True
    for bound in ("minimum", "maximum"):
        if parameter.get(bound) is not None:
            reasons = value_problems(bare, parameter[bound])
            sound = sound and not reasons
            yield from (Broken((bound,), reason) for reason in reasons)
    for position, allowed in enumerate(parameter.get("enum") or ()):
        reasons = value_problems(bare, allowed)
        yield from (Broken(("enum", position), reason) for reason in reasons)
    for low, high in (("minimum", "maximum"), ("min_length", "max_length")):
        least, most = parameter.get(low), parameter.get(high)
        if sound and least is not None and most is not None and least > most:
            yield Broken((high,), f"must not be less than {low}")
    default = parameter.get("default")
    if default is not None and sound:
        yield from (Broken(("default",), reason) for reason in value_problems(parameter, default))
