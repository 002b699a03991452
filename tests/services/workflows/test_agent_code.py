"""Folders with the code of agents: stored once by their content, and removed when nothing needs them."""

import json
from typing import Any

import pytest
from sqlalchemy import select

from backend.services.workflows import definitions_sql
from backend.services.workflows.definitions import files_of
from backend.services.workflows.deletion import AgentSourceRetention
from backend.storage.database import Tx
from backend.storage.statements import ScalarQuery
from backend.storage.tables.workflows import agent_sources
from tests.services.calls import RefusedError
from tests.services.conftest import TestClock
from tests.services.workflows.conftest import Workflows

AGENT = "kind: Agent\nname: digester\ntype: python\nsource: agents\nentrypoint: main:run\n"
OTHER = AGENT.replace("digester", "other")
WORKFLOW = "kind: Workflow\nname: W\nsteps: [{step: a, agent: digester}]\n"
FILES = {"agents/main.py": b"def run(context):\n    return 1\n", "agents/data.bin": bytes(range(256))}
CHANGED = FILES | {"agents/main.py": b"def run(context):\n    return 2\n"}

_STORED = ScalarQuery[str](select(agent_sources.c.digest).order_by(agent_sources.c.digest))


def stored(workflows: Workflows) -> list[str]:
    return workflows.services.database.read(lambda tx: tx.scalars(_STORED))


def digest_of(workflows: Workflows, name: str = "digester") -> str:
    return str(json.loads(workflows.resource("agent", name).definition)["digest"])


def upkeep(workflows: Workflows, clock: TestClock) -> int:
    rule = AgentSourceRetention()
    return workflows.services.database.write(lambda tx: rule.delete_batch(tx, clock()))


def outcome(items: list[Any]) -> list[tuple[int, str]]:
    return [(item.version, item.outcome) for item in items]


def test_the_same_bytes_make_no_version_and_others_do(workflows: Workflows) -> None:
    assert outcome(workflows.apply(AGENT, attached=FILES)) == [(1, "created")]
    assert outcome(workflows.apply(AGENT, attached=FILES)) == [(1, "unchanged")]
    assert outcome(workflows.apply(AGENT, attached=CHANGED)) == [(2, "updated")]


def test_a_folder_is_stored_once_whatever_agents_have_it(workflows: Workflows) -> None:
    workflows.apply(AGENT, OTHER, attached=FILES)
    assert stored(workflows) == [digest_of(workflows)] == [digest_of(workflows, "other")]
    archive = workflows.services.database.read(lambda tx: definitions_sql.archive(tx, digest_of(workflows)))
    assert archive is not None
    assert files_of(archive) == {"main.py": FILES["agents/main.py"], "data.bin": FILES["agents/data.bin"]}


def test_a_changed_folder_makes_a_version_of_its_workflows(workflows: Workflows) -> None:
    workflows.apply(AGENT, WORKFLOW, attached=FILES)
    agent, workflow = workflows.apply(AGENT, attached=CHANGED)
    assert (agent.version, workflow.version, list(workflow.changed_resources)) == (2, 2, ["Agent digester"])


def test_a_dry_run_stores_nothing(workflows: Workflows) -> None:
    workflows.apply(AGENT, attached=FILES)
    (item,) = workflows.apply(AGENT, attached=CHANGED, dry_run=True)
    assert "-  main.py: " in item.difference
    assert stored(workflows) == [digest_of(workflows)]


def test_files_that_did_not_come_are_refused(workflows: Workflows) -> None:
    with pytest.raises(RefusedError) as refused:
        workflows.apply(AGENT, attached={"elsewhere/main.py": b""})
    assert refused.value.problems == {
        "f0.yaml:4: source": "must name a folder with files that come with the manifest; of agents none did"
    }


def test_what_no_version_needs_is_removed_after_a_day(workflows: Workflows, clock: TestClock) -> None:
    workflows.apply(AGENT, attached=FILES)
    first = digest_of(workflows)
    workflows.apply(AGENT, attached=CHANGED)
    assert upkeep(workflows, clock) == 0
    clock.advance(days=1, seconds=1)
    assert upkeep(workflows, clock) == 1
    assert stored(workflows) == [digest_of(workflows)] != [first]
    # Applied again, it is stored again.
    workflows.apply(AGENT, attached=FILES)
    assert first in stored(workflows)


def test_what_a_version_of_a_workflow_uses_is_kept(workflows: Workflows, clock: TestClock) -> None:
    workflows.apply(AGENT, WORKFLOW, attached=FILES)
    workflows.apply(AGENT, attached=CHANGED)
    clock.advance(days=2)
    assert upkeep(workflows, clock) == 0
    assert len(stored(workflows)) == 2


def test_a_folder_that_is_applied_while_unneeded_ones_are_deleted_is_kept(
    workflows: Workflows, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflows.apply(AGENT, attached=FILES)
    digest = digest_of(workflows)
    clock.advance(days=2)

    def applied_meanwhile(tx: Tx, query: object, **_: object) -> bool:
        definitions_sql.touch_stored(tx, digest, clock())
        return False

    with monkeypatch.context() as patch:
        patch.setattr(Tx, "exists", applied_meanwhile)
        assert workflows.services.database.write(lambda tx: definitions_sql.delete_unneeded(tx, clock() - 1, 10)) == 0
    assert stored(workflows) == [digest]
