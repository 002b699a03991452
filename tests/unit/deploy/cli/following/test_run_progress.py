from typing import Any

import pytest

from deploy.cli.following.run_progress import RunProgress
from deploy.cli.output.records import RawJson


def event(kind: str, step: str | None, second: int, data: str = "{}") -> dict[str, Any]:
    return {"type": kind, "step": step, "at": f"2026-09-24T10:00:{second:02}.000+00:00", "data": RawJson(data)}


def test_without_a_terminal_each_change_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunProgress(["count", "review"])
    with progress.shown():
        progress.on_event(event("run.started", None, 0))
        progress.on_event(event("step.started", "count", 1))
        progress.on_event(event("step.progress", "count", 2, '{"message": "half\\nway \\u001b[2J"}'))
        progress.on_event(event("step.failed", "count", 4, '{"message": "ValueError: no"}'))
        progress.on_event(event("approval.requested", "review", 5))
        progress.on_event(event("approval.decided", "review", 8, '{"decision": "rejected"}'))
        progress.on_event(event("warning", None, 9, '{"message": "late"}'))
    assert [line.split() for line in capsys.readouterr().err.splitlines()] == [
        ["count", "running"],
        ["count", "half", "way", "\\x1b[2J"],
        ["count", "failed", "3.0", "s", "ValueError:", "no"],
        ["review", "waiting_for_approval"],
        ["review", "blocked", "3.0", "s"],
        ["warning:", "late"],
    ]


def test_steps_without_an_event_are_shown_in_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunProgress(["count", "after"])
    progress.on_steps(
        [
            {"step": "count", "status": "pending", "duration_ms": None},
            {"step": "after", "status": "cancelled", "duration_ms": 40},
        ]
    )
    assert capsys.readouterr().err.split() == ["after", "cancelled", "40", "ms"]


def test_an_attempt_after_the_first_has_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunProgress(["count"])
    with progress.shown():
        progress.on_event(event("step.started", "count", 1, '{"attempt": 1}'))
        progress.on_event(event("step.started", "count", 2, '{"attempt": 2}'))
    lines = [line.split() for line in capsys.readouterr().err.splitlines()]
    assert lines == [["count", "running"], ["count", "running", "attempt", "2"]]


def test_a_failure_says_when_it_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunProgress(["count"])
    data = '{"message": "no", "attempt": 1, "retry_at": "2026-09-24T10:00:04.500+00:00"}'
    with progress.shown():
        progress.on_event(event("step.started", "count", 1, '{"attempt": 1}'))
        progress.on_event(event("step.failed", "count", 2, data))
    assert capsys.readouterr().err.splitlines()[1].split("  ")[-1] == "attempt 2 in 2.5 s: no"


def test_quiet_progress_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunProgress(["count"], quiet=True)
    with progress.shown():
        progress.on_event(event("step.started", "count", 1))
        progress.write("log")
    assert capsys.readouterr().err == ""
