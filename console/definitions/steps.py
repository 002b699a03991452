"""Graph of a workflow's steps, drawn from its definition."""

from collections.abc import Mapping, Sequence
from typing import Any

from console.rendering.dag import Node


def step_nodes(steps: Sequence[Mapping[str, Any]]) -> list[Node]:
    """Returns the steps of a definition as nodes of a drawing."""
    return [
        Node(
            step=step["step"],
            title=step.get("name") or step["step"],
            needs=step.get("needs") or (),
            note=_note(step),
            css_class="warn" if step.get("approval") is not None else "",
        )
        for step in steps
    ]


def _note(step: Mapping[str, Any]) -> str:
    if step.get("approval") is not None:
        return "approval"
    agent = step.get("agent") or "no agent"
    if step.get("workflow") is not None:
        version = "" if step.get("version") is None else f", version {step['version']}"
        agent = f"workflow {step['workflow']}{version}"
    notes = ("optional" if step.get("optional") else "", "no outputs" if step.get("outputs") is False else "")
    return ", ".join([str(agent), *filter(None, notes)])
