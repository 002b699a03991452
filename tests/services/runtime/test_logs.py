"""Logs of steps: read while they run, whole at their end, swept by the run's policy, and erased with the run."""

import json
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.runtime.execution import step_log
from backend.services.logs.servicer import Logs, LogsServicer
from backend.services.logs.sql import RETENTION
from backend.services.runs import lifecycle
from backend.settings import ModelProvider
from tests.services.calls import Caller, RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.support.poll import until
from workflow_api.v1 import logs_pb2

MAIL = "jane.roe@example.com"
AGENTS = {
    "speaker": """
        import sys, time
        def run(context):
            print("first line")
            print("to standard error", file=sys.stderr)
            while not (context.parameters.get("until") == "now"):
                print("tick", flush=True)
                time.sleep(0.05)
    """,
    "buggy": """
        import logging
        def total(rows):
            return sum(row["amuont"] for row in rows)
        def run(context):
            logging.getLogger("digest").warning("about to add")
            print("attempt", context.attempt)
            return total([{"amount": 1}])
    """,
    "leaky": f"""
        import time
        def run(context):
            print("Write to {MAIL}")
            print("and call", end=" ")
            print("202-555-0143 today", flush=True)
            time.sleep(context.parameters.get("seconds", 0))
            raise ValueError("{MAIL} is unknown")
    """,
    "loud": """
        def run(context):
            for number in range(40_000):
                print(f"{number:06d} " + "x" * 60)
    """,
    "silent": """
        def run(context):
            return 1
    """,
    "odd": r"""
        import os
        def run(context):
            os.write(1, b"a\x00b \xff z\xc3\xbcrich\n")
            os.write(1, b"no line end")
    """,
}
PARAMETERS = {"parameters": [{"name": "until", "type": "string"}, {"name": "seconds", "type": "number"}]}


@pytest.fixture(autouse=True)
def _agents(idle_world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_log, "LIVE_SECONDS", 0.1)
    idle_world.apply(
        "\n---\n".join(
            json.dumps({"kind": "Agent", "name": name, "type": "python", "code": textwrap.dedent(code)})
            for name, code in AGENTS.items()
        )
    )


class Reader:
    """A person who reads logs."""

    def __init__(self, world: RuntimeWorld) -> None:
        self.logs = Logs(world.services, world.objects)
        self.call = Caller(LogsServicer(self.logs), logs_pb2.DESCRIPTOR.services_by_name["LogsService"])

    def get(self, run_id: str, step: str = "main", **fields: Any) -> logs_pb2.RunLog:
        answer: logs_pb2.RunLog = self.call("GetRunLog", logs_pb2.GetRunLogRequest(run_id=run_id, step=step, **fields))
        return answer

    def text(self, run_id: str, step: str = "main", **fields: Any) -> str:
        return self.get(run_id, step, **fields).text

    def listed(self, run_id: str) -> list[logs_pb2.RunLogSummary]:
        return list(self.call("ListRunLogs", logs_pb2.ListRunLogsRequest(run_id=run_id)).items)

    def stream(self, run_id: str, **fields: Any) -> list[logs_pb2.StreamRunLogsResponse]:
        request = logs_pb2.StreamRunLogsRequest(run_id=run_id, **fields)
        return list(self.logs.stream(request, lambda: True))


@pytest.fixture
def reader(world: RuntimeWorld) -> Reader:
    return Reader(world)


class Follower(threading.Thread):
    """Follows a run in a thread."""

    def __init__(self, reader: Reader, run_id: str, **fields: Any) -> None:
        super().__init__(daemon=True)
        self._logs = reader.logs
        self._request = logs_pb2.StreamRunLogsRequest(run_id=run_id, follow=True, **fields)
        self.parts: list[logs_pb2.StreamRunLogsResponse] = []
        self.start()

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)

    def run(self) -> None:
        for part in self._logs.stream(self._request, lambda: True):
            self.parts.append(part)


@pytest.fixture
def follow(reader: Reader) -> Iterator[Any]:
    yield lambda run_id, **fields: Follower(reader, run_id, **fields)
    reader.logs.end()


def started(world: RuntimeWorld, agent: str, parameters: dict[str, Any] | None = None, **workflow: Any) -> str:
    steps = workflow.pop("steps", [agent_step("main", agent)])
    return world.run(f"Log {agent}", steps, workflow={**PARAMETERS, **workflow}, parameters=parameters or {})


