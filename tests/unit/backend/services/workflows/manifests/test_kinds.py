"""Limits of the product, at the limit and one beyond it (contract 22.6)."""

import json
from typing import Any

import pytest

from backend.common.errors import ApiError
from backend.services.workflows.manifests.loader import check_manifests, load_manifests
from tests.support.content_checks import UNBOUNDED
from tests.unit.backend.services.workflows.manifests.documents import environment, problem_fields, problems, workflow

GIB = 2**30
MCP = "https://tools.example.org/mcp"
RUN = "def run(context):\n    return 1\n"


def parameter(**fields: Any) -> dict[str, Any]:
    return workflow(parameters=[{"name": "p", "type": "string"} | fields])


def step(**fields: Any) -> dict[str, Any]:
    return workflow(steps=[{"step": "a", "agent": "x"} | fields])


def connector(**fields: Any) -> dict[str, Any]:
    return {"kind": "Connector", "name": "c", "type": "s3", "bucket": "bucket"} | fields


def agent(**fields: Any) -> dict[str, Any]:
    return {"kind": "Agent", "name": "a", "type": "python", "code": RUN} | fields


def llm(**fields: Any) -> dict[str, Any]:
    return {"kind": "Agent", "name": "a", "type": "llm", "model": "openai:gpt-5", "instructions": "Write."} | fields


def circles(**needs: str) -> list[str]:
    """Returns the problems of a workflow whose steps need these, each a letter."""
    steps = [{"step": step, "needs": list(needed)} for step, needed in needs.items()]
    found = check_manifests([("m.yaml", json.dumps(workflow(steps=steps)))], UNBOUNDED)
    return [f"{place.rpartition(' ')[2]}: {reason}" for place, reason in found.problems]


def s3(**fields: Any) -> dict[str, Any]:
    return parameter(**({"type": "s3_prefix", "connector": "c"} | fields))


def twenty_steps(count: int) -> dict[str, Any]:
    return workflow(steps=[{"step": f"s{n}"} for n in range(count)])


