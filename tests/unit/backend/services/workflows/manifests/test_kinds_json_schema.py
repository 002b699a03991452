"""The JSON Schema of manifests accepts what `apply` accepts, and refuses what can be told from one value alone."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
import pytest

from backend.services.workflows.manifests.kinds import manifest_schema
from backend.services.workflows.manifests.nodes import Problem
from backend.services.workflows.manifests.yaml_reader import read_documents
from tests.unit.backend.services.workflows.manifests.test_kinds import ALLOWED, REFUSED

ROOT = Path(__file__).parents[6]
SCHEMA = manifest_schema()
# As editors, it reads patterns by the rules of ECMA-262.
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)
MANIFESTS = [*sorted((ROOT / "examples").rglob("*.yaml")), *sorted((ROOT / "tests").rglob("*.yaml"))]
BEYOND = {
    "code": "its syntax is Python's",
    "memory_mb": "2048.0 is an integer in JSON Schema",
    "input_schema": "schemas have rules of their own",
    "output_schema": "schemas have rules of their own",
    "result.step": "which steps there are",
    "steps[0].approval": "between fields",
    "steps[0].needs": "which steps there are",
    "steps[0].needs[0]": "which steps there are",
    "steps[0].retry": "between fields",
    "steps[1].step": "between steps",
    "parameters[0].pattern": "its syntax is RE2's",
    "parameters[0].default": "between fields",
    "parameters[0].enum[1]": "between fields",
    "parameters[0].max_length": "between fields",
    "parameters[0].maximum": "between fields",
    "parameters[0].minimum": "between fields",
    "parameters[1].name": "between parameters",
    "publish[1].knowledge_graph": "between entries",
    "tools[2]": "between entries, by the names of their functions",
}
"""Fields of refused documents that a schema may accept, and why."""


def test_it_is_a_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("document", ALLOWED)
def test_it_accepts_what_is_within_the_limits(document: dict[str, Any]) -> None:
    VALIDATOR.validate(document)


@pytest.mark.parametrize(("document", "field"), [(each, field) for each, field in REFUSED if field not in BEYOND])
def test_it_refuses_what_is_beyond_a_limit(document: dict[str, Any], field: str) -> None:
    assert not VALIDATOR.is_valid(document)


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_it_accepts_every_manifest_of_the_examples_and_the_tests(file: Path) -> None:
    problems: list[Problem] = []
    documents = read_documents(file.read_text(), problems)
    assert documents
    assert problems == []
    for document in documents:
        VALIDATOR.validate(document.plain())


@pytest.mark.parametrize(
    "document",
    [{}, {"name": "n"}, {"kind": "Job", "name": "n"}, [], {"kind": "Environment"}, {"kind": "Agent", "name": "a"}],
)
def test_it_refuses_what_is_no_manifest(document: Any) -> None:
    assert not VALIDATOR.is_valid(document)


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "Environment", "name": "${vars.N}", "timeout_seconds": "${vars.S}", "network": "${vars.N}"},
        {"kind": "Connector", "type": "s3", "name": "c", "bucket": "${vars.B}-in", "prefixes": ["${vars.P}"]},
        {"kind": "Workflow", "name": "w", "steps": [{"step": "a", "agent": "a", "optional": "${vars.O}"}]},
        {"kind": "${vars.K}", "name": "w"},
    ],
)
def test_it_accepts_variables_in_place_of_bounded_values(document: dict[str, Any]) -> None:
    VALIDATOR.validate(document)
    text = json.dumps(document)
    assert not VALIDATOR.is_valid(json.loads(text.replace("${vars.", "${other.")))


def test_an_absent_store_is_a_folder() -> None:
    assert VALIDATOR.is_valid({"kind": "KnowledgeGraph", "name": "g"})
    assert not VALIDATOR.is_valid({"kind": "KnowledgeGraph", "name": "g", "auth": "basic"})


@pytest.mark.optional
@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_its_patterns_are_those_of_editors_too() -> None:
    patterns = json.dumps(list(_patterns(SCHEMA)))
    subprocess.run(["node", "-e", f"for (const one of {patterns}) new RegExp(one, 'u')"], check=True)


def _patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        for inner in schema.values():
            yield from _patterns(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _patterns(inner)
