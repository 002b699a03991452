"""Knowledge graphs, and what workflows publish in them."""

import json
from typing import Any

import pytest

from backend.services.workflows.manifests.loader import load_manifests
from tests.support.content_checks import UNBOUNDED
from tests.unit.backend.services.workflows.manifests.documents import problems, workflow


def graph(**fields: Any) -> dict[str, Any]:
    return {"kind": "KnowledgeGraph", "name": "g"} | fields


def publish(**fields: Any) -> dict[str, Any]:
    steps = [{"step": "a", "agent": "x"}, {"step": "b", "approval": {"title": "Well?"}}]
    return workflow(steps=steps, publish=[{"knowledge_graph": "g"} | fields])


REMOTE = {"store": "sparql", "endpoint_url": "http://127.0.0.1/query", "update_url": "https://e.org:8443/update?a=b"}
IRI = "https://e.org/p"
MAPPED = {"subject": "https://e.org/{id}", "type": IRI}


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, {}),
        ({"store": "folder", "base_iri": "urn:acme:"}, {}),
        (REMOTE | {"secret": "graph-token", "auth": "basic"}, {}),
        ({"store": "sparql"}, {"endpoint_url": "is required", "update_url": "is required"}),
        ({"base_iri": "https://e.org"}, {"base_iri": "must be an absolute IRI that ends with /, # or :"}),
        (REMOTE | {"update_url": "ftp://e.org"}, {"update_url": "must be an http or https address"}),
        ({"store": "disk"}, {"store": "must be one of: folder, sparql"}),
    ],
)
def test_a_knowledge_graph_says_where_it_is(fields: dict[str, Any], wrong: dict[str, str]) -> None:
    assert problems(graph(**fields)) == wrong


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"wait_seconds": 0, "steps": ["a"], "files": "deep/*.ttl"}, {}),
        ({"mapping": MAPPED | {"columns": {"a b": IRI, "c": {"predicate": IRI, "iri": "{c}"}}}, "files": "*.csv"}, {}),
        ({"steps": []}, {"steps": "must have 1 to 20 entries"}),
        (
            {"steps": ["b", "c"]},
            {
                "steps[0]": "must name a step that an agent runs",
                "steps[1]": "must name a step; there is no step c",
            },
        ),
        ({"files": "*.jsonl"}, {"files": "must not name rows without a mapping that makes triples of them"}),
        ({"files": "*.nt", "mapping": MAPPED}, {"mapping": "must not be there when files names no rows"}),
        ({"mapping": {"subject": "{id}"}}, {"mapping": "must have a type or columns: it makes no triple"}),
        (
            {"mapping": MAPPED | {"subject": "https://e.org/row"}},
            {"mapping.subject": "must be an absolute IRI with columns in braces, as https://example.org/invoice/{id}"},
        ),
        ({"mapping": MAPPED | {"columns": {"a": "no iri"}}}, {"mapping.columns.a": "must be an absolute IRI"}),
        (
            {"mapping": MAPPED | {"columns": {"a": {"predicate": IRI, "datatype": IRI, "iri": "{a}"}}}},
            {"mapping.columns.a.iri": "must not be there beside datatype: a value is the one or the other"},
        ),
        (
            {"mapping": MAPPED | {"columns": {f"c{n}": IRI for n in range(257)}}},
            {"mapping.columns": "must be an object of at most 256 members"},
        ),
    ],
)
def test_what_is_published_is_chosen_and_mapped(fields: dict[str, Any], wrong: dict[str, str]) -> None:
    assert problems(publish(**fields)) == {f"publish[0].{field}": reason for field, reason in wrong.items()}


def test_a_column_in_short_is_its_predicate() -> None:
    [manifest] = load_manifests([("f", json.dumps(publish(mapping=MAPPED | {"columns": {"a": IRI}})))], UNBOUNDED)
    [entry] = json.loads(manifest.definition)["publish"]
    assert entry["mapping"]["columns"] == {"a": {"predicate": IRI, "datatype": None, "iri": None}}
