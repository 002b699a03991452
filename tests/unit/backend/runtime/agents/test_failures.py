import asyncio

import pytest

from backend.runtime.agents import Limits, StepFailed, run_python_step
from tests.support.answers import value_in_process
from tests.unit.backend.isolation.sandbox.layers import in_every_layer
from tests.unit.backend.isolation.sandbox.steps import Steps

SMALL = Limits(memory_mb=256, timeout_seconds=60, workspace_mb=4)


def failure(steps: Steps, code: str, limits: Limits = SMALL) -> StepFailed:
    with pytest.raises(StepFailed) as failed:
        steps.run(code, limits=limits)
    assert not steps.outputs.exists()
    return failed.value


@in_every_layer
def test_an_exception_is_told_by_type_and_message_and_logged_with_its_traceback(steps: Steps) -> None:
    failed = failure(
        steps,
        """
        def check(row):
            raise ValueError("bad row")
        def run(context):
            print("before")
            check(3)
        """,
    )
    assert (failed.type, failed.message) == ("ValueError", "ValueError: bad row")
    log = failed.log.decode()
    assert log.startswith("before\nTraceback (most recent call last):")
    assert 'File "agent.py", line 6, in run' in log
    assert "    check(3)" in log
    assert "runner" not in log


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise KeyError('x')", "KeyError: 'x'"),
        ("raise RuntimeError", "RuntimeError"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("raise ValueError('a\\0b\\ud800c')", "ValueError: a\ufffdb?c"),
        ("raise ValueError('x' * 5000)", "ValueError: " + "x" * 2000),
        ("raise type('Odd', (Exception,), {'__str__': lambda s: 1 / 0})()", "Odd"),
    ],
)
def test_any_exception_is_worded(steps: Steps, body: str, message: str) -> None:
    assert failure(steps, f"def run(context): {body}").message == message


def test_code_that_does_not_compile_is_told_with_its_line(steps: Steps) -> None:
    assert failure(steps, "\ndef run(context:\n").message == "SyntaxError: '(' was never closed (agent.py, line 2)"


def test_code_without_run_is_told(steps: Steps) -> None:
    assert failure(steps, "ran = 1").message == "the agent's code defines no function run(context)"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("{1, 2}", "is not JSON at $: it is of type set; return text, numbers, lists and dicts"),
        ("float('nan')", "is not JSON at $: nan is no number of JSON; return None or a text"),
        ("float('inf')", "is not JSON at $: inf is no number of JSON; return None or a text"),
        ("{1: 'a', '1': 'b'}", "is not JSON: the keys 1 and '1' of a mapping are both written as '1'"),
        ("[{True: 'a', 'true': 'b'}]", "is not JSON: the keys True and 'true' of a mapping are both written as 'true'"),
        ("'\\ud800'", "is not JSON: 'utf-8' codec can't encode"),
        ("'a\\0b'", "holds the character U+0000, which cannot be stored"),
        ("'x' * (9 * 1024 * 1024)", "is larger than 8388608 bytes of JSON"),
        ("(lambda a: (a.append(a), a)[1])([])", "is not JSON: Circular reference detected"),
        (
            "__import__('functools').reduce(lambda a, _: [a], range(5000), 0)",
            "is nested more than 100 levels deep",
        ),
    ],
)
def test_a_return_value_that_cannot_be_kept_is_told(steps: Steps, value: str, reason: str) -> None:
    failed = failure(steps, f"def run(context): return {value}")
    assert failed.type == "InvalidResult"
    assert failed.message.startswith(f"the return value {reason}")


@in_every_layer
@pytest.mark.parametrize(
    "loop", ["while True: pass", "__import__('time').sleep(3600)", "input() or __import__('time').sleep(3600)"]
)
def test_a_step_that_runs_too_long_is_ended_in_time(steps: Steps, loop: str) -> None:
    code = f"def run(context):\n    try:\n        {loop}\n    except EOFError:\n        __import__('time').sleep(3600)"
    failed = failure(steps, code, Limits(memory_mb=256, timeout_seconds=1, workspace_mb=4))
    assert (failed.type, failed.message) == ("TimeLimit", "the step ran longer than its 1 seconds")


