"""The product's limits, at the bound and one past it (SPEC.md, product limits; DECISIONS.md, 9)."""

import json
from typing import Any

import pytest

from backend.errors import ApiError
from backend.workflows.manifests.loader import load_manifests

GIB = 2**30
RUN = "def run(context):\n    return 1\n"


def problem_fields(document: dict[str, Any]) -> list[str]:
    """The fields with problems; JSON is YAML."""
    try:
        load_manifests([("f", json.dumps(document))])
    except ApiError as error:
        return [name.removeprefix("f:1: ") for name, _ in error.problems]
    return []


def environment(**fields: Any) -> dict[str, Any]:
    return {"kind": "Environment", "name": "e"} | fields


def workflow(**fields: Any) -> dict[str, Any]:
    return {"kind": "Workflow", "name": "w"} | fields


def parameter(**fields: Any) -> dict[str, Any]:
    return workflow(parameters=[{"name": "p", "type": "string"} | fields])


def step(**fields: Any) -> dict[str, Any]:
    return workflow(steps=[{"step": "a", "agent": "x"} | fields])


def connector(**fields: Any) -> dict[str, Any]:
    return {"kind": "Connector", "name": "c", "type": "s3", "bucket": "bucket"} | fields


def agent(**fields: Any) -> dict[str, Any]:
    return {"kind": "Agent", "name": "a", "type": "python", "code": RUN} | fields


def s3(**fields: Any) -> dict[str, Any]:
    return parameter(**({"type": "s3_prefix", "connector": "c"} | fields))


def twenty_steps(count: int) -> dict[str, Any]:
    return workflow(steps=[{"step": f"s{n}"} for n in range(count)])


ALLOWED = [
    environment(memory_mb=1769, timeout_seconds=1, workspace_mb=512),
    environment(memory_mb=3008, timeout_seconds=900, workspace_mb=3008, status="inactive"),
    environment(name="n" * 80),
    workflow(name="Müller & Söhne, 契約"),
    workflow(description="d" * 1000),
    workflow(description=""),
    workflow(settings={"parallel_steps": 1, "max_run_hours": 0.25}),
    workflow(settings={"parallel_steps": 10, "max_run_hours": 168}),
    workflow(settings={"max_run_hours": None}),
    twenty_steps(20),
    step(step="a-1"),
    step(name="A name"),
    step(environment="e", connectors=["c"], optional=True),
    workflow(steps=[{"step": "a"}, {"step": "b", "approval": {"title": "t"}, "needs": ["a"]}]),
    parameter(name="p" + "_" * 63),
    parameter(enum=["a", "b"], default="a", min_length=1, max_length=1, pattern="[ab]"),
    parameter(type="number", minimum=0, maximum=1.5, default=1),
    parameter(type="date", minimum="2026-01-01", default="2026-02-28"),
    parameter(type="boolean", default=False),
    parameter(type="json", default={"a": [1]}),
    s3(max_objects=5000, max_bytes=20 * GIB),
    s3(max_objects=1, max_bytes=1, default="s3://bucket/incoming/"),
    workflow(pii_policy={"mode": "redact", "min_confidence": 0.5, "max_model_calls": 100_000}),
    workflow(pii_policy={"min_confidence": 1, "max_model_calls": 0, "parquet_sample_rows": 50_000}),
    workflow(steps=[{"step": "a"}], result={"step": "a", "schema": {"type": "object"}, "schema_version": "1"}),
    workflow(publish=[{"knowledge_graph": "g", "wait_seconds": 0}]),
    connector(
        prefixes=["a/", "b/c/"], endpoint_url="http://127.0.0.1:9000", role_arn="arn:aws:iam::123456789012:role/r"
    ),
    connector(prefixes=[], endpoint_url=None),
    agent(),
    {"kind": "Agent", "name": "a", "type": "llm", "model": "openai:gpt-5", "instructions": "Write."},
    {"kind": "KnowledgeGraph", "name": "g"},
]

