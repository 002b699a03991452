from dataclasses import replace

import pytest

from backend.runtime.agents import StepFailed
from tests.unit.backend.isolation.sandbox.layers import in_every_layer
from tests.unit.backend.isolation.sandbox.steps import LIMITS, Steps

LOOKUP = "import socket\ndef run(context): socket.getaddrinfo('api.example.org', 443)"
WRAPPED = "import urllib.request\ndef run(context): urllib.request.urlopen('https://api.example.org')"


@in_every_layer
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import pandas_of_nobody\ndef run(context): pass", "python.packages"),
        ("import os\ndef run(context): os.environ['API_KEY']", "secrets of the agent"),
        (LOOKUP, "network: full"),
        (WRAPPED, "network: full"),
        ("def run(context): raise PermissionError(13, 'Permission denied', '/data/out.csv')", "context.outputs"),
        ("def run(context): raise OSError(30, 'Read-only file system', '/data/out.csv')", "context.outputs"),
    ],
)
def test_a_failure_that_names_its_symptom_gets_the_remedy(steps: Steps, code: str, message: str) -> None:
    with pytest.raises(StepFailed) as failed:
        steps.run(code)
    assert message in str(failed.value)


@pytest.mark.parametrize("code", ["def run(context): {}['API_KEY']", "def run(context): open('no/such/file')"])
def test_another_failure_gets_no_remedy(steps: Steps, code: str) -> None:
    with pytest.raises(StepFailed) as failed:
        steps.run(code)
    assert "(" not in str(failed.value)


def test_a_lookup_that_fails_in_a_network_is_not_told_to_have_one(steps: Steps) -> None:
    with pytest.raises(StepFailed) as failed:
        steps.run(
            "import socket\ndef run(context): raise socket.gaierror('no')", limits=replace(LIMITS, network="full")
        )
    assert str(failed.value) == "gaierror: no"


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("{'items': [1, {'at': datetime.datetime(2026, 1, 1)}]}", "$.items[1].at: it is of type datetime"),
        ("[[0.5, float('nan')]]", "$[0][1]: nan is no number of JSON"),
        ("float('inf')", "$: inf is no number of JSON"),
        ("{'a b': {1}}", "$['a b']: it is of type set"),
        ("{'a': {(1, 2): 3}}", "$.a: a name is of type tuple"),
    ],
)
def test_a_result_that_is_not_json_names_its_path(steps: Steps, value: str, place: str) -> None:
    with pytest.raises(StepFailed) as failed:
        steps.run(f"import datetime\ndef run(context): return {value}")
    assert str(failed.value).startswith(f"the return value is not JSON at {place}")
    assert b"backend" not in failed.value.log
    assert b"runner.py" not in failed.value.log
