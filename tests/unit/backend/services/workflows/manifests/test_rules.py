import json
from typing import Any

import pytest

from backend.services.workflows.manifests.loader import load_manifests
from tests.support.content_checks import UNBOUNDED
from tests.unit.backend.services.workflows.manifests.documents import problems

APPROVAL = {"title": "Well?"}


def workflow(publish: list[str] | None = None, **step: Any) -> dict[str, Any]:
    published = [{"knowledge_graph": "g", "steps": publish}] if publish else []
    return {"kind": "Workflow", "name": "w", "steps": [{"step": "a", **step}], "publish": published}


@pytest.mark.parametrize(
    ("declared", "wrong"),
    [
        (workflow(agent="x", outputs=False), {}),
        (workflow(agent="x", outputs=True), {}),
        (workflow(agent="x", outputs="no"), {"steps[0].outputs": "must be true or false"}),
        (
            workflow(approval=APPROVAL, outputs=False),
            {"steps[0].outputs": "must not be false of an approval: it leaves no files"},
        ),
        (
            workflow(approval=APPROVAL, timeout_seconds=60),
            {"steps[0].timeout_seconds": "must not be there beside approval: people take their time"},
        ),
        (
            workflow(agent="x", retry={"attempts": 2, "on": ["A", "B"], "not_on": ["B"]}),
            {"steps[0].retry.not_on": "must not name B, which on names too"},
        ),
        (
            workflow(agent="x", retry={"attempts": 2, "on": ["a b"]}, timeout_seconds=901),
            {
                "steps[0].retry.on[0]": "must be the type of a failure, as step.failed names it: TimeLimit, or the name"
                " of an exception",
                "steps[0].timeout_seconds": "must be an integer from 1 to 900",
            },
        ),
        (
            workflow(["a"], agent="x", outputs=False),
            {"publish[0].steps[0]": "must name a step that leaves outputs; a has outputs: false"},
        ),
    ],
)
def test_a_step_may_leave_no_outputs(declared: dict[str, Any], wrong: dict[str, str]) -> None:
    assert problems(declared) == wrong


@pytest.mark.parametrize("said", [{}, {"outputs": True}])
def test_a_workflow_of_before_a_step_could_leave_no_outputs_is_unchanged(said: dict[str, Any]) -> None:
    [manifest] = load_manifests([("f", json.dumps(workflow(agent="x", **said)))], UNBOUNDED)
    [step] = json.loads(manifest.definition)["steps"]
    assert "outputs" not in step