REFUSED = [
    (environment(memory_mb=1768), "memory_mb"),
    (environment(memory_mb=3009), "memory_mb"),
    (environment(memory_mb=2048.0), "memory_mb"),
    (environment(memory_mb="2048"), "memory_mb"),
    (environment(timeout_seconds=0), "timeout_seconds"),
    (environment(timeout_seconds=901), "timeout_seconds"),
    (environment(timeout_seconds=True), "timeout_seconds"),
    (environment(workspace_mb=511), "workspace_mb"),
    (environment(workspace_mb=3009), "workspace_mb"),
    (environment(status="draft"), "status"),
    (environment(name="n" * 81), "name"),
    (environment(name=""), "name"),
    (environment(name=" n"), "name"),
    (environment(name="two\nlines"), "name"),
    (environment(name=7), "name"),
    (workflow(description="d" * 1001), "description"),
    (workflow(status="paused"), "status"),
    (workflow(settings={"parallel_steps": 0}), "settings.parallel_steps"),
    (workflow(settings={"parallel_steps": 11}), "settings.parallel_steps"),
    (workflow(settings={"max_run_hours": 0.2}), "settings.max_run_hours"),
    (workflow(settings={"max_run_hours": 0}), "settings.max_run_hours"),
    (workflow(settings={"max_run_hours": 168.25}), "settings.max_run_hours"),
    (workflow(settings={"max_run_hours": 1.1}), "settings.max_run_hours"),
    (workflow(settings=[]), "settings"),
    (twenty_steps(21), "steps"),
    (step(step="Count"), "steps[0].step"),
    (step(step="a_b"), "steps[0].step"),
    (step(approval={"title": "t"}), "steps[0].approval"),
    (step(optional="yes"), "steps[0].optional"),
    (workflow(steps=[{"step": "a"}, {"step": "b", "needs": ["a", "a"]}]), "steps[1].needs[1]"),
    (step(needs=["a"]), "steps[0].needs"),
    (step(needs=["b"]), "steps[0].needs[0]"),
    (workflow(steps=[{"step": "a"}, {"step": "a"}]), "steps[1].step"),
    (workflow(steps=[{"step": "a", "needs": ["b"]}, {"step": "b", "needs": ["a"]}]), "steps[0].needs"),
    (workflow(result={"step": "a"}), "result.step"),
    (workflow(steps=[{"step": "a", "approval": {"title": "t"}}], result={"step": "a"}), "result.step"),
    (workflow(steps=[{"step": "a"}], result={"step": "a", "schema_version": 1}), "result.schema_version"),
    (parameter(name="P"), "parameters[0].name"),
    (parameter(name="p" * 65), "parameters[0].name"),
    (parameter(name="1p"), "parameters[0].name"),
    (parameter(type="text"), "parameters[0].type"),
    (parameter(minimum=1), "parameters[0].minimum"),
    (parameter(pattern="("), "parameters[0].pattern"),
    (parameter(pattern="(?=a)"), "parameters[0].pattern"),
    (parameter(default=1), "parameters[0].default"),
    (parameter(default="c", enum=["a", "b"]), "parameters[0].default"),
    (parameter(enum=[]), "parameters[0].enum"),
    (parameter(enum=["a", 1]), "parameters[0].enum[1]"),
    (parameter(min_length=2, max_length=1), "parameters[0].max_length"),
    (parameter(type="integer", minimum=2, maximum=1), "parameters[0].maximum"),
    (parameter(type="integer", minimum="1"), "parameters[0].minimum"),
    (parameter(type="integer", default=1.0), "parameters[0].default"),
    (parameter(type="date", default="2026-02-29"), "parameters[0].default"),
    (parameter(connector="c"), "parameters[0].connector"),
    (s3(connector=None), "parameters[0].connector"),
    (s3(max_objects=0), "parameters[0].max_objects"),
    (s3(max_objects=5001), "parameters[0].max_objects"),
    (s3(max_bytes=20 * GIB + 1), "parameters[0].max_bytes"),
    (s3(default="incoming/"), "parameters[0].default"),
    (workflow(parameters=[{"name": "p", "type": "json"}] * 2), "parameters[1].name"),
    (workflow(pii_policy={"mode": "mask"}), "pii_policy.mode"),
    (workflow(pii_policy={"min_confidence": 0.45}), "pii_policy.min_confidence"),
    (workflow(pii_policy={"min_confidence": 0.81}), "pii_policy.min_confidence"),
    (workflow(pii_policy={"max_model_calls": 100_001}), "pii_policy.max_model_calls"),
    (workflow(pii_policy={"parquet_sample_rows": 50_001}), "pii_policy.parquet_sample_rows"),
    (workflow(pii_policy={"categories": ["EMAIL"]}), "pii_policy.categories"),
    (workflow(pii_policy={"stages": ["before"]}), "pii_policy.stages"),
    (workflow(publish=[{"knowledge_graph": "g"}] * 2), "publish[1].knowledge_graph"),
    (workflow(publish=[{"knowledge_graph": "g", "wait_seconds": 3601}]), "publish[0].wait_seconds"),
    (connector(bucket="B"), "bucket"),
    (connector(prefixes=["in"]), "prefixes[0]"),
    (connector(prefixes=["/in/"]), "prefixes[0]"),
    (connector(prefixes=["in/../out/"]), "prefixes[0]"),
    (connector(type="ftp"), "type"),
    (connector(endpoint_url="ftp://x"), "endpoint_url"),
    (connector(endpoint_url="http://user:secret@host"), "endpoint_url"),
    (connector(role_arn="admin"), "role_arn"),
    (agent(code="def go(): pass"), "code"),
    (agent(code="x = 1 +"), "code"),
    (agent(code=1), "code"),
    (agent(model="m"), "model"),
]