def test_what_a_step_prints_is_read_while_it_runs_and_followed_to_its_end(
    world: RuntimeWorld, reader: Reader, follow: Any
) -> None:
    run_id = started(world, "speaker")
    until(lambda: "tick" in reader.text(run_id), "the live log")
    assert reader.text(run_id).startswith("first line\n")
    assert "to standard error\n" in reader.text(run_id)
    (log,) = reader.listed(run_id)
    assert not log.HasField("ended_at")
    follower = follow(run_id)
    until(lambda: follower.text.count("tick") > 5, "the followed log")
    world.cancel(run_id)
    world.until_ended(run_id)
    follower.join(30)
    assert not follower.is_alive()
    assert {(part.step, part.attempt) for part in follower.parts} == {("main", 1)}
    assert reader.text(run_id) == follower.text, "of a step that was killed, too"


def test_the_traceback_of_a_failure_is_in_the_log_of_its_attempt(world: RuntimeWorld, reader: Reader) -> None:
    retry = {"attempts": 2, "backoff_seconds": 0}
    run_id = started(world, "buggy", steps=[agent_step("main", "buggy", retry=retry)])
    world.until_ended(run_id)
    assert [(log.step, log.attempt) for log in reader.listed(run_id)] == [("main", 1), ("main", 2)]
    log = reader.get(run_id)
    assert (log.log.attempt, log.attempts) == (2, 2)
    assert log.text.startswith("about to add\nattempt 2\nTraceback")
    assert 'return sum(row["amuont"] for row in rows)' in log.text or "in total" in log.text
    assert log.text.endswith("KeyError: 'amuont'\n")
    assert log.log.size_bytes == len(log.text.encode())
    assert "attempt 1\n" in reader.text(run_id, attempt=1)
    assert [part.attempt for part in reader.stream(run_id)] == [1, 2]
    assert [part.attempt for part in reader.stream(run_id, step="main", attempt=2)] == [2]


@pytest.mark.parametrize("stages", [["inputs"], ["outputs"]])
def test_nothing_unswept_is_shown_or_stored_where_the_policy_redacts(
    world: RuntimeWorld, reader: Reader, follow: Any, stages: list[str]
) -> None:
    run_id = started(world, "leaky", {"seconds": 1.5}, pii_policy={"mode": "redact", "stages": stages})
    follower = follow(run_id)
    until(lambda: "today" in reader.text(run_id), "the live log")
    assert reader.text(run_id).startswith("Write to [EMAIL_ADDRESS]\nand call [PHONE_NUMBER] today\n")
    assert world.count("step_log_parts", f"text LIKE '%{MAIL}%'") == 0
    world.until_ended(run_id)
    follower.join(30)
    text = reader.text(run_id)
    assert text.endswith("ValueError: [EMAIL_ADDRESS] is unknown\n")
    assert MAIL not in text + follower.text
    assert follower.text == text
    stored = world.stored_below(f"runs/{run_id}/logs") / "main-1"
    assert MAIL.encode() not in stored.read_bytes()


def test_a_policy_that_detects_changes_no_log(world: RuntimeWorld, reader: Reader) -> None:
    run_id = started(world, "leaky", pii_policy={"mode": "detect"})
    world.until_ended(run_id)
    assert MAIL in reader.text(run_id)


def test_a_log_that_cannot_be_swept_is_not_shown_and_says_why(
    world: RuntimeWorld, reader: Reader, own_redactor: ConfinedRedactor
) -> None:
    run_id = started(world, "leaky", {"seconds": 1}, pii_policy={"mode": "redact", "stages": ["inputs"]})
    until(lambda: reader.listed(run_id), "the live log")
    own_redactor.close()
    world.until_ended(run_id)
    log = reader.get(run_id)
    assert log.text == ""
    assert log.log.problem == "The log could not be swept for personal data, so it is not shown: the service ends."
    assert [part.problem for part in reader.stream(run_id)] == [log.log.problem]
    assert world.count("step_log_parts") == 0


def test_a_long_log_keeps_its_beginning_and_its_end_within_a_mebibyte(world: RuntimeWorld, reader: Reader) -> None:
    run_id = started(world, "loud")
    world.until_ended(run_id)
    log = reader.get(run_id, tail_chars=1_000_000)
    assert log.log.size_bytes <= 1024 * 1024
    assert log.cut
    assert log.text.endswith("039999 " + "x" * 60 + "\n")
    whole = "".join(part.text for part in reader.stream(run_id))
    assert whole.startswith("000000 x")
    assert "bytes of the log are cut here]" in whole
    assert len(whole.encode()) == log.log.size_bytes
    assert world.count("step_log_parts", "length(text) > 0") * 32_768 < 3_000_000
    assert len(reader.text(run_id, tail_chars=100)) == 100


def test_bytes_that_are_no_text_are_replaced(world: RuntimeWorld, reader: Reader) -> None:
    run_id = started(world, "odd")
    world.until_ended(run_id)
    assert reader.text(run_id).replace("\0", "\ufffd") == "a\ufffdb \ufffd z\u00fcrich\nno line end"


