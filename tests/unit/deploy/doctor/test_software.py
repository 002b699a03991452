"""Optional parts that active workflows and agents need, on both databases."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backend.common.optional_parts import GRAPHS, LLM, PARQUET, PII_MODEL, REDACTION, OptionalPart
from backend.services.workflows.manifests.loader import load_manifests
from backend.services.workflows.new_versions import apply_manifests
from backend.services.workflows.pii_policy import why_not_applicable, why_unusable
from backend.storage.database import Database
from backend.storage.factory import DataFolder, open_postgresql
from deploy.config.settings import Settings
from deploy.doctor.examination import ExaminedPart, Finding, Outcome, ServingPart
from deploy.doctor.postgresql import check_postgresql
from deploy.doctor.software import needed_parts
from deploy.doctor.sqlite_file import check_sqlite
from tests.support.content_checks import UNBOUNDED
from tests.support.postgresql import Postgresql

AGENT = {"kind": "Agent", "name": "writer", "type": "llm", "model": "openai:gpt-5", "instructions": "Write."}
GRAPH = {"kind": "KnowledgeGraph", "name": "documents", "base_iri": "https://documents.example.org/"}
STEP = {"step": "write", "agent": "writer"}
LANGUAGE_MODEL = {"mode": "detect", "model": "openai:gpt-5"}
LOCAL_MODEL = {"mode": "redact", "model": "local"}

Checked = Callable[..., list[Finding]]


@pytest.fixture(params=["sqlite", "postgresql"])
def checked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Checked]:
    """Applies manifests to an empty database, and returns what is found about optional parts."""

    def apply(database: Database, manifests: tuple[dict[str, Any], ...]) -> None:
        for one in manifests:
            loaded = load_manifests([("file", json.dumps(one))], UNBOUNDED)
            database.write(partial(apply_manifests, manifests=loaded, now=1, actor="test"))

    def on_sqlite(*manifests: dict[str, Any]) -> list[Finding]:
        with closing(DataFolder(tmp_path)) as folder, closing(folder.open_database()) as database:
            apply(database, manifests)
        return parts(check_sqlite(ExaminedPart(ServingPart.SERVE, Settings(), tmp_path, {})))

    if request.param == "sqlite":
        yield on_sqlite
        return
    server: Postgresql = request.getfixturevalue("postgresql_server")
    with server.database() as url:

        def on_postgresql(*manifests: dict[str, Any]) -> list[Finding]:
            with closing(open_postgresql(url, 2)) as database:
                apply(database, manifests)
            settings = replace(Settings(), backend=replace(Settings().backend, database="env:DATABASE"))
            return parts(check_postgresql(ExaminedPart(ServingPart.BACKEND, settings, tmp_path, {"DATABASE": url})))

        yield on_postgresql


def parts(checks: Iterator[Finding]) -> list[Finding]:
    return [check for check in checks if check.name == "optional parts"]


def workflow(status: str = "active", **fields: Any) -> dict[str, Any]:
    return {"kind": "Workflow", "name": "letters", "status": status, "steps": [STEP], **fields}


def missing(monkeypatch: pytest.MonkeyPatch, *absent: OptionalPart) -> None:
    modules = {module for part in absent for module in part.modules}
    monkeypatch.setattr("backend.common.optional_parts.can_import", lambda module: module not in modules)


def test_every_part_that_something_needs_is_looked_for(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    missing(monkeypatch, GRAPHS, LLM, PARQUET, PII_MODEL, REDACTION)
    publishes = [{"knowledge_graph": "documents", "steps": ["write"]}]
    found = checked(GRAPH, AGENT, workflow(pii_policy=LOCAL_MODEL, publish=publishes))
    outcomes = {
        part.name: check.outcome
        for part in (GRAPHS, LLM, PARQUET, PII_MODEL, REDACTION)
        for check in found
        if f"`{part.name}` is not installed" in check.message
    }
    assert outcomes == {
        "graphs": Outcome.FAILED,
        "llm": Outcome.FAILED,
        "parquet": Outcome.WARNING,
        "pii-model": Outcome.FAILED,
        "redaction": Outcome.FAILED,
    }
    assert all(
        f"'{name}'" in check.message
        for check in found
        for name in ("letters", "writer")
        if (name == "writer") == ("`llm`" in check.message)
    )


def test_a_part_that_is_there_is_ok_and_one_that_nothing_needs_is_not_named(checked: Checked) -> None:
    assert [(check.outcome, "`llm`" in check.message) for check in checked(AGENT, workflow())] == [(Outcome.OK, True)]


def test_workflows_that_cannot_be_started_need_nothing(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    missing(monkeypatch, REDACTION)
    assert not [
        check for check in checked(workflow("inactive", pii_policy=LOCAL_MODEL)) if "`llm`" not in check.message
    ]


def test_a_version_that_shares_its_definition_with_another_is_read(
    checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing(monkeypatch, REDACTION)
    changed = AGENT | {"instructions": "Write well."}
    found = checked(AGENT, workflow(pii_policy=LOCAL_MODEL), changed)
    assert any("`redaction` is not installed" in check.message for check in found)


@pytest.mark.parametrize(
    "policy", [{"mode": "off", "model": "local"}, {"mode": "detect"}, LOCAL_MODEL, LANGUAGE_MODEL], ids=str
)
def test_a_part_fails_where_a_workflow_is_not_ready_without_it(
    policy: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing(monkeypatch, REDACTION, PII_MODEL)
    (loaded,) = load_manifests([("file", json.dumps(workflow(pii_policy=policy)))], UNBOUNDED)
    found = needed_parts(lambda query: [("letters", loaded.definition)] if "workflow_versions" in query else [])
    failing = {check.message.split("`")[1] for check in found if check.outcome is Outcome.FAILED}
    normalised = json.loads(loaded.definition)["pii_policy"]
    reasons = (why_not_applicable(normalised), why_unusable(normalised, {"openai"}))
    assert failing == {reason.split("'")[1] for reason in reasons if reason is not None}
