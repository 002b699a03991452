"""Publishing to knowledge graphs, as a caller and an administrator see it. (contract 26)"""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.admin import Credentials
from tests.support.part import COMMAND
from tests.support.poll import until
from tests.support.service import Service
from tests.support.sparql_server import SparqlServer, sparql_server
from workflow_api.v1 import workflows_pb2

pytestmark = pytest.mark.long

MANIFESTS = r"""
kind: KnowledgeGraph
name: contracts
base_iri: https://graph.example.org/
---
kind: KnowledgeGraph
name: remote
store: sparql
endpoint_url: {endpoint_url}
update_url: {update_url}
---
kind: Agent
name: publisher
type: python
code: |
  def run(context):
      (context.outputs / "facts.ttl").write_text(context.input_text)
      (context.outputs / "table.csv").write_text("id,total\n1,2.50\n2,\n")
---
kind: Workflow
name: Publishes
status: active
steps: [{{step: write, agent: publisher}}]
publish:
  - knowledge_graph: contracts
    mapping:
      subject: https://graph.example.org/invoice/{{id}}
      type: https://schema.org/Invoice
      columns: {{total: https://schema.org/total}}
---
kind: Workflow
name: Does not wait
status: active
steps: [{{step: write, agent: publisher}}]
publish: [{{knowledge_graph: remote, wait_seconds: 0}}]
"""


@pytest.fixture
def server() -> Iterator[SparqlServer]:
    with sparql_server() as server:
        yield server


@pytest.fixture
def flows(own_service: Service, server: SparqlServer) -> dict[str, str]:
    content = MANIFESTS.format(endpoint_url=server.endpoint_url, update_url=server.update_url)
    file = workflows_pb2.ManifestFile(name="graphs.yaml", content=content)
    applied = own_service.admin.workflows.ApplyManifests(workflows_pb2.ApplyManifestsRequest(files=[file]))
    return {item.name: item.id for item in applied.items if item.kind == "Workflow"}


def graphs(service: Service, *arguments: str) -> Any:
    command = [str(COMMAND), "graphs", *arguments, "--grpc", service.ready["grpc"], "--json"]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)


def test_published_triples_can_be_queried_until_the_run_is_erased(own_service: Service, flows: dict[str, str]) -> None:
    caller = own_service.new_caller()
    run = caller.finished(flows["Publishes"], input_text="<alpha> <knows> <beta> .")
    assert (run["status"], run["warnings"], run["completed_with_warnings"]) == ("completed", [], False)
    events = {event["type"]: event["data"] for event in caller.events(run["run_id"])["events"]}
    name = f"https://graph.example.org/run/{run['run_id']}"
    assert events["publish.started"] == {"knowledge_graph": "contracts"}
    assert events["publish.completed"] == {"knowledge_graph": "contracts", "graph": name, "triples": 4}

    total = "SELECT ?g ?invoice { GRAPH ?g { ?invoice <https://schema.org/total> '2.50' } }"
    assert graphs(own_service, "query", "contracts", total) == {
        "head": {"vars": ["g", "invoice"]},
        "results": {
            "bindings": [
                {
                    "g": {"type": "uri", "value": name},
                    "invoice": {"type": "uri", "value": "https://graph.example.org/invoice/1"},
                }
            ]
        },
        "truncated": False,
    }
    listed = {item["name"]: (item["store"], item["runs"]) for item in graphs(own_service, "list")["items"]}
    assert listed == {"contracts": ("folder", 1), "remote": ("sparql", 0)}

    assert caller.delete(f"/runs/{run['run_id']}/data").status == 202
    anything = "ASK { ?s ?p ?o }"
    until(lambda: not graphs(own_service, "query", "contracts", anything)["boolean"], "an empty graph")


def test_a_publication_that_fails_leaves_the_run_completed_with_a_warning(
    own_service: Service, flows: dict[str, str]
) -> None:
    caller = own_service.new_caller()
    run = caller.finished(flows["Publishes"], input_text="<alpha> <knows> .")
    assert (run["status"], run["completed_with_warnings"]) == ("completed", True)
    assert "error" not in run
    [warning] = run["warnings"]
    assert warning.startswith("Publishing to knowledge graph 'contracts' failed: 'write/facts.ttl': ")
    [found] = [event for event in caller.events(run["run_id"])["events"] if event["type"] == "warning"]
    assert found["data"] == {"message": warning, "knowledge_graph": "contracts"}


def test_a_late_publication_is_a_warning_and_is_written_once_even_after_a_crash(
    own_service: Service, flows: dict[str, str], server: SparqlServer
) -> None:
    caller = own_service.new_caller()
    server.status = 503
    run = caller.finished(flows["Does not wait"], input_text="<x:alpha> <x:knows> [ <x:name> 'beta' ] .")
    assert run["status"] == "completed"
    assert run["warnings"] == [
        "Publishing to knowledge graph 'remote' was still building when its wait of 0 seconds expired."
    ]
    until(lambda: server.requests, "an attempt")

    own_service.kill()
    server.status = None
    own_service.start()
    until(lambda: len(server.store) == 2, "the publication")
    assert server.graphs() == {f"urn:workflow-api:run:{run['run_id']}"}
    landed = {"runs": 1, "pending": 0}
    until(lambda: {name: graphs(own_service, "list")["items"][1][name] for name in landed} == landed, "its record")
    again = own_service.caller(Credentials(caller.key_id, caller.key, caller.external_id))
    assert again.run(run["run_id"]) == run
