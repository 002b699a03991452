import asyncio
import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from backend.runtime.agents import Limits, StepFailed, run_python_step, run_step
from backend.settings import StepDataLimits
from tests.support.answers import value_in_process
from tests.support.poll import until
from tests.unit.backend.isolation.sandbox.layers import in_every_layer, opened
from tests.unit.backend.isolation.sandbox.steps import Steps


@in_every_layer
def test_context_gives_what_the_run_was_started_with(steps: Steps, tmp_path: Path) -> None:
    (tmp_path / "inputs" / "documents").mkdir(parents=True)
    (tmp_path / "inputs" / "documents" / "a.txt").write_text("alpha")
    value = steps.run(
        """
        def run(context):
            return {
                "parameters": context.parameters,
                "input_text": context.input_text,
                "needs": context.needs,
                "inputs": [p.relative_to(context.inputs).as_posix() for p in sorted(context.inputs.rglob("*.txt"))],
                "folders": [context.workspace.is_dir(), context.outputs.is_dir()],
            }
        """,
        parameters={"language": "fr", "pages": 3},
        input_text="Ünïcode\ntext",
        needs={"count": {"words": 7}},
        inputs=tmp_path / "inputs",
    )
    assert value == {
        "parameters": {"language": "fr", "pages": 3},
        "input_text": "Ünïcode\ntext",
        "needs": {"count": {"words": 7}},
        "inputs": ["documents/a.txt"],
        "folders": [True, True],
    }


@in_every_layer
def test_a_run_without_inputs_has_an_empty_folder(steps: Steps) -> None:
    assert steps.run("def run(context): return [str(p) for p in context.inputs.iterdir()]") == []


@pytest.mark.parametrize("value", [None, True, 0, -(2**63), 2**64 - 1, 1.5, "é\U0001f600", [], {"a": [{"b": None}]}])
def test_a_json_value_comes_back_as_it_is(steps: Steps, value: object) -> None:
    assert steps.run(f"def run(context): return {value!r}") == value


def test_a_return_value_of_100_levels_is_kept_and_one_deeper_fails(steps: Steps) -> None:
    code = """
        def run(context):
            value = {}
            for _ in range(context.parameters["levels"] - 1):
                value = [value, "[\\"["]
            return value
    """
    assert json.dumps(steps.run(code, parameters={"levels": 100})).startswith("[" * 99 + "{")
    for levels in (101, 2500, 100_000):
        with pytest.raises(StepFailed) as failed:
            steps.run(code, parameters={"levels": levels})
        assert (failed.value.type, failed.value.message) == (
            "InvalidResult",
            "the return value is nested more than 100 levels deep",
        )


def test_an_event_of_100_levels_is_kept(steps: Steps) -> None:
    """Its data is the first of them."""
    code = "def run(context):\n    y = []\n    for _ in range(98): y = [y]\n    context.progress('x', y=y)"
    steps.run(code)
    assert json.dumps(steps.events[0][1]).count("[") == 99


def test_async_run_is_awaited(steps: Steps) -> None:
    code = """
        import asyncio
        async def run(context):
            first, second = await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0.01, 2))
            return first + second
    """
    assert steps.run(code) == 3


def test_a_fresh_interpreter_imports_asyncio_only_for_an_async_run(tmp_path: Path) -> None:
    code = "import sys\ndef run(context): return sorted({'asyncio', 'socket'} & set(sys.modules))"
    with opened("bwrap, not forked") as sandbox:
        assert Steps(sandbox, tmp_path).run(code) == []


def test_progress_arrives_in_order_with_its_data(steps: Steps) -> None:
    steps.run(
        """
        def run(context):
            context.progress("reading", file="a.txt", done=0.5)
            context.progress("writing")
        """
    )
    assert steps.events == [("reading", {"file": "a.txt", "done": 0.5}), ("writing", {})]


@in_every_layer
def test_progress_holds_the_step_up_until_it_is_recorded(steps: Steps) -> None:
    recorded = []

    async def on_progress(message: str, data: dict[str, object]) -> None:
        await asyncio.sleep(0.01)
        recorded.append(message)

    request = steps.request("def run(context):\n    for n in range(5): context.progress(str(n))")
    asyncio.run(run_python_step(steps.sandbox, request, on_progress, value_in_process))
    assert recorded == ["0", "1", "2", "3", "4"]


def test_the_clock_of_a_step_stands_while_progress_is_recorded(steps: Steps) -> None:
    limits = Limits(memory_mb=256, timeout_seconds=1, workspace_mb=4)

    async def on_progress(message: str, data: dict[str, object]) -> None:
        late = time.monotonic() + limits.timeout_seconds
        await asyncio.to_thread(until, lambda: time.monotonic() > late, "the end of its time")

    request = steps.request("def run(context):\n    context.progress('a')\n    return 1", limits=limits)
    assert asyncio.run(run_python_step(steps.sandbox, request, on_progress, value_in_process)).value == 1


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("context.progress(7)", "a progress message is a string"),
        ("context.progress('x' * 2001)", "at most 2000 characters"),
        ("context.progress('x', y=object())", "progress data must be JSON"),
        ("y = []\n    for _ in range(99): y = [y]\n    context.progress('x', y=y)", "more than 100 levels deep"),
        (
            "d = []\n    for _ in range(5000): d = [d]\n    context.progress('x', y=d)",
            "nested more than 100 levels deep",
        ),
    ],
)
def test_bad_progress_is_refused_in_the_step(steps: Steps, call: str, reason: str) -> None:
    with pytest.raises(StepFailed, match=reason) as failed:
        steps.run(f"def run(context):\n    {call}")
    assert failed.value.type == "ValueError"


