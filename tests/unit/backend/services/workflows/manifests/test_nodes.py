"""Problems of manifests with the values that they refuse."""

import json
from typing import Any

import pytest

from backend.common.errors import ApiError
from backend.services.workflows.manifests.loader import load_manifests
from tests.support.content_checks import UNBOUNDED
from tests.unit.backend.services.workflows.manifests.documents import environment


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({"memory_mb": 1}, "memory_mb", "must be an integer from 1,769 to 3,008; it is 1"),
        ({"network": "maybe"}, "network", "must be one of: none, full; it is 'maybe'"),
        ({"network": ["full"]}, "network", 'must be one of: none, full; it is ["full"]'),
        ({"python": {"packages": 7}}, "python.packages", "must be a list; it is 7"),
        ({"network": "x" * 100}, "network", f"must be one of: none, full; it is '{'x' * 59}…"),
    ],
)
def test_a_problem_shows_the_value(fields: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(ApiError) as refused:
        load_manifests([("f", json.dumps(environment(**fields)))], UNBOUNDED)
    assert refused.value.problems == ((f"f:1: {field}", reason),)


def test_a_problem_shows_no_value_that_may_be_a_secret() -> None:
    """Somebody wrote the key where its name belongs."""
    agent = {"kind": "Agent", "name": "a", "type": "llm", "model": "openai:gpt-5", "instructions": "Do."}
    with pytest.raises(ApiError) as refused:
        load_manifests([("f", json.dumps({**agent, "api_key": "sk proj 123"}))], UNBOUNDED)
    assert refused.value.problems == (("f:1: api_key", "must be the name of a secret, of A-Z a-z 0-9 _ -"),)


@pytest.mark.parametrize(
    ("endpoint_url", "reason"),
    [
        ("https://user:hunter2@objects.example.org", "must be an http or https address"),
        (["https://user:hunter2@objects.example.org"], "must be text"),
        ({"password": "hunter2"}, "must be text"),
    ],
)
def test_a_problem_shows_no_password_of_an_address_or_inside_a_value(endpoint_url: Any, reason: str) -> None:
    connector = {"kind": "Connector", "name": "inbox", "type": "s3", "bucket": "inbox", "endpoint_url": endpoint_url}
    with pytest.raises(ApiError) as refused:
        load_manifests([("f", json.dumps(connector))], UNBOUNDED)
    assert refused.value.problems == (("f:1: endpoint_url", reason),)
