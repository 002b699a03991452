"""How a model is asked for an answer that fits a schema, in each form, and answers that do not fit."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.services.workflows.model_answers import FORMS
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.unit.backend.runtime.agents.provider import KEY, ProviderFixture

DOCUMENT = (Path(__file__).parents[5] / "docs" / "agents.md").read_text(encoding="utf-8")
SCHEMA = {"type": "object", "required": ["words"], "properties": {"words": {"type": "integer", "minimum": 0}}}
MISMATCH = "The answer does not fit its schema at $.words: -1 is less than the minimum of 0"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


@pytest.fixture(params=["openai:gpt-5", "openai-chat:gpt-5"])
def asked(server: OpenAIServer, tmp_path: Path, request: pytest.FixtureRequest) -> ProviderFixture:
    return ProviderFixture(server, tmp_path, str(request.param))


@pytest.fixture
def once(server: OpenAIServer, tmp_path: Path) -> ProviderFixture:
    return ProviderFixture(server, tmp_path)


def answer(form: str | None, text: str) -> Reply:
    """The reply of a provider in a form; without one as the profile of the model says."""
    return (
        Reply(text) if form in ("json_schema", "prompt") else Reply(calls=(ToolCall("final_result", json.loads(text)),))
    )


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("form", [None, *FORMS])
def test_an_answer_in_each_form_is_the_value(asked: ProviderFixture, form: str | None, stream: bool) -> None:
    agent = {"output_schema": SCHEMA, "structured": form, "stream": stream}
    assert asked.ask(answer(form, '{"words": 3}'), agent=agent).value == {"words": 3}


def differences(asked: ProviderFixture, form: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The members of a request in a form that a request for a text lacks."""
    asked.ask(Reply("text"), agent={"model": asked.model})
    plain = asked.sent()
    asked.failure(Reply(status=401), agent={"model": asked.model, "output_schema": schema, "structured": form})
    return {name: value for name, value in asked.sent().items() if name not in plain or value != plain[name]}


def documented(title: str) -> Any:
    (block,) = re.findall(rf"`{title}:…`[^\n]*:\n\n<!-- not run: [^\n]* -->\n```json\n(.*?)\n```", DOCUMENT, re.DOTALL)
    return json.loads(block)


@pytest.mark.parametrize("protocol", ["openai", "openai-chat"])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_sent_in_each_form_is_documented(once: ProviderFixture, form: str, protocol: str) -> None:
    once.model = f"{protocol}:gpt-5"
    schema = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}
    sent = differences(once, form, schema)
    assert sent == documented(protocol)[form]


@pytest.mark.parametrize("form", [None, *FORMS])
def test_without_a_form_the_profile_of_the_model_decides(once: ProviderFixture, form: str | None) -> None:
    once.model = "openai-chat:gpt-5"
    once.ask(answer(form, '{"words": 1}'), agent={"output_schema": SCHEMA, "structured": form})
    assert ("tools" in once.sent()) == (form in (None, "tool"))


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_that_does_not_fit_is_told_to_the_model_and_kept_in_the_log(
    asked: ProviderFixture, form: str
) -> None:
    agent = {"output_schema": SCHEMA, "structured": form}
    result = asked.ask(answer(form, '{"words": -1}'), answer(form, '{"words": 1}'), agent=agent)
    assert result.value == {"words": 1}
    assert MISMATCH in json.dumps(asked.sent())
    first, reason, text, second = result.log.decode().splitlines()
    assert (reason, json.loads(text)) == (f"  {MISMATCH}", {"words": -1})
    assert text.startswith("  ")
    assert first.startswith("gpt-5: ")
    assert second.startswith("gpt-5: ")


@pytest.mark.parametrize("form", ["json_schema", "prompt"])
def test_a_text_that_is_no_json_is_asked_for_again(asked: ProviderFixture, form: str) -> None:
    agent = {"output_schema": SCHEMA, "structured": form}
    result = asked.ask(Reply("Here it is:\ngpt-5: 1 tokens in"), Reply('{"words": 1}'), agent=agent)
    assert result.value == {"words": 1}
    assert result.log.decode().splitlines()[1:4] == [
        "  Invalid JSON: expected value at line 1 column 1",
        "  Here it is:",
        "  gpt-5: 1 tokens in",
    ]


def test_the_log_of_an_answer_that_never_fits_has_every_text(once: ProviderFixture) -> None:
    replies = [answer("tool", f'{{"words": -{number}}}') for number in (1, 2, 3)]
    failed = once.failure(*replies, agent={"output_schema": SCHEMA})
    assert (failed.type, failed.final) == ("InvalidAnswer", False)
    kept = [json.loads(line) for line in failed.log.decode().splitlines() if line.startswith("  {")]
    assert kept == [{"words": -1}, {"words": -2}, {"words": -3}]


def test_the_key_is_not_in_the_text_that_the_log_keeps(once: ProviderFixture) -> None:
    agent = {"output_schema": SCHEMA, "structured": "json_schema"}
    result = once.ask(Reply(f"Your key is {KEY}."), Reply('{"words": 1}'), agent=agent)
    assert b"Your key is" in result.log
    assert KEY.encode() not in result.log


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("calls", [1, 2, 5])
def test_an_answer_is_asked_for_again_within_max_model_calls(once: ProviderFixture, form: str, calls: int) -> None:
    agent = {"output_schema": SCHEMA, "structured": form, "max_model_calls": calls}
    failed = once.failure(answer(form, '{"words": -1}'), agent=agent)
    assert len(once.server.requests) == calls
    # Not times the retries of the step.
    assert (failed.type, failed.message, failed.final) == ("InvalidAnswer", MISMATCH, True)


def test_an_answer_that_fits_with_the_last_call_is_the_value(once: ProviderFixture) -> None:
    wrong = answer("tool", '{"words": -1}')
    agent = {"output_schema": SCHEMA, "max_model_calls": 5}
    assert once.ask(*[wrong] * 4, answer("tool", '{"words": 1}'), agent=agent).value == {"words": 1}


def test_calls_of_tools_count_among_the_calls_to_the_model(once: ProviderFixture) -> None:
    calling = Reply(calls=(ToolCall("list_files", {}),))
    failed = once.failure(calling, agent={"tools": ["files"], "max_model_calls": 3})
    assert (failed.type, failed.final, len(once.server.requests)) == ("ModelCallLimit", False, 3)
