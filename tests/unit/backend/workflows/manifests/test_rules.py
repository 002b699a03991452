import json
from typing import Any

import pytest

from backend.workflows.manifests.loader import load_manifests
from tests.support.content_checks import UNBOUNDED
from tests.unit.backend.workflows.manifests.documents import problems

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