def test_time_spent_on_outputs_counts(steps: Steps) -> None:
    """A step that announces a file and never sends it is ended like any other."""
    code = """
        import os, stat, time
        def run(context):
            fd = next(n for n in range(3, 4096)
                      if os.path.exists(f"/proc/self/fd/{n}") and stat.S_ISSOCK(os.fstat(n).st_mode))
            announced = b'{"folder":"outputs","path":"a","size":1000}'
            os.write(fd, bytes([4]) + len(announced).to_bytes(4, "big") + announced)
            time.sleep(3600)
    """
    assert failure(steps, code, Limits(256, 1, 4)).type == "TimeLimit"


@in_every_layer
def test_a_step_that_needs_too_much_memory_is_told(steps: Steps) -> None:
    failed = failure(steps, "def run(context): return len(bytearray(512 * 1024 * 1024))")
    assert failed.type == "MemoryLimit"
    assert failed.message == "the step needs more memory than its environment's memory_mb of 256"
    assert b"MemoryError" in failed.log


@in_every_layer
def test_memory_that_fills_up_slowly_is_told_too(steps: Steps) -> None:
    failed = failure(steps, "kept = []\ndef run(context):\n    while True: kept.append(bytearray(1000))")
    assert failed.type == "MemoryLimit"


@in_every_layer
@pytest.mark.parametrize("folder", ["workspace", "outputs"])
def test_a_file_larger_than_the_workspace_is_told(steps: Steps, folder: str) -> None:
    failed = failure(steps, f"def run(context):\n    (context.{folder} / 'x').write_bytes(bytes(5 * 1024 * 1024))")
    assert failed.type == "WorkspaceLimit"
    assert failed.message == "the step's workspace is full: its environment's workspace_mb is 4, outputs included"


@in_every_layer
def test_outputs_larger_together_than_the_workspace_are_told(steps: Steps) -> None:
    failed = failure(
        steps,
        "def run(context):\n    for name in 'abc': (context.outputs / name).write_bytes(bytes(2 * 1024 * 1024))",
    )
    assert failed.type == "WorkspaceLimit"


@in_every_layer
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("os._exit(0)", "the step's process ended with exit status 0 before run(context) returned"),
        ("os._exit(7)", "the step's process ended with exit status 7 before run(context) returned"),
        ("os.abort()", "the step's process died of SIGABRT before run(context) returned"),
        (
            "os.kill(os.getpid(), 9)",
            "the step's process was killed, most likely for want of memory (memory_mb is 256)",
        ),
        ("os.kill(os.getpid(), signal.SIGXCPU)", "the step ran longer than its 60 seconds"),
    ],
)
def test_a_process_that_dies_is_told_by_how(steps: Steps, body: str, message: str) -> None:
    assert failure(steps, f"import os, signal\ndef run(context):\n    {body}").message == message


def test_an_output_name_beyond_utf8_is_told(steps: Steps) -> None:
    failed = failure(steps, "import os\ndef run(context): open(os.fsencode(context.outputs) + b'/a\\xff', 'w')")
    assert (failed.type, failed.message) == ("InvalidOutputs", "the name of 'a\\udcff' in context.outputs is not UTF-8")


def test_an_output_path_that_is_too_long_is_told(steps: Steps) -> None:
    failed = failure(
        steps,
        "def run(context):\n    deep = context.outputs / '/'.join(['d' * 200] * 6)\n    deep.mkdir(parents=True)\n"
        "    (deep / 'f').touch()",
    )
    assert failed.type == "InvalidOutputs"
    assert "longer than 1024 bytes" in failed.message


@in_every_layer
def test_a_sandbox_that_cannot_start_fails_the_step(steps: Steps) -> None:
    """The inputs folder vanished: bubblewrap refuses to bind it, a bare process never sees it."""
    if steps.sandbox.layer.name == "none":
        assert steps.run("def run(context): return context.inputs.exists()", inputs=steps.root / "gone") is False
        return
    with pytest.raises(StepFailed, match=r"the step's sandbox (did not start|could not be started)") as failed:
        steps.run("def run(context): return 1", inputs=steps.root / "gone")
    assert b"gone" in failed.value.log


@in_every_layer
def test_what_progress_raises_passes_through_and_ends_the_step(steps: Steps) -> None:
    def on_progress(message: str, data: dict[str, object]) -> None:
        raise TimeoutError("the store is away")

    request = steps.request("import time\ndef run(context):\n    context.progress('x')\n    time.sleep(3600)")
    with pytest.raises(TimeoutError, match="the store is away"):
        asyncio.run(run_python_step(steps.sandbox, request, on_progress, value_in_process))
    assert not steps.sandbox.open_processes
