"""The examples on the page about flows run as the page says."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from tests.services.runtime.conftest import RuntimeWorld

PAGE: Final = Path("docs/flows.md").read_text(encoding="utf-8")
EXAMPLES: Final = {
    re.findall(r"^name: (.*)$", text, re.MULTILINE)[-1]: text
    for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    if "status: active" in text
}


def started(world: RuntimeWorld, name: str, **fields: object) -> str:
    world.workflows |= world.apply(EXAMPLES[name])
    return world.started(name, **fields)


@pytest.mark.parametrize(("total", "paid"), [(250, True), (50, False), (5000, False)])
def test_conditions(world: RuntimeWorld, total: int, paid: bool) -> None:
    run = world.until_ended(started(world, "Pay when it is much", parameters={"total": total}))
    assert (run.status, json.loads(run.result)["paid"]) == ("completed", paid)


def test_last_steps(world: RuntimeWorld) -> None:
    run = world.until_ended(started(world, "Tidy"))
    assert run.status == "failed"
    values = {row.step: row.value for row in world.dump(f"steps WHERE run_id = '{run.run_id}'")}
    failure = {"step": "work", "code": "node_failed", "message": "Step 'work' failed: RuntimeError: the disk is full"}
    assert json.loads(values["alarm"]) == json.loads(values["clean"]) == failure
