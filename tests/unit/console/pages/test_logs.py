import asyncio
import re
from html import unescape
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from console.pages import logs
from console.visit import OPERATORS, FileDownload, PageEvents, View
from contract.refusals import Refusal
from tests.unit.console.seen import UNSEEN, MemoryServices, answered, html, roles_of
from workflow_api.v1.logs_pb2 import ListRunLogsResponse, RunLog, RunLogSummary, StreamRunLogsResponse
from workflow_api.v1.runs_pb2 import RUN_STATUS_COMPLETED, RUN_STATUS_RUNNING, Run, RunStatus, RunSummary

EVIL = f"<script>alert(1)</script>{UNSEEN}"
PAGE = "/runs/{run_id}/logs/{step}"
HERE = {"run_id": "run_1", "step": "count"}
BEGAN = Timestamp(seconds=1_790_000_000)


def run(status: RunStatus.ValueType) -> Run:
    return Run(summary=RunSummary(run_id="run_1", workflow_name="Digest", status=status))


def services(log: Any, *summaries: RunLogSummary, status: RunStatus.ValueType = RUN_STATUS_RUNNING) -> MemoryServices:
    return MemoryServices(
        {
            "RunsService/GetRun": run(status),
            "LogsService/GetRunLog": log,
            "LogsService/ListRunLogs": ListRunLogsResponse(items=summaries),
        }
    )


def summary(last_part: int, **fields: Any) -> RunLogSummary:
    return RunLogSummary(**{"step": "count", "attempt": 1, "began_at": BEGAN, "last_part": last_part, **fields})


def test_only_operators_read_logs() -> None:
    assert (
        roles_of("GET", PAGE) == roles_of("GET", f"{PAGE}/stream") == roles_of("GET", f"{PAGE}/download") == OPERATORS
    )


def test_a_log_is_shown_escaped_with_its_attempts_and_followed_while_the_run_goes_on() -> None:
    backend = services(RunLog(log=summary(3, attempt=2), text=f"printed {EVIL}", attempts=2, cut=True))
    page = html(answered(backend, "GET", PAGE, HERE))
    assert "printed &lt;script" in page
    assert EVIL not in page
    assert 'href="/runs/run_1/logs/count?attempt=1"' in page
    assert f"before={len('printed ') + len(EVIL)}" in page
    assert 'data-stream="/runs/run_1/logs/count/stream?seen=2-3-False"' in page
    (request,) = backend.asked("LogsService/GetRunLog")
    assert (request.HasField("attempt"), request.tail_chars) == (False, logs.END_CHARS)


@pytest.mark.parametrize("query", [{}, {"q": "evil"}], ids=str)
def test_a_log_shows_the_characters_that_turn_text_around(query: dict[str, str]) -> None:
    backend = services(RunLog(log=summary(3), text="approved\u202edevil evil\u202c", attempts=1))
    page = html(answered(backend, "GET", PAGE, HERE, query=query))
    assert "⟨U+202E⟩" in page
    assert "\u202e" not in page


def test_the_attempt_and_what_is_before_the_end_are_asked_for_by_the_query() -> None:
    ended = summary(3, ended_at=BEGAN, size_bytes=200_000)
    backend = services(RunLog(log=ended, text="a" * 60_000 + "b" * 60_000, attempts=1), status=RUN_STATUS_COMPLETED)
    page = html(answered(backend, "GET", PAGE, HERE, query={"attempt": "1", "before": "60000"}))
    assert "200 kB" in page
    assert "data-stream" not in page
    assert ("a" * 60_000 in page, "b" * 60 in page) == (True, False)
    assert 'href="/runs/run_1/logs/count?attempt=1">show what follows' in page
    assert "show what is before" not in page
    (request,) = backend.asked("LogsService/GetRunLog")
    assert (request.attempt, request.tail_chars) == (1, 120_000)


@pytest.mark.parametrize("filler", ["<", "😀x\n"])
@pytest.mark.parametrize("query", [{}, {"before": "940000"}, {"q": "<"}, {"q": "x"}])
def test_a_page_of_the_longest_log_has_at_most_100_kb_and_every_character_is_on_one(
    query: dict[str, str], filler: str
) -> None:
    log = (filler * 1_000_000)[-1_000_000:]
    backend = services(None)
    backend.answers["LogsService/GetRunLog"] = lambda asked: RunLog(
        log=summary(3), text=log[-(asked.tail_chars or 1_000_000) :], cut=True, attempts=1
    )
    page = html(answered(backend, "GET", PAGE, HERE, query=query))
    assert len(page.encode()) < 100_000
    if not query:
        before = int(re.findall(r"before=([0-9]+)", page)[0])
        shown = page.partition('aria-label="Log">\n')[2].partition("</pre>")[0]
        assert len(unescape(shown)) == before


def test_why_a_log_is_not_shown_is_said() -> None:
    page = html(answered(services(RunLog(log=summary(0, problem="It could not be swept."))), "GET", PAGE, HERE))
    assert "It could not be swept." in page


def test_a_step_that_printed_nothing_is_a_sentence() -> None:
    empty = RunLog(log=RunLogSummary(step="count", attempt=1), attempts=1)
    assert "Nothing was printed." in html(answered(services(empty), "GET", PAGE, HERE))


