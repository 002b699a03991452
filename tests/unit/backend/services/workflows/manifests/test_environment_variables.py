"""Variables of environments are bounded texts under names that a process may have and the sandbox does not set."""

import json
from typing import Any

import pytest

from backend.isolation.sandbox.layer import Layout
from backend.services.workflows.manifests.environment_variables import SET_BY_THE_SANDBOX
from backend.services.workflows.manifests.loader import check_manifests
from backend.services.workflows.manifests.writer import manifest_text
from tests.support.content_checks import UNBOUNDED


def loaded(variables: Any) -> Any:
    return check_manifests([("f", json.dumps({"kind": "Environment", "name": "e", "variables": variables}))], UNBOUNDED)


def test_variables_are_part_of_the_definition_and_absent_without_any() -> None:
    (manifest,) = loaded({"A": "1", "_b2": ""}).manifests
    stored = json.loads(manifest.definition)
    assert stored["variables"] == {"A": "1", "_b2": ""}
    ((again),) = check_manifests([("f", manifest_text("Environment", stored))], UNBOUNDED).manifests
    assert again.definition == manifest.definition
    (without,) = loaded({}).manifests
    assert "variables" not in json.loads(without.definition)


@pytest.mark.parametrize(
    ("variables", "field", "reason"),
    [
        ({"a-b": "x"}, "variables.a-b", "must have a name of 1 to 128 letters"),
        ({"a=b": "x"}, "variables.a=b", "must have a name of 1 to 128 letters"),
        ({"": "x"}, 'variables.""', "must have a name of 1 to 128 letters"),
        ({"1a": "x"}, "variables.1a", "must have a name of 1 to 128 letters"),
        ({"ä": "x"}, "variables.ä", "must have a name of 1 to 128 letters"),
        ({"PATH": "/x"}, "variables.PATH", "must not be a variable that the sandbox sets"),
        ({"HOME": "/x"}, "variables.HOME", "must not be a variable that the sandbox sets"),
        ({"LD_PRELOAD": "/x"}, "variables.LD_PRELOAD", "must not be a variable by which programs load other code"),
        ({"PYTHONPATH": "/x"}, "variables.PYTHONPATH", "must not be a variable by which programs load other code"),
        ({"BASH_ENV": "/x"}, "variables.BASH_ENV", "must not be a variable by which programs load other code"),
        ({"A": 1}, "variables.A", "must be text; put it in quotes"),
        ({"A": "x" * 4_097}, "variables.A", "must have 0 to 4,096 characters"),
        ({f"A{number}": "" for number in range(65)}, "variables", "must be an object of at most 64 members"),
        ({f"A{number}": "x" * 4_096 for number in range(9)}, "variables", "must have at most 32,768 bytes"),
        (["A"], "variables", "must be an object"),
    ],
)
def test_a_variable_beyond_its_bounds_is_refused_by_its_field(variables: Any, field: str, reason: str) -> None:
    ((place, told),) = loaded(variables).problems
    assert place == f"f:1: {field}"
    assert reason in told


def test_every_variable_of_the_sandbox_is_refused() -> None:
    layout = Layout("/w", "/o", "/s", "/i", "/f", "/t", "/c", "/packages")
    assert layout.environment().keys() - {"PYTHONPATH"} <= SET_BY_THE_SANDBOX
