import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from backend.common.json_text import parse_strict_replacing_nul
from backend.runtime.agents import StepFailed, python_agent, run_python_step
from backend.runtime.agents.base import event_budget
from backend.runtime.agents.progress import dropped_warning, limit_progress
from backend.settings import StepDataLimits
from tests.support.answers import value_in_process
from tests.unit.backend.isolation.sandbox.steps import Steps


def run(steps: Steps, code: str, limits: StepDataLimits) -> dict[str, Any] | None:
    """The warning about what an attempt dropped."""
    budget = event_budget(limits)
    request = replace(steps.request(code), data_limits=limits, events=budget)
    try:
        asyncio.run(run_python_step(steps.sandbox, request, steps.on_progress, value_in_process))
    finally:
        steps.warning = dropped_warning(budget, limits)
    return steps.warning


def test_events_beyond_the_limit_are_dropped_and_counted(steps: Steps) -> None:
    warning = run(
        steps,
        """
        def run(context):
            for n in range(10_100):
                context.progress("n")
        """,
        StepDataLimits(),
    )
    assert len(steps.events) == 10_000
    message = "Progress events of this attempt were dropped: 100 after the first 10000."
    assert warning == {"message": message, "dropped": 100, "exact": True}


def test_event_data_beyond_the_limit_is_dropped_and_counted_small_events_too(steps: Steps) -> None:
    warning = run(
        steps,
        """
        def run(context):
            for n in range(200):
                context.progress("n", text="x" * 1_000)
            context.progress("small")
        """,
        StepDataLimits(event_data_bytes=100_000),
    )
    kept = sum(len(data["text"]) for _, data in steps.events)
    assert 90_000 < kept <= 100_000
    assert warning is not None
    assert warning["dropped"] == 201 - len(steps.events)
    assert warning["message"].endswith("after 100000 bytes of data.")


def test_an_event_that_is_too_large_is_dropped_alone_and_counted(steps: Steps) -> None:
    warning = run(
        steps,
        """
        def run(context):
            context.progress("before")
            for n in range(3):
                context.progress("large", text="x" * 65_536)
            context.progress("after")
        """,
        StepDataLimits(),
    )
    assert [message for message, _ in steps.events] == ["before", "after"]
    message = "Progress events of this attempt were dropped: 3 with more than 65536 bytes of data."
    assert warning == {"message": message, "dropped": 3, "exact": True}


def test_an_attempt_within_its_limits_has_no_warning(steps: Steps) -> None:
    assert (
        run(steps, "def run(context):\n    for n in range(5): context.progress('n')", StepDataLimits(events=5)) is None
    )
    assert len(steps.events) == 5


def test_a_failed_attempt_counts_what_it_dropped(steps: Steps) -> None:
    code = "def run(context):\n    for n in range(9): context.progress('n')\n    raise ValueError('no luck')"
    with pytest.raises(StepFailed, match="no luck"):
        run(steps, code, StepDataLimits(events=2))
    assert steps.warning is not None
    assert (steps.warning["dropped"], steps.warning["exact"]) == (7, True)


def test_a_killed_attempt_counts_at_least_half_of_what_it_dropped(steps: Steps) -> None:
    code = "import os\ndef run(context):\n    for n in range(102): context.progress('n')\n    os.kill(os.getpid(), 9)"
    with pytest.raises(StepFailed):
        run(steps, code, StepDataLimits(events=2))
    message = "Progress events of this attempt were dropped: at least 64 after the first 2."
    assert steps.warning == {"message": message, "dropped": 64, "exact": False}


def test_events_of_many_threads_are_all_counted(steps: Steps) -> None:
    code = """
        import threading
        def run(context):
            def report():
                for n in range(100):
                    context.progress("n", text="x" * (n % 7))
            threads = [threading.Thread(target=report) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    """
    warning = run(steps, code, StepDataLimits(events=300))
    assert warning is not None
    assert (len(steps.events), warning["dropped"]) == (300, 500)


def test_a_thread_that_goes_on_reporting_disturbs_no_result(steps: Steps) -> None:
    code = """
        import threading
        def run(context):
            def report():
                while True:
                    context.progress("n")
            thread = threading.Thread(target=report, daemon=True)
            thread.start()
            (context.outputs / "a").write_bytes(bytes(1_000_000))
            return "done"
    """
    run(steps, code, StepDataLimits(events=10))
    assert steps.files() == {"a": bytes(1_000_000)}


def test_progress_of_an_agent_in_this_process_is_within_the_same_limits() -> None:
    events: list[str] = []
    budget = event_budget(StepDataLimits(events=2, event_bytes=300))
    report = limit_progress(budget, lambda message, _: events.append(message))
    for message in ("a", "x" * 300, "b", "c"):
        report(message, {})
    assert events == ["a", "b"]
    assert budget.dropped == {"event_bytes": 1, "events": 1, "event_data_bytes": 0}


def test_what_is_long_is_parsed_off_the_loop_and_in_its_turn(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[tuple[str, int]] = []
    parse_strict, main = parse_strict_replacing_nul, threading.get_ident()

    def spy(payload: bytes) -> Any:
        where = "loop" if threading.get_ident() == main else "thread"
        parsed.append((where, len(payload)))
        return parse_strict(payload)

    monkeypatch.setattr(python_agent, "parse_strict_replacing_nul", spy)
    code = """
        def run(context):
            for n in range(9):
                context.progress(str(n), lists=[[]] * (n % 3 * 4_000))
    """
    assert run(steps, code, StepDataLimits()) is None
    assert [message for message, _ in steps.events] == [str(n) for n in range(9)]
    assert [where for where, _ in parsed] == ["loop", "thread", "thread"] * 3
    assert all(size <= 4_096 for where, size in parsed if where == "loop")
