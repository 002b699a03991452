"""Which starts an event loop may carry out: those that no input makes slow."""

import json
from collections.abc import Callable

from backend.rpc.interceptors import handlers_of
from tests.services.runs.world import World
from workflow_api.v1 import runs_pb2

PATTERNS = """
kind: Workflow
name: Address
status: active
parameters:
  - {name: address, type: string, pattern: '[^@ ]+@[a-z0-9.-]+'}
steps: [{step: first, agent: worker, environment: standard}]
---
kind: Workflow
name: Repeated
status: active
parameters:
  - {name: text, type: string, pattern: '((((a|b)?){9}){9}){9}c'}
steps: [{step: first, agent: worker, environment: standard}]
"""


def _quick(world: World) -> Callable[[str, str], bool]:
    service = runs_pb2.DESCRIPTOR.services_by_name["RunsService"]
    quick = handlers_of(world.servicer, service)["/workflow_api.v1.RunsService/StartRun"].runs_inline
    assert quick is not None
    return lambda workflow_id, text: quick(
        runs_pb2.StartRunRequest(workflow_id=workflow_id, parameters=json.dumps({"text": text}))
    )


def test_a_start_is_quick_once_its_workflow_is_known(world: World) -> None:
    quick = _quick(world)
    workflow_id = world.workflows["Plain"]
    assert not quick(workflow_id, "a")
    world.started()
    assert quick(workflow_id, "a")
    assert not quick(workflow_id, "a" * 2_048)
    assert not quick("wf_none", "a")


def test_a_start_whose_pattern_may_take_long_is_not_quick(world: World) -> None:
    quick = _quick(world)
    found = world.apply(PATTERNS)
    world.start(found["Address"], parameters={"address": "a@b.c"})
    world.start(found["Repeated"], parameters={"text": "c"})
    assert quick(found["Address"], "a")
    assert not quick(found["Repeated"], "a")