ALLOWED = [
    environment(memory_mb=1769, timeout_seconds=1, workspace_mb=512),
    environment(memory_mb=3008, timeout_seconds=900, workspace_mb=3008, status="inactive"),
    environment(name="n" * 80),
    workflow(name="n" * 80),
    environment(network="full"),
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
    parameter(name="p"),
    step(retry={"attempts": 1}),
    step(retry={"attempts": 10, "backoff_seconds": 300, "multiplier": 10}),
    step(retry={"attempts": 2, "backoff_seconds": 0, "multiplier": 1.5}),
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
        prefixes=["a/", "b/c/"],
        endpoint_url="http://127.0.0.1:9000",
        role_arn="arn:aws:iam::123456789012:role/r",
        secret="inbox-key",
    ),
    connector(prefixes=[], endpoint_url=None),
    agent(),
    llm(),
    llm(
        model="openai-chat:org/model-7b@latest",
        api_key="our_key-1",
        base_url="http://127.0.0.1:8000/v1",
        output_schema={
            "type": "object",
            "items": {"$ref": "#/$defs/a"},
            "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {}},
        },
        tools=["inputs", "files", "connectors"],
        max_tokens=1,
        temperature=0,
        request_timeout_seconds=900,
        stream=True,
    ),
    llm(
        tools=["inputs", {"agent": "Rates of today"}, {"mcp": MCP, "secret": "key", "only": ["a-1"]}],
        max_tool_calls=200,
    ),
    llm(output_schema={"type": "object"}, structured="json_schema", max_model_calls=200),
    llm(max_model_calls=1, keep_transcript=True),
    llm(attach=["inputs/uploads/*.png", "files/*/**"]),
    agent(input_schema={"type": "object", "properties": {"a": {"type": "string"}}}),
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
    (environment(network="some"), "network"),
    (environment(name="n" * 81), "name"),
    (environment(name=""), "name"),
    (environment(name=" n"), "name"),
    (environment(name="two\nlines"), "name"),
    (environment(name=7), "name"),
    (workflow(name="n" * 81), "name"),
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
    (step(retry={}), "steps[0].retry.attempts"),
    (step(retry={"attempts": 0}), "steps[0].retry.attempts"),
    (step(retry={"attempts": 11}), "steps[0].retry.attempts"),
    (step(retry={"attempts": 2, "backoff_seconds": 300.1}), "steps[0].retry.backoff_seconds"),
    (step(retry={"attempts": 2, "backoff_seconds": -1}), "steps[0].retry.backoff_seconds"),
    (step(retry={"attempts": 2, "multiplier": 0.5}), "steps[0].retry.multiplier"),
    (step(retry={"attempts": 2, "multiplier": True}), "steps[0].retry.multiplier"),
    (workflow(steps=[{"step": "a", "approval": {"title": "t"}, "retry": {"attempts": 2}}]), "steps[0].retry"),
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
    (parameter(name="_p"), "parameters[0].name"),
    (parameter(name="p\n"), "parameters[0].name"),
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
    (s3(max_bytes=0), "parameters[0].max_bytes"),
    (s3(max_bytes=20 * GIB + 1), "parameters[0].max_bytes"),
    (s3(default="incoming/"), "parameters[0].default"),
    (workflow(parameters=[{"name": "p", "type": "json"}] * 2), "parameters[1].name"),
    (workflow(pii_policy={"mode": "mask"}), "pii_policy.mode"),
    (workflow(pii_policy={"min_confidence": 0.45}), "pii_policy.min_confidence"),
    (workflow(pii_policy={"min_confidence": 0.81}), "pii_policy.min_confidence"),
    (workflow(pii_policy={"min_confidence": 1.05}), "pii_policy.min_confidence"),
    (workflow(pii_policy={"max_model_calls": -1}), "pii_policy.max_model_calls"),
    (workflow(pii_policy={"max_model_calls": 100_001}), "pii_policy.max_model_calls"),
    (workflow(pii_policy={"parquet_sample_rows": 0}), "pii_policy.parquet_sample_rows"),
    (workflow(pii_policy={"parquet_sample_rows": 50_001}), "pii_policy.parquet_sample_rows"),
    (workflow(pii_policy={"phone_regions": ["Spain"]}), "pii_policy.phone_regions"),
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
    (connector(secret="env:KEY"), "secret"),
    (agent(code="def go(): pass"), "code"),
    (agent(code="x = 1 +"), "code"),
    (agent(code=1), "code"),
    (agent(model="m"), "model"),
    (llm(model="gpt-5"), "model"),
    (llm(model="test"), "model"),
    (llm(model="openai:"), "model"),
    (llm(instructions=None), "instructions"),
    (llm(api_key="sk 1"), "api_key"),
    (llm(base_url="http://name:word@host/v1"), "base_url"),
    (llm(output_schema={"type": "array"}), "output_schema"),
    (llm(output_schema={"type": "object", "properties": {"a": {"$ref": "http://elsewhere"}}}), "output_schema"),
    (llm(output_schema={"type": "object", "properties": {"a": {"$ref": "#"}}}), "output_schema"),
    (
        llm(output_schema={"type": "object", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        "output_schema",
    ),
    (llm(tools=["shell"]), "tools[0]"),
    (llm(tools=["inputs", "inputs"]), "tools[1]"),
    (llm(tools=[{}]), "tools[0]"),
    (llm(tools=[1]), "tools[0]"),
    (llm(tools=[{"agent": "a", "only": ["b"]}]), "tools[0].only"),
    (llm(tools=[{"agent": "a", "confirm": "yes"}]), "tools[0].confirm"),
    (llm(tools=[{"agent": ""}]), "tools[0].agent"),
    (llm(tools=["files", "inputs", {"agent": "read input"}]), "tools[2]"),
    (llm(tools=["files", {"agent": "a b"}, {"agent": "a.b"}]), "tools[2]"),
    (llm(tools=["files", {"agent": "a"}, {"mcp": MCP, "only": ["a"]}]), "tools[2]"),
    (llm(tools=["files", "inputs", {"agent": "final_result"}], output_schema={"type": "object"}), "tools[2]"),
    (
        llm(tools=["files", "inputs", {"mcp": MCP, "only": ["final_result"]}], output_schema={"type": "object"}),
        "tools[2]",
    ),
    (llm(tools=[{"mcp": MCP}]), "tools[0].only"),
    (llm(tools=[{"mcp": MCP, "only": []}]), "tools[0].only"),
    (llm(tools=[{"mcp": MCP, "only": ["a b"]}]), "tools[0].only[0]"),
    (llm(tools=[{"mcp": "https://name:word@host/mcp", "only": ["a"]}]), "tools[0].mcp"),
    (llm(max_tool_calls=0), "max_tool_calls"),
    (llm(max_tool_calls=201), "max_tool_calls"),
    (llm(structured="tool"), "output_schema"),
    (llm(output_schema={"type": "object"}, structured="native"), "structured"),
    (llm(max_model_calls=0), "max_model_calls"),
    (llm(max_model_calls=201), "max_model_calls"),
    (agent(input_schema={"type": "array"}), "input_schema"),
    (agent(input_schema={"type": "object", "properties": {"a": {"$ref": "#"}}}), "input_schema"),
    (llm(max_tokens=0), "max_tokens"),
    (llm(temperature=2.1), "temperature"),
    (llm(request_timeout_seconds=901), "request_timeout_seconds"),
    (llm(stream=1), "stream"),
    (llm(keep_transcript="yes"), "keep_transcript"),
    (llm(attach="inputs/uploads/*.png"), "attach"),
    (llm(attach=["inputs/uploads/a.png", "inputs/../a"]), "attach[1]"),
    (llm(attach=["uploads/*.png"]), "attach[0]"),
    (llm(attach=[f"inputs/uploads/{number}.png" for number in range(21)]), "attach"),
    (agent(attach=["inputs/uploads/a.png"]), "attach"),
]


@pytest.mark.parametrize("document", ALLOWED)
def test_what_is_within_the_limits_is_accepted(document: dict[str, Any]) -> None:
    assert problem_fields(document) == []


@pytest.mark.parametrize(("document", "field"), REFUSED)
def test_what_is_beyond_a_limit_is_refused_by_its_field(document: dict[str, Any], field: str) -> None:
    assert problem_fields(document) == [field]


def test_every_circle_of_needs_is_told_with_its_first_step() -> None:
    assert circles(a="b", b="a", c="d", d="c", e="e") == [
        "steps[0].needs: must not form a circle: a needs b needs a",
        "steps[2].needs: must not form a circle: c needs d needs c",
        "steps[4].needs: must not form a circle: e needs e",
    ]
    assert circles(a="", b="ad", c="b", d="c") == ["steps[1].needs: must not form a circle: b needs d needs c needs b"]


def test_circles_that_share_a_need_are_told_apart() -> None:
    assert circles(a="b", b="ac", c="a") == [
        "steps[0].needs: must not form a circle: a needs b needs a",
        "steps[0].needs: must not form a circle: a needs b needs c needs a",
    ]


def test_circles_beyond_twenty_are_not_told() -> None:
    every = "abcdefghij"
    assert len(circles(**dict.fromkeys(every, every))) == 20


@pytest.mark.parametrize(
    ("declared", "fields"),
    [
        ({"type": "date", "default": "2026-99-99", "minimum": "x"}, ["default", "minimum"]),
        ({"type": "integer", "default": "zz", "minimum": "x"}, ["default", "minimum"]),
        ({"type": "integer", "default": 9, "minimum": "x", "maximum": 8}, ["default", "minimum"]),
        ({"type": "integer", "default": 9, "minimum": "x", "maximum": "y"}, ["maximum", "minimum"]),
    ],
)
def test_a_default_is_judged_by_the_bounds_that_can_be_read(declared: dict[str, Any], fields: list[str]) -> None:
    assert sorted(problem_fields(parameter(**declared))) == [f"parameters[0].{field}" for field in fields]


def test_a_repeated_name_is_found_beside_other_mistakes_of_its_bearer() -> None:
    parameters = [{"name": "a", "type": "nope"}, {"name": "a", "type": "string"}]
    assert problem_fields(workflow(parameters=parameters)) == ["parameters[0].type", "parameters[1].name"]


def test_an_approval_is_not_optional() -> None:
    assert problem_fields(step(agent=None, approval={"title": "Well?"}, optional=True)) == ["steps[0].optional"]


@pytest.mark.parametrize(
    ("document", "field", "bound"),
    [
        (environment(memory_mb=1768), "memory_mb", "must be an integer from 1,769 to 3,008"),
        (environment(timeout_seconds=901), "timeout_seconds", "must be an integer from 1 to 900"),
        (environment(workspace_mb=511), "workspace_mb", "must be an integer from 512 to 3,008"),
        (workflow(name="n" * 81), "name", "must have 1 to 80 characters"),
        (workflow(description="d" * 1001), "description", "must have 0 to 1,000 characters"),
        (twenty_steps(21), "steps", "must have at most 20 entries"),
        (step(step="Count"), "steps[0].step", "must be lowercase letters, digits and dashes"),
        (
            workflow(steps=[{"step": "a"}] * 2),
            "steps[1].step",
            "must be unique within the workflow; a is there twice",
        ),
        (parameter(name="P"), "parameters[0].name", "must be of the form ^[a-z][a-z0-9_]{0,63}$"),
        (workflow(settings={"parallel_steps": 11}), "settings.parallel_steps", "must be an integer from 1 to 10"),
        (
            workflow(settings={"max_run_hours": 0.3}),
            "settings.max_run_hours",
            "must be from 0.25 to 168 in steps of 0.25, or null for no limit",
        ),
        (s3(max_objects=5001), "parameters[0].max_objects", "must be an integer from 1 to 5,000"),
        (s3(max_bytes=20 * GIB + 1), "parameters[0].max_bytes", "must be an integer from 1 to 21,474,836,480"),
        (
            workflow(pii_policy={"min_confidence": 0.52}),
            "pii_policy.min_confidence",
            "must be from 0.5 to 1 in steps of 0.05",
        ),
        (
            workflow(pii_policy={"max_model_calls": 100_001}),
            "pii_policy.max_model_calls",
            "must be an integer from 0 to 100,000",
        ),
        (
            workflow(pii_policy={"parquet_sample_rows": 50_001}),
            "pii_policy.parquet_sample_rows",
            "must be an integer from 1 to 50,000",
        ),
    ],
)
def test_a_problem_names_the_field_and_its_bound(document: dict[str, Any], field: str, bound: str) -> None:
    assert problems(document) == {field: bound}


@pytest.mark.parametrize("handle", ["a", "0", "-", "a" * 128, "step-1-of-2"])
def test_a_handle_is_lowercase_letters_digits_and_dashes(handle: str) -> None:
    assert problem_fields(step(step=handle)) == []


@pytest.mark.parametrize("handle", ["A", "é", "a b", "a.b", "a_b", "a\n", "", "a" * 129])
def test_any_other_handle_is_refused(handle: str) -> None:
    assert problem_fields(step(step=handle)) == ["steps[0].step"]


@pytest.mark.parametrize("quarters", [1, 2, 3, 4, 5, 671, 672])
def test_a_time_limit_goes_in_quarters_of_an_hour(quarters: int) -> None:
    assert problem_fields(workflow(settings={"max_run_hours": quarters / 4})) == []


@pytest.mark.parametrize("hours", [0, 0.2, 0.26, 0.375, 167.9, 168.25, -1, True, "1", float("1e300")])
def test_any_other_time_limit_is_refused(hours: object) -> None:
    assert problem_fields(workflow(settings={"max_run_hours": hours})) == ["settings.max_run_hours"]


def test_agents_without_the_later_fields_have_the_definition_of_earlier_releases() -> None:
    manifests = [load_manifests([("m.yaml", json.dumps(each))], UNBOUNDED)[0] for each in (llm(), agent())]
    asking, counting = (json.loads(each.definition) for each in manifests)
    assert not {"max_tool_calls", "structured", "max_model_calls", "keep_transcript", "attach"} & asking.keys()
    assert not {"input_schema"} & counting.keys()


def test_defaults_are_the_contracts() -> None:
    environments, workflows = (load_manifests([("f", json.dumps(one))], UNBOUNDED) for one in (environment(), s3()))
    standard, defined = json.loads(environments[0].definition), json.loads(workflows[0].definition)
    (prefix,) = defined["parameters"]
    assert (standard["memory_mb"], standard["timeout_seconds"], standard["workspace_mb"]) == (2048, 900, 512)
    assert defined["settings"] == {"parallel_steps": 3, "max_run_hours": None}
    assert (prefix["max_objects"], prefix["max_bytes"]) == (500, 2 * GIB)
    assert (defined["pii_policy"]["min_confidence"], defined["pii_policy"]["max_model_calls"]) == (0.8, 200)


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
        {"pattern": "(?=a)b"},
        {"properties": {"a": {"patternProperties": {r"(a)\1": {}}}}},
        {"$ref": "https://example.com/schema.json"},
        {"properties": {"a": {"$ref": "other.json#/x"}}},
        {"$ref": "#/$defs/none"},
        {"$defs": {"n": {}}, "items": {"$id": "https://example.com/n", "$ref": "#/$defs/n"}},
        {"$defs": {"n": {}}, "items": {"$id": "https://example.com/n", "allOf": [{"not": {"$ref": "#/$defs/n"}}]}},
        ["object"],
    ],
)
def test_a_result_schema_is_sound_and_refers_only_to_itself(schema: Any) -> None:
    assert problem_fields(workflow(steps=[{"step": "a"}], result={"step": "a", "schema": schema})) == ["result.schema"]


def test_a_result_schema_may_have_ids_where_nothing_refers() -> None:
    fields = {"id": {"type": "string"}, "n": {"$ref": "#/$defs/n"}}
    schema = {
        "$id": "https://example.com/result",
        "$defs": {"n": {"$id": "https://example.com/n", "type": "integer"}},
        "properties": fields,
        "examples": [{"id": "a"}],
    }
    assert problem_fields(workflow(steps=[{"step": "a"}], result={"step": "a", "schema": schema})) == []


def test_a_result_schema_may_refer_to_itself() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"$ref": "#"}}}
    assert problem_fields(workflow(steps=[{"step": "a"}], result={"step": "a", "schema": schema})) == []


def test_a_definition_has_at_most_8_mib() -> None:
    (bare,) = load_manifests([("f", json.dumps(agent(code=RUN)))], UNBOUNDED)
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
        load_manifests([("f", text)], UNBOUNDED)
    assert refused.value.problems == (("f:7: code", "must be Python: expected ':'"),)


def test_the_code_of_an_agent_is_not_run_when_it_is_applied() -> None:
    assert problem_fields(agent(code="raise SystemExit\ndef run(context): ...")) == []
