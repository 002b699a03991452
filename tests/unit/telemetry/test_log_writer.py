"""The thread that writes log lines."""

import fcntl
import json
import os
import subprocess
import sys
from itertools import pairwise

from telemetry.log_writer import LogWriter
from tests.support.poll import until

SEVERAL_LINES = """
import sys
from telemetry.log_writer import LogWriter

writer = LogWriter(2, lambda count: b"")
for number in range(3000):
    writer.write_soon(b'{"process": %s, "number": %d, "filler": "%s"}\\n' % (sys.argv[1].encode(), number, b"x" * 300))
writer.flush(60)
"""


def test_who_logs_never_waits_for_a_pipe_that_nobody_reads() -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    writer = LogWriter(writing, lambda count: b"dropped %d\n" % count, most_lines=100)
    lines = [b"%04d %s\n" % (number, b"x" * 994) for number in range(1000)]
    for line in lines:
        writer.write(line)

    read = bytearray()

    def all_read() -> bool:
        read.extend(os.read(reading, 65_536))
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


def test_lines_of_several_processes_on_one_pipe_stay_whole() -> None:
    reading, writing = os.pipe()
    processes = [
        subprocess.Popen([sys.executable, "-c", SEVERAL_LINES, str(number)], stderr=writing) for number in range(3)
    ]
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = [json.loads(line) for line in pipe]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    for number in range(3):
        assert [line["number"] for line in lines if line["process"] == number] == list(range(3000))


def test_a_reader_that_has_gone_hurts_nobody() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    writer = LogWriter(writing, lambda _: b"dropped\n")
    writer.write(b"one\n")
    writer.flush(5)
    writer.write(b"another\n")
    writer.flush(5)
