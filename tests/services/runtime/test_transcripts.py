"""Messages of models inside whole runs: one transcript for each attempt and item, swept and erased with the run."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from backend.common.secrets import Secrets
from backend.runtime.execution import step_log
from backend.services.logs.servicer import Logs, LogsServicer
from backend.services.logs.sql import RETENTION
from backend.settings import ModelProvider
from tests.services.calls import Caller, RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.support.poll import until
from workflow_api.v1 import logs_pb2

MAIL = "jane.roe@example.com"
POLICY = {"mode": "redact", "stages": ["outputs"]}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


@pytest.fixture
def asking(
    idle_world: RuntimeWorld, server: OpenAIServer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RuntimeWorld]:
    monkeypatch.setattr(step_log, "LIVE_SECONDS", 0.1)
    runtime = idle_world.new_runtime(
        tmp_path / "data",
        secrets=Secrets({"ours": "env:OURS"}, {"OURS": "sk-planted-9b2e61"}),
        models={"openai": ModelProvider("ours", server.base_url)},
    )
    runtime.start()
    yield idle_world
    runtime.stop()


def agent(world: RuntimeWorld, **fields: Any) -> None:
    declared = {"kind": "Agent", "name": "asker", "type": "llm", "model": "openai:gpt-5", "instructions": "Be brief."}
    world.apply(json.dumps(declared | {"keep_transcript": True} | fields))


class Reader:
    """A person who reads transcripts."""

    def __init__(self, world: RuntimeWorld) -> None:
        self._logs = Logs(world.services, world.objects)
        self._call = Caller(LogsServicer(self._logs), logs_pb2.DESCRIPTOR.services_by_name["LogsService"])

    def get(self, run_id: str, step: str = "ask", **fields: Any) -> logs_pb2.RunLog:
        request = logs_pb2.GetRunLogRequest(run_id=run_id, step=step, transcript=True, **fields)
        answer: logs_pb2.RunLog = self._call("GetRunLog", request)
        return answer

    def listed(self, run_id: str, **fields: Any) -> list[tuple[str, int]]:
        request = logs_pb2.ListRunLogsRequest(run_id=run_id, **{"transcript": True} | fields)
        return [(log.step, log.attempt) for log in self._call("ListRunLogs", request).items]

    def stream(self, run_id: str, **fields: Any) -> str:
        request = logs_pb2.StreamRunLogsRequest(run_id=run_id, transcript=True, **fields)
        return "".join(part.text for part in self._logs.stream(request, lambda: True))

    def log(self, run_id: str) -> logs_pb2.RunLog:
        answer: logs_pb2.RunLog = self._call("GetRunLog", logs_pb2.GetRunLogRequest(run_id=run_id, step="ask"))
        return answer


@pytest.fixture
def reader(asking: RuntimeWorld) -> Reader:
    return Reader(asking)


def test_each_attempt_has_a_transcript_beside_its_log(
    asking: RuntimeWorld, server: OpenAIServer, reader: Reader
) -> None:
    server.will(Reply(status=500), Reply("Two words."))
    agent(asking)
    steps = [agent_step("ask", "asker", retry={"attempts": 2, "backoff_seconds": 0})]
    run_id = asking.run("Asks", steps, input_text="one two")
    assert asking.until_ended(run_id).status == "completed"
    assert reader.listed(run_id) == [("ask", 1), ("ask", 2)]
    first, second = reader.get(run_id, attempt=1), reader.get(run_id)
    assert "--- user\n  <input_text>\n  one two\n" in first.text
    assert "--- answer" not in first.text
    assert "--- answer\n  Two words.\n" in second.text
    assert (second.log.attempt, second.attempts, second.has_transcript) == (2, 2, True)
    assert reader.stream(run_id) == first.text + second.text
    assert reader.stream(run_id, step="ask", attempt=2) == second.text
    # The log is as it was.
    assert "Two words." not in reader.log(run_id).text
    assert reader.log(run_id).has_transcript


def test_without_keep_transcript_nothing_is_kept(asking: RuntimeWorld, reader: Reader) -> None:
    agent(asking, keep_transcript=False)
    run_id = asking.run("Asks", [agent_step("ask", "asker")])
    assert asking.until_ended(run_id).status == "completed"
    assert reader.listed(run_id) == []
    assert (reader.get(run_id).text, reader.get(run_id).has_transcript) == ("", False)
    assert asking.count("step_transcripts") == asking.count("step_transcript_parts") == 0


def test_a_streamed_answer_is_read_while_it_arrives(asking: RuntimeWorld, server: OpenAIServer, reader: Reader) -> None:
    server.will(Reply("word " * 2_000, pause=0.05))
    agent(asking, stream=True)
    run_id = asking.run("Asks", [agent_step("ask", "asker")])
    until(lambda: "word word" in reader.get(run_id).text, "the beginning of the answer")
    assert asking.board(run_id)["ask"] == "running"
    asking.cancel(run_id)
    assert asking.until_ended(run_id).status == "cancelled"
    # What came stays.
    assert "word word" in reader.get(run_id).text


def test_items_of_a_fan_out_have_their_own(asking: RuntimeWorld, reader: Reader) -> None:
    agent(asking)
    step = agent_step("ask", "asker", for_each="[1, 2]")
    run_id = asking.run("Asks of each", [step])
    assert asking.until_ended(run_id).status == "completed"
    assert sorted(reader.listed(run_id)) == [("ask/0", 1), ("ask/1", 1)]
    assert '<item index="1">' in reader.get(run_id, "ask/1").text
    assert '<item index="0">' in reader.stream(run_id, step="ask/0")
    with pytest.raises(RefusedError):
        reader.get(run_id)


def test_transcripts_are_swept_by_the_policy(asking: RuntimeWorld, server: OpenAIServer, reader: Reader) -> None:
    server.will(Reply(calls=(ToolCall("read_input", {"path": MAIL}),)), Reply(f"I wrote to {MAIL}."))
    agent(asking, tools=["inputs"])
    run_id = asking.run(
        "Asks", [agent_step("ask", "asker")], input_text=f"Write to {MAIL}.", workflow={"pii_policy": POLICY}
    )
    assert asking.until_ended(run_id).status == "completed"
    text = reader.get(run_id).text
    assert "I wrote to [EMAIL_ADDRESS]." in text
    assert "Write to [EMAIL_ADDRESS]." in text
    assert MAIL not in text
    assert asking.count("step_transcript_parts", f"text LIKE '%{MAIL}%'") == 0


def test_an_erasure_removes_transcripts(asking: RuntimeWorld, reader: Reader, tmp_path: Any) -> None:
    agent(asking)
    run_id = asking.run("Asks", [agent_step("ask", "asker")])
    assert asking.until_ended(run_id).status == "completed"
    stored = [path for path in tmp_path.rglob("*") if path.is_file() and "transcripts" in path.parts]
    assert stored, "the transcript is an object"
    asking.erase(run_id)
    assert asking.count("step_transcripts") == asking.count("step_transcript_parts") == 0
    until(lambda: not any(path.exists() for path in stored), "the removal of the object")
    with pytest.raises(RefusedError):
        reader.get(run_id)


def test_upkeep_deletes_the_parts_that_an_object_has_replaced(
    asking: RuntimeWorld, server: OpenAIServer, reader: Reader
) -> None:
    server.will(Reply("late", delay=2))
    agent(asking)
    run_id = asking.run("Asks", [agent_step("ask", "asker")])
    until(lambda: asking.count("step_transcript_parts"), "the parts of a transcript that goes on")
    assert asking.until_ended(run_id).status == "completed"
    before = reader.get(run_id).text
    (rule,) = RETENTION
    asking.services.database.write(lambda tx: rule.delete_batch(tx, asking.clock() + 600_001))
    assert asking.count("step_transcript_parts") == 0
    assert reader.get(run_id).text == before
