import asyncio
import json
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.common.secrets import how_to_set
from backend.runtime.agents import Limits, run_llm_step
from backend.settings import StepDataLimits
from tests.support.answers import mismatch_of_answer
from tests.support.openai_server import INPUT_TOKENS, OUTPUT_TOKENS, OpenAIServer, Reply, ToolCall
from tests.support.poll import until
from tests.unit.backend.runtime.agents.provider import KEY, ProviderFixture

REPOSITORY = Path(__file__).resolve().parents[5]
SCHEMA = {
    "type": "object",
    "properties": {"words": {"$ref": "#/$defs/count"}},
    "required": ["words"],
    "$defs": {"count": {"type": "integer", "minimum": 0}},
}
SHORT = Limits(memory_mb=1769, timeout_seconds=1, workspace_mb=512)


def answer(**value: Any) -> Reply:
    return Reply(calls=(ToolCall("final_result", value),))


@pytest.fixture(params=["openai:gpt-5", "openai-chat:gpt-5"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


@pytest.fixture
def asked(server: OpenAIServer, tmp_path: Path, model: str, stream: bool) -> ProviderFixture:
    asked = ProviderFixture(server, tmp_path, model, stream)
    asked.models.make(model, api_key="key")
    return asked


@pytest.fixture
def once(server: OpenAIServer, tmp_path: Path) -> ProviderFixture:
    """For rules that do not depend on how the provider answers."""
    asked = ProviderFixture(server, tmp_path)
    asked.models.make(asked.model, api_key="key")
    return asked


def test_a_text_answer_is_the_value_and_an_output_file(asked: ProviderFixture) -> None:
    result = asked.ask(Reply("A digest: naïve, 契約."), input_text="Digest this.")
    assert result.value == "A digest: naïve, 契約."
    assert (asked.root / "outputs" / "answer.md").read_text(encoding="utf-8") == result.value
    assert "Be brief." in json.dumps(asked.sent())
    assert asked.server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_structured_answer_is_the_value_and_an_output_file(asked: ProviderFixture) -> None:
    result = asked.ask(answer(words=3), agent={"output_schema": SCHEMA})
    assert result.value == {"words": 3}
    assert json.loads((asked.root / "outputs" / "answer.json").read_text()) == {"words": 3}


def test_an_answer_that_does_not_fit_is_corrected_by_the_model(asked: ProviderFixture) -> None:
    result = asked.ask(answer(words=-1), answer(words=1), agent={"output_schema": SCHEMA})
    assert result.value == {"words": 1}
    assert "-1 is less than the minimum of 0" in json.dumps(asked.sent())


def test_an_answer_that_never_fits_fails_the_step_naming_what_does_not(once: ProviderFixture) -> None:
    failed = once.failure(answer(words="many"), agent={"output_schema": SCHEMA})
    assert failed.type == "InvalidAnswer"
    assert failed.message == 'The answer does not fit its schema at $.words: "many" is not of type "integer"'
    assert len(once.server.requests) == 3


@pytest.mark.parametrize(
    ("reply", "agent", "message"),
    [
        (Reply("words"), {"output_schema": SCHEMA}, "The model gave no answer in the form of output_schema."),
        (Reply(""), {}, "The model gave no answer."),
    ],
)
def test_no_answer_fails_the_step(asked: ProviderFixture, reply: Reply, agent: dict[str, Any], message: str) -> None:
    failed = asked.failure(reply, agent=agent)
    assert (failed.type, failed.message) == ("InvalidAnswer", message)


def test_an_answer_that_was_cut_off_is_none(asked: ProviderFixture) -> None:
    assert asked.failure(Reply("half of", finish="length"), agent={"max_tokens": 16}).type == "ModelOutputTooLong"


def test_what_was_used_is_told_as_an_event_and_logged(asked: ProviderFixture) -> None:
    result = asked.ask(
        Reply(calls=(ToolCall("list_files", {}),)),
        Reply("done"),
        agent={"tools": ["files"]},
    )
    usage = {
        "model": asked.model,
        "requests": 2,
        "tool_calls": 1,
        "input_tokens": 2 * INPUT_TOKENS,
        "output_tokens": 2 * OUTPUT_TOKENS,
    }
    assert asked.events == [("model usage", usage)]
    first, second = result.log.decode().splitlines()
    assert first.startswith(f"gpt-5: {INPUT_TOKENS} tokens in, {OUTPUT_TOKENS} out, ")
    assert first.endswith("calls list_files")
    assert "calls" not in second


def test_what_was_used_is_told_of_a_step_that_fails_too(once: ProviderFixture) -> None:
    once.failure(Reply(calls=(ToolCall("list_files", {}),)), Reply(status=500), agent={"tools": ["files"]})
    assert [(message, data["requests"]) for message, data in once.events] == [("model usage", 1)]


@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_what_was_used_is_told_of_a_step_whose_first_call_fails(once: ProviderFixture, status: int) -> None:
    once.failure(Reply(status=status))
    none = dict.fromkeys(("requests", "tool_calls", "input_tokens", "output_tokens"), 0)
    assert once.events == [("model usage", {"model": once.model} | none)]


QUOTED = f"wrong key {KEY}"


@pytest.mark.parametrize(
    ("reply", "cause", "final"),
    [
        (Reply(status=403, message=QUOTED), "ModelUnauthorized", True),
        (Reply(status=404, message=QUOTED), "ModelNotFound", True),
        (Reply(status=400, message=QUOTED), "ModelRequestRejected", True),
        (Reply(status=400, message=QUOTED, code="context_length_exceeded"), "ModelInputTooLong", True),
        (Reply(status=429, message=QUOTED), "ModelRateLimited", False),
        (Reply(status=429, message=QUOTED, code="insufficient_quota"), "ModelQuotaExceeded", True),
        (Reply(status=500, message=QUOTED), "ModelServerError", False),
        (Reply(status=500, body=f"<html>{KEY}</html>".encode()), "ModelServerError", False),
        (Reply(status=503, message=QUOTED), "ModelUnavailable", False),
        (Reply(status=418, message=QUOTED), "ModelError", False),
    ],
)
def test_a_status_of_the_provider_fails_the_step_with_its_cause(
    once: ProviderFixture, reply: Reply, cause: str, final: bool
) -> None:
    assert_failed(once, reply, cause, final)


@pytest.mark.parametrize(
    ("reply", "cause", "final"),
    [
        (Reply(status=401, message=QUOTED), "ModelUnauthorized", True),
        (Reply(body=f'{{"{KEY}'.encode()), "ModelAnswerMalformed", False),
        (Reply(body=b"{}"), "ModelAnswerMalformed", False),
        (Reply(body=b"\xff\xfe"), "ModelAnswerMalformed", False),
        (Reply(body=b""), "ModelAnswerMalformed", False),
        (Reply("x" * 100, cut=True), "ModelUnreachable", False),
    ],
)
def test_a_malformed_answer_fails_the_step_with_its_cause(
    asked: ProviderFixture, reply: Reply, cause: str, final: bool
) -> None:
    assert_failed(asked, reply, cause, final)


def assert_failed(asked: ProviderFixture, reply: Reply, cause: str, final: bool) -> None:
    failed = asked.failure(reply)
    assert (failed.type, failed.final) == (cause, final), failed.message
    assert len(asked.server.requests) == 1, "the library does not try again on its own"
    if reply.status != 200:
        assert f"(HTTP {reply.status})" in failed.message


def test_what_the_provider_says_is_told_without_the_key(once: ProviderFixture) -> None:
    failed = once.failure(Reply(status=429, message=f"Slow down, {KEY}.", headers={"Retry-After": "7"}))
    assert failed.message == "the model's provider refused the call for its rate limit (HTTP 429): Slow down, [secret]."
    assert failed.retry_after == 7


@pytest.mark.parametrize("quoted", [KEY[:-1], KEY.upper(), f"{KEY[:6]} {KEY[6:]}"])
def test_what_the_provider_says_is_told_without_parts_of_the_key(once: ProviderFixture, quoted: str) -> None:
    failed = once.failure(Reply(status=400, message=f"Wrong key: {quoted}!"))
    assert failed.message == "the model's provider rejected the request (HTTP 400): Wrong key: [secret]!"


def test_a_key_at_the_cut_of_a_long_message_is_not_told_by_half(once: ProviderFixture) -> None:
    failed = once.failure(Reply(status=500, message="x" * 495 + KEY + "y" * 500))
    assert KEY[:5] not in failed.message
    assert len(failed.message) < 600


def test_a_server_that_is_not_there_is_told(once: ProviderFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    failed = once.failure(agent={"base_url": f"http://127.0.0.1:{port}/v1"})
    assert failed.type == "ModelUnreachable"
    assert failed.message == "the connection to the model's provider failed: it could not be opened"


def test_the_environment_bounds_the_whole_step(once: ProviderFixture) -> None:
    failed = once.failure(Reply("late", delay=3600), limits=SHORT)
    assert (failed.type, failed.message) == ("TimeLimit", "the step ran longer than its 1 seconds")
    assert once.took > 0.99


def test_many_short_calls_are_bounded_together(once: ProviderFixture) -> None:
    failed = once.failure(
        Reply(calls=(ToolCall("list_files", {}),), delay=0.3), agent={"tools": ["files"]}, limits=SHORT
    )
    assert failed.type == "TimeLimit"
    assert once.took > 0.99
    assert len(once.server.requests) > 1


def test_an_answer_that_trickles_is_ended_in_time(once: ProviderFixture) -> None:
    once.stream = True
    assert once.failure(Reply("x" * 1000, pause=0.1), limits=SHORT).type == "TimeLimit"
    assert once.took > 0.99


def test_one_call_may_have_a_time_of_its_own(once: ProviderFixture) -> None:
    failed = once.failure(Reply("late", delay=3600), agent={"request_timeout_seconds": 1})
    assert failed.type == "ModelTimeout"
    assert once.took > 0.99


def test_a_cancelled_step_ends_at_once(asked: ProviderFixture) -> None:
    asked.server.will(Reply("late", delay=3600))

    async def cancelled() -> None:
        task = asyncio.create_task(
            run_llm_step(asked.models, mismatch_of_answer, asked.request({}), asked.on_progress())
        )
        await asyncio.to_thread(until, lambda: asked.server.requests, "the request")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


def test_settings_reach_the_model(asked: ProviderFixture) -> None:
    asked.ask(
        Reply("ok"), agent={"max_tokens": 99, "temperature": 0.5, "model": asked.model.replace("gpt-5", "gpt-4o")}
    )
    sent = asked.sent()
    assert 99 in {sent.get("max_output_tokens"), sent.get("max_completion_tokens"), sent.get("max_tokens")}
    assert sent["temperature"] == 0.5
    assert bool(sent.get("stream")) == asked.stream


def test_a_long_streamed_answer_tells_how_much_has_come(once: ProviderFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.runtime.agents.llm_agent.SECONDS_BETWEEN_EVENTS", 0.0)
    once.stream = True
    once.ask(Reply("x" * 30))
    characters = [data["characters"] for message, data in once.events if message == "the model answers"]
    assert characters[-1] >= 23
    assert characters == sorted(characters)


@pytest.mark.parametrize("stream", [False, True], indirect=True)
def test_what_progress_raises_passes_through(
    once: ProviderFixture, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.runtime.agents.llm_agent.SECONDS_BETWEEN_EVENTS", 0.0)
    once.stream = stream
    once.server.will(Reply("x" * 30))

    def on_progress(message: str, data: dict[str, Any]) -> None:
        raise LookupError("the store is away")

    with pytest.raises(LookupError, match="the store is away"):
        asyncio.run(run_llm_step(once.models, mismatch_of_answer, once.request({}), on_progress))


def test_an_answer_that_cannot_be_stored_is_told(once: ProviderFixture) -> None:
    assert once.failure(Reply("a\0b")).type == "InvalidResult"


def test_a_schema_that_the_library_cannot_use_is_told(once: ProviderFixture) -> None:
    schema = {"type": "object", "properties": {"inner": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}
    failed = once.failure(agent={"output_schema": schema})
    assert (failed.type, failed.final) == ("InvalidAgent", True)


def test_an_agent_that_never_ends_its_calls_is_stopped(once: ProviderFixture) -> None:
    failed = once.failure(Reply(calls=(ToolCall("list_files", {}),)), agent={"tools": ["files"]})
    assert failed.type == "ModelCallLimit"
    assert failed.message == "the agent called model or tools more often than one step may"
    assert len(once.server.requests) == 50


@pytest.mark.parametrize("reply", [Reply("fine"), Reply(status=401, message=QUOTED)])
def test_no_line_of_the_log_holds_the_key(
    asked: ProviderFixture, reply: Reply, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG):
        if reply.text:
            asked.ask(reply)
        else:
            asked.failure(reply)
    assert caplog.records, "the libraries did log"
    assert KEY not in caplog.text
    assert KEY not in "".join(capfd.readouterr())


def test_the_model_reads_inputs_files_and_connectors_by_its_tools(asked: ProviderFixture) -> None:
    inputs = asked.root / "inputs"
    (inputs / "documents").mkdir(parents=True)
    (inputs / "documents" / "a.txt").write_text("from the inputs")
    files = asked.root / "kept"
    files.mkdir()
    (files / "b.txt").write_text("from a step")
    given: dict[str, Any] = {"inputs": inputs, "files": {"first": files}}
    agent = {"tools": ["inputs", "files", "connectors"]}
    for call, result in (
        (ToolCall("list_inputs", {}), "documents/a.txt"),
        (ToolCall("read_input", {"path": "documents/a.txt"}), "from the inputs"),
        (ToolCall("list_files", {"prefix": "first/"}), "first/b.txt"),
        (ToolCall("read_file", {"path": "first/b.txt"}), "from a step"),
        (ToolCall("read_input", {"path": "documents/../../kept/b.txt"}), "there is no such file"),
        (ToolCall("list_connector_objects", {"connector": "x"}), "the step declares no such connector"),
    ):
        asked.ask(Reply(calls=(call,)), Reply("done"), agent=agent, **given)
        assert result in asked.tool_result()


def test_a_connector_whose_secret_is_missing_fails_the_step(once: ProviderFixture) -> None:
    inbox: dict[str, Any] = {"bucket": "docs", "prefixes": [], "endpoint_url": None, "role_arn": None}
    call = Reply(calls=(ToolCall("list_connector_objects", {"connector": "inbox", "prefix": "in/"}),))
    failed = once.failure(call, agent={"tools": ["connectors"]}, connectors={"inbox": inbox | {"secret": "theirs"}})
    assert (failed.type, failed.final) == ("SecretUnavailable", True)
    assert failed.message == f"connector 'inbox': this deployment has no secret named 'theirs': {how_to_set('theirs')}"


def test_only_the_declared_tools_are_offered(once: ProviderFixture) -> None:
    once.ask(Reply("done"), agent={"tools": ["inputs"]})
    assert sorted(tool["name"] for tool in once.sent()["tools"]) == ["list_inputs", "read_input"]
    once.ask(Reply("done"))
    assert not once.sent().get("tools")


@pytest.mark.long
def test_the_first_use_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    """The library is imported beside the loop: a process of its own sees the first use."""
    run = subprocess.run(
        [sys.executable, "-c", FIRST_USE, str(tmp_path)], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert json.loads(run.stdout) == {"imported_by": ["beside the loop"], "answer": "Hello."}


FIRST_USE = """
import asyncio, json, sys, threading
from pathlib import Path
from backend.runtime.agents import run_llm_step
from tests.support.answers import mismatch_of_answer
from tests.support.openai_server import OpenAIServer
from tests.unit.backend.runtime.agents.provider import ProviderFixture

class Importers:
    threads = set()

    def find_spec(self, name, path, target=None):
        if name == "pydantic_ai":
            on_loop = threading.current_thread() is threading.main_thread()
            self.threads.add("on the loop" if on_loop else "beside the loop")

async def main():
    server = OpenAIServer()
    asked = ProviderFixture(server, Path(sys.argv[1]))
    sys.meta_path.insert(0, Importers())
    result = await run_llm_step(asked.models, mismatch_of_answer, asked.request({}), asked.on_progress())
    server.close()
    print(json.dumps({"imported_by": sorted(Importers.threads), "answer": result.value}))

asyncio.run(main())
"""


@pytest.mark.parametrize("levels", [101, 150, 1_000])
def test_an_answer_that_is_nested_too_deep_fails_the_step(once: ProviderFixture, levels: int) -> None:
    """Deeper than some 200 levels the library itself takes it for no answer."""
    deep: Any = 1
    for _ in range(levels - 1):
        deep = [deep]
    calls = [Reply(calls=(ToolCall("final_result", {"deep": deep}),))] * 3
    failure = once.failure(*calls, agent={"output_schema": {"type": "object"}})
    if levels < 200:
        message = "the model's answer is nested more than 100 levels deep"
        assert (failure.type, failure.message) == ("InvalidResult", message)


def test_an_answer_beyond_the_limit_of_bytes_fails_the_step(once: ProviderFixture) -> None:
    failure = once.failure(Reply("x" * 2_000), data_limits=StepDataLimits(result_bytes=1_024))
    assert failure.message == "the model's answer is larger than 1024 bytes of JSON"