@pytest.mark.parametrize("document", ALLOWED)
def test_what_is_within_the_limits_is_accepted(document: dict[str, Any]) -> None:
    assert problem_fields(document) == []


@pytest.mark.parametrize(("document", "field"), REFUSED)
def test_what_is_beyond_a_limit_is_refused_by_its_field(document: dict[str, Any], field: str) -> None:
    assert problem_fields(document) == [field]


def schema_of_bytes(size: int) -> dict[str, Any]:
    empty = json.dumps({"description": ""}, separators=(",", ":"))
    return {"description": "x" * (size - len(empty))}


def test_a_result_schema_has_at_most_32_kb() -> None:
    def document(size: int) -> dict[str, Any]:
        return workflow(steps=[{"step": "a"}], result={"step": "a", "schema": schema_of_bytes(size)})

    assert problem_fields(document(32_768)) == []
    assert problem_fields(document(32_769)) == ["result.schema"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 3},
        {"pattern": "("},
        {"$ref": "https://example.com/schema.json"},
        {"properties": {"a": {"$ref": "other.json#/x"}}},
        {"$ref": "#/$defs/none"},
        ["object"],
    ],
)
def test_a_result_schema_is_sound_and_refers_only_to_itself(schema: Any) -> None:
    assert problem_fields(workflow(steps=[{"step": "a"}], result={"step": "a", "schema": schema})) == ["result.schema"]


def test_a_result_schema_may_refer_to_itself() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"$ref": "#"}}}
    assert problem_fields(workflow(steps=[{"step": "a"}], result={"step": "a", "schema": schema})) == []


@pytest.mark.slow
def test_a_definition_has_at_most_8_mib() -> None:
    (bare,) = load_manifests([("f", json.dumps(agent(code=RUN)))])
    room = 8 * 2**20 - len(bare.definition.encode())
    assert problem_fields(agent(code=RUN + "#" * room)) == []
    assert problem_fields(agent(code=RUN + "#" * (room + 1))) == ["document"]


@pytest.mark.parametrize(
    "code",
    [
        "async def run(context): ...",
        "from helpers import run",
        "run = lambda context: 1",
        "if True:\n    def run(context): ...",
    ],
)
def test_an_agent_may_define_run_in_any_way(code: str) -> None:
    assert problem_fields(agent(code=code)) == []


@pytest.mark.parametrize("code", ["def f():\n    def run(context): ...", "print(run)", "class A:\n    run = 1", ""])
def test_an_agent_without_run_at_the_top_is_refused(code: str) -> None:
    assert problem_fields(agent(code=code)) == ["code"]


def test_a_syntax_error_of_an_agent_is_told_with_its_line_in_the_file() -> None:
    text = "kind: Agent\nname: a\ntype: python\ncode: |\n\n  # comment\n  def run(context)\n      pass\n"
    with pytest.raises(ApiError) as refused:
        load_manifests([("f", text)])
    assert refused.value.problems == (("f:7: code", "must be Python: expected ':'"),)


def test_the_code_of_an_agent_is_not_run_when_it_is_applied() -> None:
    assert problem_fields(agent(code="raise SystemExit\ndef run(context): ...")) == []