def test_a_log_of_a_step_that_was_quick_leaves_no_parts(world: RuntimeWorld, reader: Reader) -> None:
    run_id = started(world, "odd")
    world.until_ended(run_id)
    assert (world.count("step_logs"), world.count("step_log_parts")) == (1, 0)
    assert reader.text(run_id) == "".join(part.text for part in reader.stream(run_id))


def test_where_the_policy_asks_a_model_the_log_is_swept_once_and_its_calls_count(
    world: RuntimeWorld, tmp_path: Path
) -> None:
    server = OpenAIServer()
    server.will(Reply(calls=(ToolCall("final_result", {"mentions": []}),)))
    world.local_runtime.stop()
    again = world.new_runtime(tmp_path / "again", models={"openai-chat": ModelProvider(base_url=server.base_url)})
    again.start()
    try:
        policy = {"mode": "redact", "stages": ["inputs"], "model": "openai-chat:any", "max_model_calls": 50}
        run_id = started(world, "leaky", {"seconds": 1}, pii_policy=policy)
        world.until_ended(run_id)
        asked = len(server.requests)
        assert MAIL not in Reader(world).text(run_id)
    finally:
        again.stop()
        server.close()
    assert world.count("step_log_parts") == 0
    counts = json.loads(world.row(run_id).pii_redaction or "{}")["counts"]
    assert (counts["model_calls"], counts["values"]) == (asked, 0)
    assert asked > 0


def test_what_a_killed_process_had_written_can_be_read(world: RuntimeWorld, reader: Reader) -> None:
    run_id = started(world, "speaker")
    until(lambda: "tick" in reader.text(run_id), "the live log")
    world.services.database.write(
        lambda tx: lifecycle.close_run(tx, run_id, "failed", world.clock(), error_code="orphaned")
    )
    assert "tick" in "".join(part.text for part in reader.stream(run_id, follow=True))


def test_an_attempt_that_printed_nothing_has_no_log(world: RuntimeWorld, reader: Reader) -> None:
    run_id = started(world, "silent")
    world.until_ended(run_id)
    assert reader.listed(run_id) == []
    assert reader.text(run_id) == ""
    assert reader.stream(run_id, follow=True) == []


def test_parts_go_once_the_stored_log_has_replaced_them(world: RuntimeWorld, reader: Reader) -> None:
    run_id = started(world, "leaky", {"seconds": 1})
    world.until_ended(run_id)
    before = reader.text(run_id)
    assert world.count("step_log_parts") > 0
    (rule,) = RETENTION
    world.services.database.write(lambda tx: rule.delete_batch(tx, world.clock() + 600_000))
    assert world.count("step_log_parts") > 0, "whoever follows may still read them"
    world.services.database.write(lambda tx: rule.delete_batch(tx, world.clock() + 600_001))
    assert world.count("step_log_parts") == 0
    assert reader.text(run_id) == before


def test_an_erasure_takes_the_logs_with_it(world: RuntimeWorld, reader: Reader) -> None:
    run_id = started(world, "buggy")
    world.until_ended(run_id)
    world.erase(run_id)
    assert world.count("step_logs") == world.count("step_log_parts") == 0
    until(lambda: not world.stored_below(f"runs/{run_id}/").exists(), "the removal")
    with pytest.raises(RefusedError) as caught:
        reader.get(run_id)
    assert caught.value.reason == "not_found"


def test_bad_input_says_what_is_allowed(world: RuntimeWorld, reader: Reader) -> None:
    steps = [agent_step("main", "silent"), gate("review", "main"), agent_step("late", "silent", "review")]
    run_id = started(world, "silent", steps=steps)
    world.until_status(run_id, "waiting_for_approval")
    cases: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({"step": "mian"}, {"step": "must be one of the steps that agents carry out: main, late"}),
        ({"step": "review"}, {"step": "must be one of the steps that agents carry out: main, late"}),
        (
            {"step": "main", "attempt": 2},
            {"attempt": "must be at most 1, for so many attempts of step 'main' have begun"},
        ),
        (
            {"step": "late", "attempt": 1},
            {"attempt": "must be left out, for no attempt of step 'late' have begun"},
        ),
        ({"step": "main", "attempt": 0}, {"attempt": "must be an integer of at least 1"}),
    ]
    for fields, problems in cases:
        with pytest.raises(RefusedError) as caught:
            reader.get(run_id, **fields)
        assert (caught.value.reason, caught.value.problems) == ("invalid_request", problems)
    with pytest.raises(RefusedError) as caught:
        reader.get("run_none")
    assert caught.value.reason == "run_not_found"
