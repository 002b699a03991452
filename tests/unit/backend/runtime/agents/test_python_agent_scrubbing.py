"""Secrets reach a step by its request alone, and nothing that it reports or leaves quotes them."""

import asyncio
import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from backend.runtime.agents import StepFailed
from backend.runtime.agents.python_agent import Scrubbing
from tests.unit.backend.isolation.sandbox.layers import in_every_layer
from tests.unit.backend.isolation.sandbox.steps import Steps

KEY = 'tok "Live"/4f1D+7cQx\nZ09aé'
SECRETS = {"rates-api": KEY}
SPELLINGS = [
    KEY,
    json.dumps(KEY)[1:-1],
    json.dumps(KEY, ensure_ascii=False)[1:-1],
    quote(KEY, safe=""),
    quote(KEY),
    repr(KEY.encode()),
    base64.b64encode(f"user:{KEY}".encode()).decode(),
]


def quotes_it(text: str) -> bool:
    """Whether any spelling, or most of one, is in the text."""
    return any(spelling[start : start + 12] in text for spelling in SPELLINGS for start in (2, len(spelling) - 16))


def test_a_step_gets_the_value_of_a_secret_that_its_agent_names(steps: Steps) -> None:
    code = """
        import hashlib
        def run(context):
            return hashlib.sha256(context.secret("rates-api").encode()).hexdigest()[:8]
    """
    expected = steps.run(
        "import hashlib\ndef run(context):\n    return hashlib.sha256(context.input_text.encode()).hexdigest()[:8]",
        input_text=KEY,
    )
    assert steps.run(code, secrets=SECRETS) == expected


def test_a_secret_that_is_not_declared_is_refused_with_those_that_are(steps: Steps) -> None:
    with pytest.raises(StepFailed) as failed:
        steps.run("def run(context): context.secret('other')", secrets={**SECRETS, "b": "b" * 8})
    assert failed.value.message == "LookupError: the agent declares no secret 'other' (declared: b, rates-api)"
    with pytest.raises(StepFailed, match=r"\(declared: none\)"):
        steps.run("def run(context): context.secret('other')")


@in_every_layer
def test_a_secret_is_in_no_variable_argument_or_file_of_the_step(steps: Steps) -> None:
    code = """
        import os, sys
        def run(context):
            places = [*os.environ.values(), *sys.argv, *sys.orig_argv]
            key = context.secret("rates-api")
            folders = [context.workspace, context.outputs]
            files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
            texts = [path.read_bytes().decode(errors="replace") for path in files]
            return [len(key), [key in place for place in (*places, *texts)].count(True)]
    """
    assert steps.run(code, secrets=SECRETS) == [len(KEY), 0]


LEAKING = """
    import base64, json, logging, sys, time
    from urllib.parse import quote
    def run(context):
        key = context.secret("rates-api")
        for text in (key, json.dumps(key), quote(key), repr(key.encode()), base64.b64encode(b"user:" + key.encode())):
            print(text)
        logging.error("sent %s", {"Authorization": key})
        for character in json.dumps({"token": key, "twice": key}):
            sys.stdout.write(character)
            sys.stdout.flush()
        print()
        print("after")
        context.progress(f"with {key}", headers={"Authorization": f"Bearer {key}", key: [key]}, size=3)
        (context.outputs / "sent.json").write_text(json.dumps({"token": key, "rows": [1, 2]}))
        (context.outputs / "sent.txt").write_text("begin " + key + " end")
        if context.parameters.get("fails"):
            raise ValueError(f"401 for {key}")
        return {"token": key, "list": [key, 1, None], "text": f"x {quote(key)} y", "long": "z" * context.attempt}
"""


@pytest.mark.parametrize("length", [1, 100_000])
def test_nothing_that_a_step_reports_or_leaves_quotes_a_secret(steps: Steps, length: int) -> None:
    heard: list[bytes] = []
    value, log = steps.run_logged(LEAKING, secrets=SECRETS, attempt=length, on_text=heard.append)
    parsed: dict[str, Any] = json.loads(value) if length > 1 else value
    shown = {name: parsed[name] for name in ("token", "list", "text")}
    assert shown == {"token": "[secret]", "list": ["[secret]", 1, None], "text": "x [secret] y"}
    assert len(parsed["long"]) == length
    assert steps.events == [
        ("with [secret]", {"headers": {"Authorization": "Bearer [secret]", "[secret]": ["[secret]"]}, "size": 3})
    ]
    files = steps.files()
    assert json.loads(files["sent.json"]) == {"token": "[secret]", "rows": [1, 2]}
    assert files["sent.txt"] == b"begin [secret] end"
    assert not quotes_it(log.decode())
    assert b"".join(heard) == log
    assert log.decode().splitlines()[-2:] == ['{"token": "[secret]", "twice": "[secret]"}', "after"]


def test_no_failure_quotes_a_secret(steps: Steps) -> None:
    with pytest.raises(StepFailed) as failed:
        steps.run(LEAKING, secrets=SECRETS, parameters={"fails": True})
    assert failed.value.message == "ValueError: 401 for [secret]"
    assert failed.value.log.endswith(b"ValueError: 401 for [secret]\n")
    assert not quotes_it(failed.value.log.decode())


def test_a_request_does_not_show_its_secrets(steps: Steps) -> None:
    assert not quotes_it(repr(steps.request("", secrets=SECRETS)))


def test_without_secrets_nothing_is_searched() -> None:
    assert not any(asyncio.run(Scrubbing.of({})))
