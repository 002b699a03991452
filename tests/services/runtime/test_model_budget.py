"""A run asks its PII policy's model at most `max_model_calls` times, in all its sweeps together. (contract 21.14)"""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.common.secrets import Secrets
from backend.settings import ModelProvider
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.support.poll import until

pytestmark = pytest.mark.long

PUBLISHER = """
    def run(context):
        (context.outputs / "facts.nt").write_text("\\n".join(f'<x:{n}> <x:b> "number {n}" .' for n in range(2500)))
"""


@pytest.fixture(name="server")
def _server() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    server.will(Reply(calls=(ToolCall("final_result", {"mentions": []}),)))
    yield server
    server.close()


@pytest.fixture(name="asking")
def _asking(idle_world: RuntimeWorld, server: OpenAIServer, tmp_path: Path) -> Iterator[RuntimeWorld]:
    models = {"openai-chat": ModelProvider(base_url=server.base_url)}
    runtime = idle_world.new_runtime(tmp_path / "data", secrets=Secrets(), models=models)
    runtime.start()
    yield idle_world
    runtime.stop()


def policy(calls: int, *stages: str) -> dict[str, Any]:
    return {"mode": "redact", "model": "openai-chat:any", "max_model_calls": calls, "stages": list(stages)}


def model_calls(world: RuntimeWorld, run_id: str) -> int:
    world.until_ended(run_id)
    until(lambda: world.row(run_id).redaction_state == "done", "the final sweep")
    return int(json.loads(world.row(run_id).pii_redaction or "{}")["counts"]["model_calls"])


def test_later_segments_share_the_calls_of_the_run(asking: RuntimeWorld, server: OpenAIServer) -> None:
    steps = [gate("first"), gate("second", "first"), gate("third", "second"), agent_step("main", "echo", "third")]
    workflow = {"pii_policy": policy(3, "inputs")}
    run_id = asking.run("Parks", steps, workflow=workflow, input_text="Ask Ada Lovelace")
    for _ in range(3):
        until(lambda: asking.approvals(run_id), "an approval")
        (approval,) = asking.approvals(run_id).values()
        asking.decide(approval, approve=True)
    assert model_calls(asking, run_id) == len(server.requests) == 3


def test_the_batches_of_a_publication_share_the_calls_of_the_run(asking: RuntimeWorld, server: OpenAIServer) -> None:
    graph = {"kind": "KnowledgeGraph", "name": "facts", "base_iri": "https://graph.example.org/"}
    agent = {"kind": "Agent", "name": "publisher", "type": "python", "code": textwrap.dedent(PUBLISHER)}
    asking.apply("\n---\n".join(json.dumps(document) for document in (graph, agent)))
    workflow = {"publish": [{"knowledge_graph": "facts"}], "pii_policy": policy(2, "outputs")}
    run_id = asking.run("Publishes", [agent_step("main", "publisher")], workflow=workflow)
    assert model_calls(asking, run_id) == len(server.requests) == 2
    assert asking.row(run_id).warnings == "[]"
