"""Audit records as sentences."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import backend
from backend.services.webhooks.rules import WebhookEvent
from backend.services.workflows.manifests.names import RESOURCE_KINDS
from console.rendering.audit_sentences import SENTENCES, SentencePart, audit_sentence, person_of
from deploy.doctor import unnamed_objects

BACKEND = Path(backend.__file__).parent
ACTION = re.compile(r"[a-z_]+\.[a-z_]+")
NOUNS = {action.partition(".")[0] for action in SENTENCES}
KINDS = {*RESOURCE_KINDS.values(), "workflow"}
# Actions that are put together when they are written, by the source that does it.
MADE = {
    "approvals.py": {"approval.approved", "approval.rejected"},
    "deletion.py": {f"{kind}.deleted" for kind in KINDS},
    "new_versions.py": {f"{kind}.{change}" for kind in KINDS for change in ("applied", "set_changed")},
    "schedule_outcomes.py": {WebhookEvent.SCHEDULE_FAILED.value, WebhookEvent.SCHEDULE_SKIPPED.value},
}
EVENTS = {"approval.reminded"}
"""Events of runs that a source with audit records names as well."""


def writers() -> Iterator[Path]:
    """Yields the sources that write audit records."""
    for path in BACKEND.rglob("*.py"):
        if re.search(r"services\.audit import sql|\baudit\.record\(", path.read_text(encoding="utf-8")):
            yield path
    yield Path(unnamed_objects.__file__)


def written(path: Path) -> set[str]:
    """Returns the actions that a source names, which are all of its texts of that form."""
    texts = {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {text for text in texts if ACTION.fullmatch(text) and text.partition(".")[0] in NOUNS} - EVENTS


def makes_actions(path: Path) -> bool:
    """Returns whether a source passes `record` an action that is neither a text nor a name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "record":
            for keyword in node.keywords:
                if keyword.arg == "action" and not isinstance(keyword.value, (ast.Constant, ast.Name)):
                    return True
    return False


def test_every_action_that_is_written_has_a_sentence_and_no_other_has_one() -> None:
    found = set().union(*(written(path) for path in writers()), *MADE.values())
    assert found == set(SENTENCES)


def test_every_source_that_puts_actions_together_is_known() -> None:
    made = {path.name for path in writers() if makes_actions(path)}
    assert made - {"servicer.py"} <= MADE.keys()


def text_of(action: str, target: str, details: dict[str, Any]) -> str:
    return "".join(part.text for part in audit_sentence(action, target, details))


@pytest.mark.parametrize(
    ("action", "details", "sentence"),
    [
        ("key.created", {"name": "billing"}, "created the key billing"),
        ("key.revoked", {}, "revoked the key x_1"),
        (
            "key.edited",
            {"name": "billing", "daily_run_quota": 2000, "before": {"daily_run_quota": 100}},
            "changed the daily quota of runs from 100 to 2,000 of the key billing",
        ),
        (
            "key.edited",
            {"scopes": '["runs:read", "runs:create"]', "start_hour": None, "before": {"scopes": "[]"}},
            "changed the scopes from none to runs:read, runs:create, the start hour to none of the key x_1",
        ),
        (
            "key.edited",
            {"name": "new", "before": {"name": "old"}},
            "changed the name from old to new of the key new",
        ),
        (
            "deployment.changed",
            {"api_enabled": False, "before": {"api_enabled": True}},
            "changed the switch of the API from yes to no of the deployment",
        ),
        ("run.started", {"workflow_id": "wf_1", "version": 2}, "started the run x_1 of workflow wf_1"),
        ("run.started", {"workflow_id": "wf_1", "workflow": "billing"}, "started the run x_1 of workflow billing"),
        (
            "user.role_changed",
            {"from": "viewer", "role": "operator"},
            "changed the role of x_1 from viewer to operator",
        ),
        ("user.signed_in", {"by": "password"}, "signed x_1 in with password"),
        ("secret.used", {"step": "a", "secrets": ["S", "T"]}, "gave the secrets S, T to step a of run x_1"),
        ("agent.applied", {"name": "reader", "version": 3}, "saved the agent reader as version 3"),
        ("something.new", {}, "something.new: x_1"),
    ],
)
def test_a_record_is_a_sentence(action: str, details: dict[str, Any], sentence: str) -> None:
    assert text_of(action, "x_1", details) == sentence


def test_a_decision_is_told_by_title_workflow_and_comment_with_a_link_to_its_run() -> None:
    about = {"run_id": "run_1", "title": "Publish", "workflow": "billing", "comment": "fine"}
    assert audit_sentence("approval.approved", "apr_1", about) == [
        SentencePart("approved “"),
        SentencePart("Publish"),
        SentencePart("” of "),
        SentencePart("billing"),
        SentencePart(", an approval of run "),
        SentencePart("run_1", "run_1"),
        SentencePart(": “"),
        SentencePart("fine"),
        SentencePart("”"),
    ]
    assert text_of("approval.rejected", "apr_1", {"run_id": "run_1"}) == "rejected an approval of run run_1"


def test_hostile_details_are_bounded_and_break_nothing() -> None:
    deep = "[" * 100_000
    for value in (deep, {"a": [1]}, "x" * 10_000, ["y" * 10_000], 1.5, "{name} [x]"):
        sentence = text_of("key.edited", "t", {"name": value, "description": value, "before": value})
        assert len(sentence) < 400
    assert text_of("key.created", "t", {"name": "{other}[x]"}) == "created the key {other}[x]"


def test_people_are_called_by_their_names() -> None:
    assert [person_of(actor) for actor in ("user:ana", "system", "cli")] == ["ana", "The service", "cli"]
