"""Reasons why a workflow cannot run (contract 11.8)."""

import json
from typing import Any

import pytest

from backend.common.deployment_terms import Capabilities
from backend.services.workflows.manifests.loader import load_manifests
from backend.services.workflows.resolved_workflow import resolve
from backend.services.workflows.rules import Resource, readiness
from tests.support.content_checks import UNBOUNDED

NO_KEY = "this deployment names no api_key for models of 'absent'."
RESOURCES = {
    ("agent", "counter"): Resource("agt_1", 1, {"type": "python"}),
    ("environment", "standard"): Resource("env_1", 1, {"status": "active", "memory_mb": 1800}),
    ("connector", "inbox"): Resource("con_1", 2, {"bucket": "docs", "prefixes": ["in/"]}, None, ever_passed=True),
}


def definition(**fields: Any) -> dict[str, Any]:
    step = {"step": "count", "agent": "counter", "environment": "standard", "connectors": ["inbox"]}
    document = {"kind": "Workflow", "name": "w", "steps": [step]} | fields
    (manifest,) = load_manifests([("f", json.dumps(document))], UNBOUNDED)
    found: dict[str, Any] = json.loads(manifest.definition)
    return found


def test_a_workflow_with_all_it_needs_is_ready() -> None:
    assert readiness(definition(), RESOURCES, "active") == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"steps": [{"step": "count"}]}, "Step 'count' has no agent."),
        (
            {"steps": [{"step": "count", "agent": "nobody"}]},
            "Step 'count' has no agent: there was no agent named 'nobody' when this version was saved.",
        ),
        ({"steps": []}, "The workflow has no steps."),
        (
            {"steps": [{"step": "a", "agent": "counter", "environment": "big"}]},
            "Environment 'big' is not active: it did not exist when this version was saved.",
        ),
        ({"steps": [{"step": "a", "agent": "counter", "connectors": ["box"]}]}, "Connector 'box' is missing."),
        ({"parameters": [{"name": "p", "type": "s3_prefix", "connector": "box"}]}, "Connector 'box' is missing."),
    ],
)
def test_each_gap_of_the_workflow_is_a_reason(fields: dict[str, Any], reason: str) -> None:
    assert readiness(definition(**fields), RESOURCES, "active") == [reason]


@pytest.mark.parametrize(
    ("policy", "reasons"),
    [
        ({"mode": "detect", "model": "openai:gpt-5"}, []),
        ({"mode": "off", "model": "absent:gpt-5"}, []),
        (
            {"mode": "redact", "model": "local"},
            [
                (
                    "The PII policy's model 'local' cannot be used: the optional part 'pii-model' is not installed "
                    "here: pip install 'workflow-api[pii-model]'."
                )
            ],
        ),
        (
            {"mode": "detect", "model": "absent:gpt-5"},
            ["The PII policy's model 'absent:gpt-5' cannot be used: " + NO_KEY],
        ),
    ],
)
def test_a_policys_model_must_be_one_that_the_deployment_can_call(policy: dict[str, Any], reasons: list[str]) -> None:
    assert readiness(definition(pii_policy=policy), RESOURCES, "active", Capabilities({"openai"})) == reasons


def test_an_agents_secret_must_be_one_that_the_settings_have() -> None:
    agent = Resource("agt_1", 1, {"type": "python", "secrets": ["ours", "theirs"]})
    found = {**RESOURCES, ("agent", "counter"): agent}
    twice = definition(steps=[{"step": name, "agent": "counter", "environment": "standard"} for name in ("a", "b")])
    (reason,) = readiness(twice, found, "active", Capabilities(secrets={"ours"}))
    assert reason == (
        "Agent 'counter' needs the secret 'theirs', which is missing: "
        'name where it is kept in the settings, as `theirs = "env:VARIABLE"` below [secrets].'
    )
    assert readiness(twice, found, "active", Capabilities(secrets={"ours", "theirs"})) == []


def test_an_environment_may_ask_for_the_network_only_where_the_deployment_allows_it() -> None:
    online = {"status": "active", "network": "full"}
    found = {**RESOURCES, ("environment", "standard"): Resource("env_1", 1, online)}
    (reason,) = readiness(definition(), found, "active", Capabilities(network="none"))
    assert reason == (
        "Environment 'standard' asks for the network (network: full), which this deployment allows no step: "
        'set `network = "full"` below [runtime] in the settings, or take `network: full` out of the environment.'
    )
    assert readiness(definition(), found, "active", Capabilities(network="full")) == []


@pytest.mark.parametrize(
    ("key", "resource", "reason"),
    [
        (
            ("environment", "standard"),
            Resource("env_1", 1, {"status": "inactive"}),
            "Environment 'standard' is not active.",
        ),
        (
            ("connector", "inbox"),
            Resource("con_1", 2, {}, newest_passed=False, ever_passed=True),
            "Connector 'inbox' needs attention: its last connection test failed.",
        ),
        (
            ("connector", "inbox"),
            Resource("con_1", 2, {}),
            "Connector 'inbox' has no recorded passing connection test.",
        ),
    ],
)
def test_each_state_of_a_resource_is_a_reason(key: tuple[str, str], resource: Resource, reason: str) -> None:
    assert readiness(definition(), {**RESOURCES, key: resource}, "active") == [reason]


def test_a_pass_of_an_older_version_is_enough() -> None:
    older = Resource("con_1", 2, {}, newest_passed=None, ever_passed=True)
    assert readiness(definition(), {**RESOURCES, ("connector", "inbox"): older}, "active") == []


@pytest.mark.parametrize(
    ("status", "reason"), [("draft", "The workflow is a draft."), ("inactive", "The workflow is inactive.")]
)
def test_the_status_is_a_reason_beside_the_others(status: str, reason: str) -> None:
    assert readiness(definition(steps=[{"step": "a"}]), RESOURCES, status) == [reason, "Step 'a' has no agent."]


def test_a_missing_knowledge_graph_keeps_nothing_from_running() -> None:
    assert readiness(definition(publish=[{"knowledge_graph": "g"}]), RESOURCES, "active") == []


def test_terms_hold_the_resources_that_names_stand_for() -> None:
    terms = resolve(
        "wf_1",
        "w",
        "active",
        3,
        definition(
            parameters=[{"name": "p", "type": "s3_prefix", "connector": "inbox"}],
            steps=[
                {"step": "count", "agent": "counter", "environment": "standard", "connectors": ["inbox"]},
                {"step": "ok", "approval": {"title": "Look"}, "needs": ["count"]},
                {"step": "end", "agent": "counter", "needs": ["ok"], "optional": True},
            ],
        ),
        RESOURCES,
    )
    assert terms.parameters[0]["connector_id"] == "con_1"
    assert terms.parameters[0]["prefixes"] == ["in/"]
    (declared,) = terms.inputs
    assert (declared.parameter, declared.connector_id, declared.connector) == (
        "p",
        "con_1",
        RESOURCES["connector", "inbox"].definition,
    )
    count, approval, end = terms.steps
    assert (count.kind, count.agent_id, count.environment["memory_mb"]) == ("agent", "agt_1", 1800)
    assert count.connectors["inbox"]["bucket"] == "docs"
    assert (approval.kind, approval.name, approval.title, approval.agent_id) == ("approval", "Look", "Look", None)
    assert (end.name, end.optional, end.needs) == ("end", True, ("ok",))
    assert end.environment["memory_mb"] == 2048
