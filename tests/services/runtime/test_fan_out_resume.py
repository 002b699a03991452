"""A resumed run executes of a fan-out that did not complete the items that are left or have changed."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from backend.common.secrets import Secrets
from backend.services.dependencies import Services
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.services.runtime.test_fan_out import events_of, items_of
from tests.services.runtime.test_resume import contents, resume, why

# Only the secret differs when a run is resumed, and that is not part of what is compared.
AGENTS: Final = """
kind: Agent
name: lister
type: python
code: |
  def run(context):
      return [10, 11, 12, 13]
---
kind: Agent
name: lucky
type: python
secrets: [luck]
code: |
  import random
  def run(context):
      if context.item == 12 and context.secret("luck") == "bad-luck-today":
          raise ValueError("no luck")
      (context.outputs / "rolled.txt").write_text(str(random.random()))
      (context.shared / "kept.txt").write_text("kept")
      return [context.item, random.random()]
"""


@pytest.fixture
def luck(tmp_path: Path) -> Path:
    file = tmp_path / "luck"
    file.write_text("bad-luck-today")
    return file


@pytest.fixture
def services(services: Services, luck: Path) -> Services:
    return replace(services, secrets=Secrets({"luck": f"file:{luck}"}))


@pytest.fixture
def lucky(idle_world: RuntimeWorld, services: Services) -> Any:
    """A world whose steps get the secret."""
    idle_world.apply(AGENTS)
    runtime = idle_world.new_runtime(idle_world.folder / "data", secrets=services.secrets)
    runtime.start()
    yield idle_world
    runtime.stop()


def failed(world: RuntimeWorld, name: str, *, items: str = "needs.list", **fields: Any) -> str:
    run_id = world.run(name, _steps(items, **fields), workflow={"result": {"step": "last"}})
    assert world.until_ended(run_id).status == "failed"
    return run_id


def _steps(items: str, **fields: Any) -> list[dict[str, Any]]:
    page = agent_step("page", "lucky", "list", for_each=items, **{"max_parallel": 1, **fields})
    return [agent_step("list", "lister"), page, agent_step("last", "reader", "page")]


def attempts_of(world: RuntimeWorld, run_id: str) -> dict[int, int]:
    return {data["item_index"]: data["attempt"] for data in events_of(world, run_id, "step.item_completed")}


def test_completed_items_keep_their_values_and_files(lucky: RuntimeWorld, luck: Path) -> None:
    world = lucky
    ended = failed(world, "Resumed")
    assert items_of(world, ended) == (4, 2, 1)
    before = {row.item_index: row.value for row in world.dump(f"step_items WHERE run_id = '{ended}'")}
    luck.write_text("good-luck-today")
    answer = resume(world, ended)
    assert why(answer)["page"] == (
        f"Its status in run {ended} is failed. Its completed items are reused where they are unchanged."
    )
    run_id = answer.run.summary.run_id
    row = world.until_ended(run_id)
    assert (row.status, items_of(world, run_id)) == ("completed", (4, 4, 0))
    (page,) = [row for row in world.dump(f"steps WHERE run_id = '{run_id}'") if row.step == "page"]
    assert json.loads(page.value)[:2] == [json.loads(before[index]) for index in (0, 1)]
    assert [value[0] for value in json.loads(page.value)] == [10, 11, 12, 13]
    assert attempts_of(world, run_id) == {0: 0, 1: 0, 2: 1, 3: 1}
    step = world.steps(run_id)["page"]
    assert (step.attempt, step.reused_from) == (1, "")
    assert world.steps(run_id)["list"].reused_from == ended
    files, earlier = contents(world, run_id), contents(world, ended)
    assert {path: files[path] for path in earlier} == earlier
    seen = json.loads(row.result)["files"]
    assert sorted(seen) == [f"page/{index}/{name}.txt" for index in range(4) for name in ("kept", "rolled")]
    assert {path: text.encode() for path, text in seen.items() if "rolled" in path} == {
        path: content for path, content in files.items() if path.startswith("page/")
    }


def test_items_that_have_changed_are_executed(lucky: RuntimeWorld, luck: Path) -> None:
    world = lucky
    ended = failed(world, "Changed")
    luck.write_text("good-luck-today")
    world.apply(
        json.dumps(
            {
                "kind": "Workflow",
                "name": "Changed",
                "status": "active",
                "steps": _steps("needs.list.map(x, x == 11 ? 21 : x)", max_items=100),
                "result": {"step": "last"},
            }
        )
    )
    run_id = resume(world, ended).run.summary.run_id
    assert world.until_ended(run_id).status == "completed"
    assert attempts_of(world, run_id) == {0: 0, 1: 1, 2: 1, 3: 1}


def test_no_item_is_reused_where_the_agent_has_changed(lucky: RuntimeWorld, luck: Path) -> None:
    world = lucky
    ended = failed(world, "Mended")
    luck.write_text("good-luck-today")
    world.apply(AGENTS.replace("no luck", "none"))
    answer = resume(world, ended)
    assert why(answer)["page"] == f"Its status in run {ended} is failed."
    run_id = answer.run.summary.run_id
    assert world.until_ended(run_id).status == "completed"
    assert attempts_of(world, run_id) == dict.fromkeys(range(4), 1)


def test_a_completed_fan_out_is_reused_as_a_whole(lucky: RuntimeWorld, luck: Path) -> None:
    world = lucky
    luck.write_text("good-luck-today")
    steps = [*_steps("needs.list")[:2], agent_step("last", "fail", "page")]
    ended = world.run("Whole", steps)
    assert world.until_ended(ended).status == "failed"
    # How many items execute at once says nothing about their values.
    steps = [*_steps("needs.list", max_parallel=3)[:2], agent_step("last", "fail", "page")]
    world.apply(json.dumps({"kind": "Workflow", "name": "Whole", "status": "active", "steps": steps}))
    world.apply(json.dumps({"kind": "Agent", "name": "fail", "type": "python", "code": "def run(context): return 1"}))
    answer = resume(world, ended)
    assert list(answer.reused) == ["list", "page"]
    run_id = answer.run.summary.run_id
    assert world.until_ended(run_id).status == "completed"
    assert (items_of(world, run_id), world.steps(run_id)["page"].reused_from) == ((4, 4, 0), ended)


def test_items_that_a_resumed_run_kept_are_kept_by_the_next(lucky: RuntimeWorld, luck: Path) -> None:
    world = lucky
    first = failed(world, "Twice")
    second = resume(world, first).run.summary.run_id
    assert world.until_ended(second).status == "failed"
    assert attempts_of(world, second) == {0: 0, 1: 0}
    luck.write_text("good-luck-today")
    third = resume(world, second).run.summary.run_id
    assert world.until_ended(third).status == "completed"
    assert attempts_of(world, third) == {0: 0, 1: 0, 2: 1, 3: 1}
    assert contents(world, third)["page/0/rolled.txt"] == contents(world, first)["page/0/rolled.txt"]


def test_items_whose_files_were_removed_are_executed(lucky: RuntimeWorld, luck: Path) -> None:
    world = lucky
    ended = failed(world, "Removed")
    luck.write_text("good-luck-today")
    (row,) = [row for row in world.dump(f"outputs WHERE run_id = '{ended}'") if row.path == "page/0/rolled.txt"]
    world.objects.delete(row.object_key)
    run_id = resume(world, ended).run.summary.run_id
    assert world.until_ended(run_id).status == "completed"
    assert attempts_of(world, run_id) == {0: 1, 1: 0, 2: 1, 3: 1}


def test_erasing_a_run_removes_its_items(lucky: RuntimeWorld) -> None:
    world = lucky
    ended = failed(world, "Erased")
    assert len(world.dump(f"step_items WHERE run_id = '{ended}'")) == 4
    world.erase(ended)
    assert world.dump(f"step_items WHERE run_id = '{ended}'") == []


@pytest.mark.long
def test_1000_items_of_8_kb_and_their_files_are_not_in_memory_at_once(tmp_path: Path) -> None:
    script = Path(__file__).with_name("large_fan_out.py")
    done = subprocess.run([sys.executable, script, str(tmp_path)], capture_output=True, text=True, check=True)
    grown = json.loads(done.stdout)
    assert (grown["status"], grown["bytes"]) == ("completed", 1_000 * (8_000 + 3) + 1)
    # The files have 125 MiB; the list of values, of 8 MiB, is written as one row in the end.
    assert grown["grown_mib"] < 80


@pytest.mark.long
def test_kill_9_in_the_middle_orphans_the_run_and_a_resume_executes_no_completed_item_again(tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed_fan_out.py")
    first = subprocess.Popen([sys.executable, script, str(tmp_path), "first"], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    try:
        before = json.loads(first.stdout.readline())
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        first.stdout.close()
    done = subprocess.run(
        [sys.executable, script, str(tmp_path), "second"], capture_output=True, text=True, timeout=120, check=True
    )
    after = json.loads(done.stdout)
    assert after["ended"] == ["failed", "orphaned", 6, 3, 0]
    assert after["resumed"] == ["completed", None]
    assert after["result"][:3] == before["values"]
    assert [value[0] for value in after["result"]] == list(range(6))
    assert after["attempts"] == {str(index): int(index >= 3) for index in range(6)}
    assert after["paths"] == [*(f"page/{index}/rolled.txt" for index in range(6)), "result.json"]
