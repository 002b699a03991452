"""Standard streams of steps behave as those of plain Python, in a fork and in an interpreter of its own."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.runtime.agents import StepFailed
from tests.unit.backend.isolation.sandbox.layers import opened
from tests.unit.backend.isolation.sandbox.steps import Steps

KEPT = {
    "TextIOWrapper": "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8'); print('é')",
    "TextIOWrapper of stderr": "sys.stderr = io.TextIOWrapper(sys.stderr.buffer); print('a', file=sys.stderr)",
    "with an order": "print('a'); sys.stdout = io.TextIOWrapper(sys.stdout.buffer); print('b')",
    "a wrapper collected": "wrapper = io.TextIOWrapper(sys.stdout.buffer); del wrapper; gc.collect()",
    "a wrapper closed": "wrapper = io.TextIOWrapper(sys.stdout.buffer); wrapper.write('a'); wrapper.close()",
    "a wrapper beside": "wrapper = io.TextIOWrapper(sys.stdout.buffer); wrapper.write('a')",
    "getwriter": "sys.stdout = codecs.getwriter('utf-8')(sys.stdout.buffer); print('é')",
    "reconfigure": "sys.stdout.reconfigure(encoding='latin-1', line_buffering=False); print('é', end='')",
    "detach": "sys.stdout = io.TextIOWrapper(sys.stdout.detach()); print('a')",
    "__stdout__": "print('a', file=sys.__stdout__)",
    "__stderr__": "print('a', file=sys.__stderr__)",
    "restored": "sys.stdout = io.StringIO(); print('a'); sys.stdout = sys.__stdout__; print('b')",
    "removed": "sys.stdout = None; print('a'); sys.__stdout__.write('b')",
    "deleted": "del sys.stdout",
    "closed": "print('a'); sys.stdout.close(); sys.stderr.close()",
    "without flush": "sys.stdout = types.SimpleNamespace(write=sys.stdout.write); print('a')",
    "with a flush that raises": "sys.stdout = types.SimpleNamespace(flush=lambda: 1 / 0)",
    "by the descriptor": "file = open(1, 'w'); file.write('a'); file.close()",
    "bytes": "sys.stdout.buffer.write(b'a')",
    "logging": "logging.basicConfig(stream=sys.stdout); logging.warning('a')",
    "names": "print(sys.stdout.name, sys.stderr.name, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__)",
}
RAISED = {
    "wrapped twice": "for _ in 'ab': sys.stdout = io.TextIOWrapper(sys.stdout.buffer)\nprint('a')",
    "print after close": "sys.stdout.close(); print('a')",
    "print after a wrapper closed": "io.TextIOWrapper(sys.stdout.buffer).close(); print('a')",
    "print after the descriptor closed": "open(1, 'w').close(); print('a')",
    "an encoding without the character": "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, 'ascii'); print('é')",
    "an error under a wrapper": "sys.stdout = io.TextIOWrapper(sys.stdout.buffer); raise LookupError('mine')",
}


@pytest.fixture(scope="module", params=["bwrap", "bwrap, not forked"])
def each_start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    with opened(request.param) as sandbox:
        yield Steps(sandbox, tmp_path_factory.mktemp("steps"))


def agent(body: str) -> str:
    imports = "import codecs, gc, io, logging, sys, types\n"
    return f"{imports}def run(context):\n{textwrap.indent(body, '    ')}\n"


def plain(body: str, tmp_path: Path) -> subprocess.CompletedProcess[bytes]:
    """Runs the same function in plain Python, with one pipe for both streams, as a step has."""
    program = tmp_path / "program.py"
    program.write_text(f"{agent(body)}run(None)\n", encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-X", "utf8", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )


@pytest.mark.parametrize("name", KEPT)
def test_a_step_prints_as_plain_python_does(each_start: Steps, tmp_path: Path, name: str) -> None:
    value, log = each_start.run_logged(agent(KEPT[name]))

    assert value is None
    printed = plain(KEPT[name], tmp_path).stdout
    if "flush" in name:
        # Python says at its end that it could not flush; the step has its result by then.
        printed = printed.partition(b"Exception ignored")[0]
    assert log.decode("latin-1") == printed.decode("latin-1")


@pytest.mark.parametrize("name", RAISED)
def test_a_stream_fails_in_a_step_with_the_error_of_plain_python(each_start: Steps, tmp_path: Path, name: str) -> None:
    with pytest.raises(StepFailed) as failed:
        each_start.run(agent(RAISED[name]))

    process = plain(RAISED[name], tmp_path)
    assert process.returncode
    assert str(failed.value).encode() in process.stdout or b"lost sys.stderr" in process.stdout