@pytest.mark.parametrize(
    ("query", "refusal", "message"),
    [
        ({"attempt": "x"}, None, "An attempt is a whole number from 1."),
        ({}, Refusal("run_not_found", "No such run."), "No such run."),
        (
            {"attempt": "9"},
            Refusal("invalid_request", details=[{"name": "attempt", "reason": "must be at most 1"}]),
            "attempt must be at most 1",
        ),
    ],
)
def test_an_unknown_run_step_or_attempt_is_reported(query: dict[str, str], refusal: Any, message: str) -> None:
    answer = answered(services(refusal), "GET", PAGE, HERE, query=query)
    assert isinstance(answer, View)
    assert answer.status == 404
    assert message in html(answer)


def test_updates_come_when_the_step_has_printed_and_end_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "POLL_SECONDS", 0.0)
    parts = [1, 1, 2, 2]
    backend = services(None)
    backend.answers["LogsService/ListRunLogs"] = lambda _: ListRunLogsResponse(
        items=[summary(9, step="other"), summary(parts[0])]
    )

    def get_run(_: Any) -> Run:
        if len(parts) > 1:
            parts.pop(0)
            return run(RUN_STATUS_RUNNING)
        return run(RUN_STATUS_COMPLETED)

    backend.answers["RunsService/GetRun"] = get_run
    stream = answered(backend, "GET", f"{PAGE}/stream", HERE, query={"seen": "1-1-False"})
    assert isinstance(stream, PageEvents)

    async def everything() -> list[tuple[str, str]]:
        return [event async for event in stream.events]

    assert asyncio.run(everything()) == [("refresh", "1-2-False")]


def test_a_search_shows_the_lines_that_hold_the_text_escaped() -> None:
    log = RunLog(log=summary(3), text=f"first\nthe {EVIL} here\n", attempts=1)
    backend = services(log)
    page = html(answered(backend, "GET", PAGE, HERE, query={"q": "script", "wrap": "no"}))
    assert "2  the &lt;<mark>script</mark>&gt;alert(1)" in page
    assert "first" not in page
    assert 'class="plain log nowrap"' in page
    assert "data-stream" not in page
    assert backend.asked("LogsService/GetRunLog")[0].HasField("tail_chars") is False


def test_no_log_is_downloaded_for_what_is_no_attempt() -> None:
    found = answered(services(RunLog()), "GET", f"{PAGE}/download", HERE, query={"attempt": "x"})
    assert isinstance(found, View)
    assert found.status == 404


def test_a_log_is_downloaded_whole() -> None:
    backend = services(RunLog(log=summary(3, attempt=2), attempts=2))
    backend.streams["LogsService/StreamRunLogs"] = [StreamRunLogsResponse(text="one\n")]
    found = answered(backend, "GET", f"{PAGE}/download", HERE)
    assert isinstance(found, FileDownload)
    assert (found.file_name, found.media_type) == ("run_1-count-2.log", "text/plain")


def test_the_messages_of_the_model_have_a_page_beside_the_log() -> None:
    log = RunLog(log=summary(3, attempt=2), text="gpt-5: 1 tokens in", attempts=2, has_transcript=True)
    page = html(answered(services(log), "GET", PAGE, HERE))
    assert 'href="/runs/run_1/logs/count?of=model&amp;attempt=2">Messages of the model</a>' in page
    without = RunLog(log=summary(3), text="printed", attempts=1)
    assert "Messages of the model" not in html(answered(services(without), "GET", PAGE, HERE))


def test_the_page_of_messages_is_escaped_followed_and_stays_with_the_messages() -> None:
    found = RunLog(log=summary(3, attempt=2), text=f"--- answer\n  {EVIL}", attempts=2, cut=True, has_transcript=True)
    backend = services(found)
    page = html(answered(backend, "GET", PAGE, HERE, query={"of": "model"}))
    assert "Messages of the model of step count" in page
    assert EVIL not in page
    assert 'data-stream="/runs/run_1/logs/count/stream?of=model&amp;seen=2-3-False"' in page
    assert 'href="/runs/run_1/logs/count?of=model&amp;attempt=1"' in page
    assert 'href="/runs/run_1/logs/count/download?of=model&amp;attempt=2"' in page
    assert '<input type="hidden" name="of" value="model">' in page
    assert 'href="/runs/run_1/logs/count?attempt=2">Log</a>' in page
    (request,) = backend.asked("LogsService/GetRunLog")
    assert request.transcript


def test_the_messages_are_followed_and_downloaded_as_a_file_of_their_own() -> None:
    backend = services(RunLog(log=summary(3, attempt=2), attempts=2), summary(3), status=RUN_STATUS_COMPLETED)
    backend.streams["LogsService/StreamRunLogs"] = [StreamRunLogsResponse(text="one\n")]
    found = answered(backend, "GET", f"{PAGE}/download", HERE, query={"of": "model"})
    assert isinstance(found, FileDownload)
    assert found.file_name == "run_1-count-2-model.txt"
    stream = answered(backend, "GET", f"{PAGE}/stream", HERE, query={"of": "model", "seen": ""})
    assert isinstance(stream, PageEvents)

    async def everything() -> list[tuple[str, str]]:
        return [event async for event in stream.events]

    assert asyncio.run(everything()) == [("refresh", "1-3-False")]
    (request,) = backend.asked("LogsService/ListRunLogs")
    assert request.transcript


def test_a_step_without_messages_is_a_sentence() -> None:
    empty = RunLog(log=RunLogSummary(step="count", attempt=1), attempts=1)
    page = html(answered(services(empty), "GET", PAGE, HERE, query={"of": "model"}))
    assert "No messages of a model are kept." in page
