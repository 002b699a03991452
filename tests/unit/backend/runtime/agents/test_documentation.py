"""docs/agents.md has the context of an agent, the prompt of a model, and every cause of failure."""

from dataclasses import asdict
from pathlib import Path

import pytest

from backend.isolation.sandbox.inside.channel import EventReporter, StepChannel
from backend.isolation.sandbox.inside.context import Context
from backend.resources.models import CAUSES_BY_EXCEPTION, MALFORMED, NOT_CONFIGURED, SECRET_UNAVAILABLE
from backend.runtime.agents import Limits, StepRequest
from backend.runtime.agents.base import event_budget
from backend.runtime.agents.prompt import user_prompt
from backend.runtime.agents.tools import ROLE_NOT_ASSUMED
from backend.settings import StepDataLimits

DOCUMENT = (Path(__file__).parents[5] / "docs" / "agents.md").read_text(encoding="utf-8")
CAUSES = {(failure.cause, failure.final) for failure in (*CAUSES_BY_EXCEPTION.values(), MALFORMED)} | {
    (NOT_CONFIGURED, True),
    (SECRET_UNAVAILABLE, True),
    (ROLE_NOT_ASSUMED, False),
}


@pytest.mark.parametrize(("cause", "final"), sorted(CAUSES))
def test_every_cause_is_documented(cause: str, final: bool) -> None:
    (row,) = [line for line in DOCUMENT.splitlines() if line.startswith(f"| `{cause}` |")]
    assert row.endswith("| no |" if final else "| yes |")


def test_everything_in_the_context_is_documented() -> None:
    events = EventReporter(StepChannel.__new__(StepChannel), event_budget(StepDataLimits()))
    folders = dict.fromkeys(("inputs", "files", "workspace", "outputs"), "/")
    request = {
        "attempt": 1,
        "run_id": "run_1",
        "step": "s",
        "client_reference": None,
        "failure": None,
        "parameters": {},
        "input_text": None,
        "needs": {},
        "large_needs": {},
        "item": None,
        "large_item": None,
        "item_index": None,
        "input": None,
        "call": None,
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
