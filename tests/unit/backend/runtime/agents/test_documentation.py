"""What a manifest may say and how a step may fail stands in docs/agents.md."""

from dataclasses import asdict
from pathlib import Path

import pytest

from backend.models.catalog import NOT_CONFIGURED, SECRET_UNAVAILABLE
from backend.models.failures import _CAUSES, _MALFORMED
from backend.runtime.agents import Limits, StepRequest
from backend.runtime.agents.base import event_budget
from backend.runtime.agents.connector_reading import ROLE_NOT_ASSUMED
from backend.runtime.agents.prompt import user_prompt
from backend.sandbox.inside.channel import Channel
from backend.sandbox.inside.context import Context
from backend.sandbox.inside.events import EventReporter
from backend.settings import StepDataLimits
from backend.workflows.manifests.kinds import AGENT_TYPES
from backend.workflows.manifests.workflow_fields import RETRY

DOCUMENT = (Path(__file__).parents[5] / "docs" / "agents.md").read_text(encoding="utf-8")
CAUSES = {(failure.cause, failure.final) for failure in (*_CAUSES.values(), _MALFORMED)} | {
    (NOT_CONFIGURED, True),
    (SECRET_UNAVAILABLE, True),
    (ROLE_NOT_ASSUMED, False),
}


@pytest.mark.parametrize("field", sorted((AGENT_TYPES["llm"].fields.keys() | RETRY.fields.keys()) - {"name"}))
def test_every_field_is_documented(field: str) -> None:
    assert f"| `{field}` |" in DOCUMENT


@pytest.mark.parametrize(("cause", "final"), sorted(CAUSES))
def test_every_cause_is_documented(cause: str, final: bool) -> None:
    (row,) = [line for line in DOCUMENT.splitlines() if line.startswith(f"| `{cause}` |")]
    assert row.endswith("| no |" if final else "| yes |")


def test_everything_in_the_context_is_documented() -> None:
    events = EventReporter(Channel.__new__(Channel), event_budget(StepDataLimits()))
    folders = dict.fromkeys(("inputs", "files", "workspace", "outputs"), "/")
    request = {
        "attempt": 1,
        "parameters": {},
        "input_text": None,
        "needs": {},
        "large_needs": {},
        "connectors": {},
        "secrets": {},
        "trace": {},
        "folders": folders,
    }
    context = Context(events, {**request, "data_limits": asdict(StepDataLimits())})
    for name in (name for name in dir(context) if not name.startswith("_")):
        assert f"| `{name}" in DOCUMENT


def test_the_prompt_is_documented_as_it_is() -> None:
    limits = Limits(memory_mb=1769, timeout_seconds=1, workspace_mb=512)
    request = StepRequest(
        step="digest",
        agent={},
        parameters={"language": "fr"},
        input_text="The run's input text, as it is.",
        needs={"count": {"words": 3}},
        inputs=None,
        files={},
        outputs=Path(),
        connectors={},
        limits=limits,
    )
    assert f"```text\n{user_prompt(request)}\n```" in DOCUMENT
