"""Schemas of tools are JSON Schema for every form of parameter, and patterns are expressions of every validator."""

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp import Client

from workflow_api_client import records
from workflow_api_client.decoding import decode
from workflow_api_client.mcp.schemas import is_portable, schema_of
from workflow_api_client.mcp.server import WorkflowTools
from workflow_api_client.testing import FakeApi

PORTABLE = [
    "[a-z]{2,8}",
    r"\d{4}-\d{2}",
    "(?:red|green)+?",
    r"[\w.-]+\.txt",
    r"a\/b",
    "[-+]?[0-9]*",
    "[^,;]*",
    r"\x41.*",
    "über|😀",
    "",
]
RE2_ONLY = [
    "(?i)abc",
    r"\Aabc\z",
    r"\pL+",
    r"\p{Greek}",
    "(?P<year>[0-9]{4})",
    "[[:alpha:]]+",
    r"\Qa.b\E",
    "[]a]",
    "a{,3}",
    r"\_",
    "(?s:.)",
    "(?U)a+",
    r"\C",
    "[a&&b]",
    r"\x{1F600}",
    "x}",
    r"[\w-.]",
    "^*",
    "[--]",
]
FORMS: list[dict[str, Any]] = [
    {"type": "string", "min_length": 1, "max_length": 5, "default": "a", "enum": ["a", "b"]},
    *({"type": "string", "pattern": pattern} for pattern in [*PORTABLE, *RE2_ONLY]),
    {"type": "integer", "minimum": -3, "maximum": 9007199254740993, "default": 1},
    {"type": "integer", "enum": [1, 2, 3]},
    {"type": "number", "minimum": 0.5, "maximum": 1e300, "enum": [0.5, 1]},
    {"type": "boolean", "default": False},
    {"type": "date", "minimum": "2026-01-01", "maximum": "2026-12-31", "default": "2026-05-05"},
    {"type": "date", "enum": ["2026-01-01"], "description": "A day."},
    {"type": "json", "default": {"a": [1, None]}},
    {"type": "json"},
    {"type": "s3_prefix", "connector_id": "con_1", "max_objects": 3, "max_bytes": 5},
]


def schemas(api: FakeApi) -> dict[str, dict[str, Any]]:
    declared = [{"name": f"p{number}", "required": number % 2 == 0, **form} for number, form in enumerate(FORMS)]
    api.workflow("Forms", parameters=declared)
    api.workflow("Named alike", parameters=[{"name": "input_text", "required": True}])

    async def listed() -> dict[str, dict[str, Any]]:
        async with api.async_client() as client, Client(WorkflowTools(client).server()) as tools:
            return {tool.name: tool.input_schema for tool in (await tools.list_tools()).tools}

    return asyncio.run(listed())


def test_every_form_of_parameter_has_a_valid_schema_of_the_same_values(api: FakeApi) -> None:
    listed = schemas(api)
    for schema in listed.values():
        Draft202012Validator.check_schema(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    properties = listed["forms"]["properties"]
    for name, form in zip(properties, FORMS, strict=False):
        schema = properties[name]
        if "default" in form:
            assert schema["default"] == form["default"]
            assert Draft202012Validator(schema).is_valid(form["default"])
        if form.get("pattern") in RE2_ONLY:
            assert "pattern" not in schema
            assert form["pattern"] in schema["description"]
        if form["type"] == "date":
            assert {"minimum", "maximum"}.isdisjoint(schema)
            assert all(str(form[bound]) in schema["description"] for bound in ("minimum", "maximum") if bound in form)


def test_a_type_of_a_later_release_takes_any_value() -> None:
    declared = {"name": "value", "type": "of a later release", "required": True, "minimum": "low"}
    assert schema_of(decode(records.Parameter, declared)) == {"description": "Minimum: low."}


@pytest.mark.parametrize("pattern", PORTABLE)
def test_a_pattern_of_every_validator_stays_a_pattern(pattern: str) -> None:
    assert is_portable(pattern)
    re.compile(pattern)


@pytest.mark.parametrize("pattern", RE2_ONLY)
def test_a_pattern_that_some_validators_cannot_read_goes_into_the_description(pattern: str) -> None:
    assert not is_portable(pattern)


@pytest.mark.optional
@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_patterns_are_those_of_ecmascript_too(api: FakeApi) -> None:
    used = [each["pattern"] for each in schemas(api)["forms"]["properties"].values() if "pattern" in each]
    assert len(used) == len(PORTABLE) + 1
    subprocess.run(["node", "-e", f"for (const one of {json.dumps(used)}) new RegExp(one, 'u')"], check=True)


@pytest.mark.long
def test_ajv_compiles_every_schema(api: FakeApi, tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    install = ["npm", "install", "--silent", "--no-fund", "--no-audit", "ajv@8", "ajv-formats@3"]
    done = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip("needs a registry of npm packages")
    (tmp_path / "schemas.json").write_text(json.dumps(schemas(api)))
    script = """
const Ajv = require("ajv/dist/2020").default;
const ajv = new Ajv({ strict: true, strictTypes: false });
require("ajv-formats").default(ajv);
for (const schema of Object.values(require("./schemas.json"))) ajv.compile(schema);
"""
    done = subprocess.run(["node", "-e", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