def test_connector_gives_what_is_declared(steps: Steps) -> None:
    value = steps.run(
        """
        def run(context):
            inbox = context.connector("inbox")
            return [inbox.name, inbox.type, inbox.bucket, inbox.prefixes, sorted(vars(inbox))]
        """,
        connectors={"inbox": {"type": "s3", "bucket": "contracts", "prefixes": ["incoming/"], "secret": "x"}},
    )
    assert value == ["inbox", "s3", "contracts", ["incoming/"], ["bucket", "name", "prefixes", "type"]]


def test_a_connector_that_is_not_declared_is_refused(steps: Steps) -> None:
    with pytest.raises(StepFailed, match=r"the step declares no connector 'other' \(declared: inbox\)"):
        steps.run("def run(context): context.connector('other')", connectors={"inbox": {"type": "s3"}})


def test_what_the_step_prints_is_its_log(steps: Steps) -> None:
    _, log = steps.run_logged(
        """
        import subprocess, sys
        def run(context):
            print("on stdout \\N{SNOWMAN}")
            print("on stderr", file=sys.stderr)
            subprocess.run(["echo", "from a child"])
        """
    )
    assert log.decode().splitlines() == ["on stdout ☃", "on stderr", "from a child"]


def test_a_huge_log_is_cut_and_does_not_hold_the_step_up(steps: Steps) -> None:
    value, log = steps.run_logged(
        """
        def run(context):
            for _ in range(8 * 1024):
                print("x" * 1023)
            return "done"
        """
    )
    assert value == "done"
    assert len(log) == 1024 * 1024
    head, cut, tail = re.split(rb"\n\[(\d+) bytes of the log are cut here\]\n", log)
    assert len(head) + int(cut) + len(tail) == 8 * 1024 * 1024
    assert abs(len(head) - len(tail)) <= 1


def test_a_long_log_keeps_its_end_with_the_traceback(steps: Steps) -> None:
    with pytest.raises(StepFailed, match="boom") as raised:
        steps.run(
            """
            def run(context):
                print("the beginning")
                print("x" * 100_000)
                print("the end", flush=True)
                raise ValueError("boom")
            """,
            data_limits=StepDataLimits(log_bytes=4_096),
        )
    failure = raised.value
    assert len(failure.log) <= 4_096
    assert failure.log.startswith(b"the beginning\nx")
    assert re.search(rb"\[\d+ bytes of the log are cut here\]\nx+\nthe end\nTraceback", failure.log)
    assert failure.log.endswith(b"ValueError: boom\n")


@in_every_layer
def test_steps_at_once_share_no_outputs_events_or_results(steps: Steps) -> None:
    async def all_at_once() -> list[int]:
        requests = [
            steps.request(
                "def run(context):\n"
                "    (context.outputs / 'n').write_text(str(context.parameters['n']))\n"
                "    context.progress('half')\n"
                "    return context.parameters['n']",
                parameters={"n": n},
            )
            for n in range(20)
        ]
        results = await asyncio.gather(
            *(run_python_step(steps.sandbox, request, steps.on_progress, value_in_process) for request in requests)
        )
        assert [(request.outputs / "n").read_text() for request in requests] == [str(n) for n in range(20)]
        return [result.value for result in results]

    assert asyncio.run(all_at_once()) == list(range(20))
    assert len(steps.events) == 20


@in_every_layer
def test_nothing_is_left_on_the_host(steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    steps.run(
        """
        import tempfile
        def run(context):
            (context.workspace / "left").write_text("x")
            tempfile.mkdtemp()
        """
    )
    assert list(temporary.iterdir()) == []
    assert not steps.sandbox.open_processes


def test_an_agent_type_without_a_runner_fails_the_step(steps: Steps) -> None:
    request = replace(steps.request(""), agent={"type": "abacus"})
    with pytest.raises(StepFailed, match="agents of type abacus are not available in this release"):
        asyncio.run(run_step(steps.deps, request, steps.on_progress))


def test_steps_run_on_the_services_own_kind_of_loop(steps: Steps) -> None:
    request = steps.request("def run(context):\n    (context.outputs / 'a').write_bytes(bytes(10**6))\n    return 1")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(run_python_step(steps.sandbox, request, steps.on_progress, value_in_process)).value == 1
    assert steps.files() == {"a": bytes(10**6)}


def test_the_python_type_runs_python_steps(steps: Steps) -> None:
    request = steps.request("def run(context): return 1")
    assert asyncio.run(run_step(steps.deps, request, steps.on_progress)).value == 1


@in_every_layer
def test_files_of_needed_steps_are_read_and_not_written(steps: Steps) -> None:
    folder = steps.root / "kept"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.txt").write_text("left")
    seen = steps.run(
        """
        def run(context):
            try:
                (context.files / "first" / "b.txt").write_text("new")
                written = True
            except OSError:
                written = False
            names = sorted(path.name for path in context.files.iterdir())
            return [(context.files / "first" / "deep" / "a.txt").read_text(), names, written]
        """,
        needs={"first": 1, "second": None},
        files={"first": folder},
    )
    assert seen[:2] == ["left", ["first", "second"]]
    if steps.sandbox.layer.guarded is not None:
        assert seen[2] is False
        assert not (folder / "b.txt").exists()
