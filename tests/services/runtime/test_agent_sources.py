"""Runs whose agents are files and folders."""

from backend.runtime.execution.agent_sources import AgentSources
from tests.services.runtime.conftest import RuntimeWorld, agent_step

MANIFEST = """
kind: Agent
name: file
type: python
code_file: digest.py
---
kind: Agent
name: folder
type: python
source: agents
entrypoint: digest.main:run
"""
FILES = {
    "digest.py": b"def run(context):\n    return context.input_text.upper()\n",
    "agents/digest/__init__.py": b"",
    "agents/digest/main.py": (
        b"from digest.words import count\ndef run(context):\n    return count(context.needs['file'])\n"
    ),
    "agents/digest/words.py": b"def count(text):\n    return len(text.split())\n",
}
STEPS = [agent_step("file", "file"), agent_step("folder", "folder", "file")]


def test_a_run_executes_the_code_of_a_file_and_of_a_folder(world: RuntimeWorld) -> None:
    world.apply(MANIFEST, FILES)
    run_id = world.run("Files", STEPS, workflow={"result": {"step": "folder"}}, input_text="two words")
    world.until_ended(run_id)
    assert world.get(run_id).result == "2"


def test_an_older_version_keeps_its_folder(world: RuntimeWorld) -> None:
    world.apply(MANIFEST, FILES)
    workflow = {"result": {"step": "folder"}}
    world.until_ended(world.run("Files", STEPS, workflow=workflow, input_text="two words"))
    changed = FILES | {"agents/digest/words.py": b"def count(text):\n    return -1\n"}
    world.apply(MANIFEST, changed)
    older = world.started("Files", input_text="two words", version=1)
    newer = world.started("Files", input_text="two words")
    for run_id, result in ((older, "2"), (newer, "-1")):
        world.until_ended(run_id)
        assert world.get(run_id).result == result


def test_code_that_is_not_stored_is_none(world: RuntimeWorld) -> None:
    assert AgentSources(world.services.database).get("0" * 64) is None
