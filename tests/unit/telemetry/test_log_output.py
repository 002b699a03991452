"""Lines of a process, and the thread that writes them."""

import fcntl
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise

import pytest

from telemetry.log_output import DROPPED_LINES, MOST_LINES, Clock, LogOutput, LogWriter
from tests.support.poll import until


def test_a_field_without_a_value_is_in_neither_form() -> None:
    fields = {"run_id": "run_1", "key_id": None, "reason": "", "steps": ["one"], "ms": 0}
    output = LogOutput(os.open(os.devnull, os.O_WRONLY), "edge")
    output.set_format("json", colour=False)
    line = json.loads(output.line("info", "edge.requests", "request", "GET /me 200", fields))
    assert {name: line[name] for name in line.keys() & fields.keys()} == {"run_id": "run_1", "steps": ["one"], "ms": 0}
    output.set_format("text", colour=False)
    text = output.line("info", "edge.requests", "request", "GET /me 200", fields)
    assert text.endswith(b"  GET /me 200  run_id=run_1 steps=['one'] ms=0\n")


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_line_with_a_long_traceback_is_written_to_a_pipe_at_once(form: str) -> None:
    output = LogOutput(os.open(os.devnull, os.O_WRONLY), "edge")
    output.set_format(form, colour=False)
    exception = "\n".join(f"  /opt/workflow-api/lib/module_{number}.py:{number} function" for number in range(500))
    line = output.line("error", "contract.refusals", "message", "A request failed", {"request_id": "req_1"}, exception)
    assert len(line) <= select.PIPE_BUF
    assert b"module_0.py" in line
    assert b"module_499.py" in line


def test_a_time_has_milliseconds_of_its_second() -> None:
    clock = Clock()
    assert [clock(seconds) for seconds in (0.0, 0.001, 1_790_000_000.25, 0.5)] == [
        "1970-01-01T00:00:00.000+00:00",
        "1970-01-01T00:00:00.001+00:00",
        "2026-09-21T14:13:20.250+00:00",
        "1970-01-01T00:00:00.500+00:00",
    ]


class Pipe:
    """A pipe, and the writers to it; both ends are open until they are closed."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self._open = {self.reading, self.writing}
        self._writers: list[LogWriter] = []

    def writer(self, on_dropped: Callable[[int], bytes], most_lines: int = MOST_LINES) -> LogWriter:
        self._writers.append(LogWriter(self.writing, on_dropped, most_lines))
        return self._writers[-1]

    def close_reading(self) -> None:
        self._close(self.reading)

    def close_writing(self) -> None:
        self._close(self.writing)

    def close(self) -> None:
        # A thread that still writes fails then, and so ends what it waits for.
        self.close_reading()
        for writer in self._writers:
            writer.flush(10)
            writer.close()
        self.close_writing()

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    with closing(Pipe()) as pipe:
        yield pipe


SEVERAL_LINES = """
import sys
from telemetry.log_output import LogWriter

writer = LogWriter(2, lambda count: b"")
for number in range(3000):
    writer.write_soon(b'{"process": %s, "number": %d, "filler": "%s"}\\n' % (sys.argv[1].encode(), number, b"x" * 300))
writer.flush(60)
"""


def test_who_logs_never_waits_for_a_pipe_that_nobody_reads(pipe: Pipe) -> None:
    fcntl.fcntl(pipe.writing, fcntl.F_SETPIPE_SZ, 4096)
    writer = pipe.writer(lambda count: b"dropped %d\n" % count, most_lines=100)
    lines = [b"%04d %s\n" % (number, b"x" * 994) for number in range(1000)]
    for line in lines:
        writer.write(line)

    read = bytearray()

    def all_read() -> bool:
        read.extend(os.read(pipe.reading, 65_536))
        return read.endswith(b"\n") and len(written_lines(read)) + dropped_lines(read) == len(lines)

    until(all_read, "every line, or the count of those that were dropped")
    written = written_lines(read)
    assert 100 <= len(written) < 1000
    assert set(written) <= set(lines)
    assert all(one < other for one, other in pairwise(written))


def written_lines(read: bytearray) -> list[bytes]:
    return [line for line in bytes(read).splitlines(keepends=True) if not line.startswith(b"dropped")]


def dropped_lines(read: bytearray) -> int:
    return sum(int(line.split()[1]) for line in bytes(read).splitlines() if line.startswith(b"dropped "))


def test_lines_of_several_processes_on_one_pipe_stay_whole(pipe: Pipe) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", SEVERAL_LINES, str(number)], stderr=pipe.writing) for number in range(3)
    ]
    pipe.close_writing()
    with os.fdopen(pipe.reading, closefd=False) as reader:
        lines = [json.loads(line) for line in reader]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    for number in range(3):
        assert [line["number"] for line in lines if line["process"] == number] == list(range(3000))


def test_lines_for_a_reader_that_has_gone_are_counted_as_dropped(pipe: Pipe) -> None:
    pipe.close_reading()
    writer = pipe.writer(lambda _: b"dropped\n")
    before = DROPPED_LINES.collect().samples[0].value
    for line in (b"one\n", b"another\n"):
        writer.write(line)
    until(lambda: DROPPED_LINES.collect().samples[0].value >= before + 2, "both lines to be counted")
