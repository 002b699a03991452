import json
from dataclasses import replace

import pytest

from backend.runtime.agents import Limits, StepFailed
from backend.runtime.agents.base import event_budget
from backend.settings import OutputLimits, StepDataLimits
from tests.unit.backend.isolation.sandbox.steps import Steps

READY, REQUEST, PROGRESS, FILE, RESULT, FAILURE, SKIPPED, DROPPED = 1, 2, 3, 4, 5, 6, 7, 8

TAKE_OVER = """
import os, stat, time
def run(context):
    fd = next(n for n in range(3, 1024) if os.path.exists(f"/proc/self/fd/{n}") and stat.S_ISSOCK(os.fstat(n).st_mode))
    data = bytes.fromhex(context.parameters["data"])
    try:
        while data:
            data = data[os.write(fd, data):]
    except OSError:
        pass
    if context.parameters["then"] == "close":
        os.close(fd)
    time.sleep(3600)
"""


FEW_FILES = Limits(memory_mb=256, timeout_seconds=120, workspace_mb=4, outputs=OutputLimits(files=100, directories=100))


def frame(kind: int, payload: object = b"") -> bytes:
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return kind.to_bytes() + len(data).to_bytes(4, "big") + data


def file(path: object, size: object = 0, folder: object = "outputs") -> bytes:
    return frame(FILE, {"folder": folder, "path": path, "size": size})


def dropped(events: object, **fields: object) -> bytes:
    return frame(DROPPED, {"final": False, "event_bytes": 0, "events": events, "event_data_bytes": 0, **fields})


def send(steps: Steps, data: bytes, then: str = "sleep", limits: Limits = FEW_FILES, **fields: object) -> object:
    return steps.run(
        TAKE_OVER,
        parameters={"data": data.hex(), "then": then},
        limits=limits,
        **fields,
    )


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff" * 4096, id="noise"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(frame(READY), id="ready again"),
        pytest.param(frame(REQUEST, {}), id="a request"),
        pytest.param(b"\x05\xff\xff\xff\xff", id="a result of 4 GiB"),
        pytest.param(b"\x03" + (64 * 1024 + 1).to_bytes(4, "big"), id="progress too large"),
        pytest.param(frame(PROGRESS, b"{"), id="progress no JSON"),
        pytest.param(frame(PROGRESS, []), id="progress no object"),
        pytest.param(frame(PROGRESS, {"message": 1, "data": {}}), id="progress message no text"),
        pytest.param(frame(PROGRESS, {"message": "", "data": []}), id="progress data no object"),
        pytest.param(frame(PROGRESS, {"message": "", "data": {}, "seq": 1}), id="progress with more"),
        pytest.param(frame(PROGRESS, b'{"message": "", "data": {"a": 1e5, "b": NaN}}'), id="progress with NaN"),
        pytest.param(frame(PROGRESS, {"message": "", "data": {"a": "\ud800"}}), id="progress with half a character"),
        pytest.param(frame(PROGRESS, {"message": "", "data": {}}) * 10_001, id="progress without end"),
        pytest.param(dropped(-1), id="dropped below zero"),
        pytest.param(dropped(2) + dropped(1), id="dropped fewer than before"),
        pytest.param(dropped(True), id="dropped a boolean"),
        pytest.param(dropped(2**64), id="dropped beyond belief"),
        pytest.param(dropped(1, other=1), id="dropped with more"),
        pytest.param(frame(DROPPED, b"[]"), id="dropped no object"),
        pytest.param(frame(DROPPED, b"[" * 200), id="dropped no JSON"),
        pytest.param(b"".join(dropped(n) for n in range(101)), id="dropped without end"),
        pytest.param(file("a") + dropped(1), id="dropped after a file"),
        pytest.param(file("a") + frame(PROGRESS, {"message": "", "data": {}}), id="progress after a file"),
        pytest.param(file("../a"), id="a path upwards"),
        pytest.param(file("a/../../b"), id="a path upwards inside"),
        pytest.param(file("/etc/passwd"), id="an absolute path"),
        pytest.param(file(""), id="no path"),
        pytest.param(file("."), id="the folder itself"),
        pytest.param(file("a//b"), id="an empty name"),
        pytest.param(file("a/"), id="a folder"),
        pytest.param(file("a\0b"), id="NUL in a path"),
        pytest.param(file("\ud800"), id="half a character in a path"),
        pytest.param(file("a" * 256), id="a name too long"),
        pytest.param(file("a/" * 600 + "b"), id="a path too long"),
        pytest.param(file(["a"]), id="a path that is a list"),
        pytest.param(file("a", -1), id="a negative size"),
        pytest.param(file("a", 1.5), id="a broken size"),
        pytest.param(file("a", True), id="a size that is a boolean"),
        pytest.param(frame(FILE, b"[" * 8192), id="nested announcement"),
        pytest.param(file("a") + file("a"), id="a path twice"),
        pytest.param(file("a", folder="files"), id="a folder that is not sent"),
        pytest.param(file("a", folder=["outputs"]), id="a folder that is a list"),
        pytest.param(file("a") + file("a/b"), id="a file as a folder"),
        pytest.param(file("a/b") + file("a"), id="a folder as a file"),
        pytest.param(b"".join(file(f"{n}") for n in range(101)), id="files without end"),
        pytest.param(file("d/" * 33 + "a"), id="a file too deep"),
        pytest.param(b"".join(file(f"{n}/{n}/a") for n in range(51)), id="directories without end"),
        pytest.param(frame(SKIPPED, b"{"), id="skipped no JSON"),
        pytest.param(frame(SKIPPED, {"own kind": 1}), id="skipped of another kind"),
        pytest.param(frame(SKIPPED, {"pipe": -1}), id="skipped less than none"),
        pytest.param(frame(SKIPPED, {"pipe": 10**40}), id="skipped beyond counting"),
        pytest.param(frame(SKIPPED, {"pipe": 1}) * 2, id="skipped twice"),
        pytest.param(frame(SKIPPED, {"pipe": 1}) + file("a"), id="a file after skipped"),
        pytest.param(frame(FAILURE, b"{"), id="failure no JSON"),
        pytest.param(frame(FAILURE, {"kind": "exception"}), id="failure without fields"),
        pytest.param(
            frame(FAILURE, {"kind": [], "type": "", "message": "", "traceback": ""}), id="failure kind a list"
        ),
        pytest.param(frame(FAILURE, {"kind": "x", "type": "", "message": "", "traceback": ""}), id="failure unknown"),
    ],
)
def test_what_the_runner_never_sends_is_a_failure_and_nothing_more(steps: Steps, data: bytes) -> None:
    with pytest.raises(StepFailed) as failed:
        send(steps, data)
    assert (failed.value.type, failed.value.message) == (
        "ProtocolError",
        "the step's process sent something other than a result",
    )
    assert not steps.outputs.exists()
    assert sorted(path.name for path in steps.root.iterdir()) == []
    assert steps.run("def run(context): return 'next'") == "next"


@pytest.mark.parametrize("payload", [b"{", b"NaN", b'"\\ud800"', b"[" * 100, b"\xff", b"", b"1e999"])
def test_a_result_that_is_no_json_is_a_failure(steps: Steps, payload: bytes) -> None:
    with pytest.raises(StepFailed, match="the return value is not JSON") as failed:
        send(steps, frame(RESULT, payload))
    assert failed.value.type == "InvalidResult"


@pytest.mark.parametrize("payload", [b"[" * 101, b"[" * 8_000_000, b'{"a":' * 2500 + b"1" + b"}" * 2500])
def test_a_forged_result_that_is_nested_too_deep_is_a_failure(steps: Steps, payload: bytes) -> None:
    code = TAKE_OVER.replace('bytes.fromhex(context.parameters["data"])', "DATA")
    built = f"{payload[:1]!r} * {len(payload)}" if len(set(payload)) == 1 else repr(payload)
    code = f"PAYLOAD = {built}\nDATA = bytes([5]) + len(PAYLOAD).to_bytes(4, 'big') + PAYLOAD\n{code}"
    with pytest.raises(StepFailed, match="the return value is nested more than 100 levels deep") as failed:
        steps.run(code, parameters={"then": "sleep"})
    assert failed.value.type == "InvalidResult"


def test_more_event_data_than_the_runner_lets_through_is_a_failure(steps: Steps) -> None:
    limits = StepDataLimits(event_data_bytes=10_000)
    event = frame(PROGRESS, {"message": "", "data": {"a": "b" * 900}})
    with pytest.raises(StepFailed) as failed:
        send(steps, event * 11, data_limits=limits, events=event_budget(limits))
    assert failed.value.type == "ProtocolError"
    assert len(steps.events) == 10


def test_a_forged_event_that_is_nested_too_deep_is_a_failure(steps: Steps) -> None:
    """The event's data is one level, so that a hundred lists in it are one too many."""
    deep = b'{"message": "", "data": {"a": ' + b"[" * 100 + b"]" * 100 + b"}}"
    with pytest.raises(StepFailed, match="a progress event is nested more than 100 levels deep"):
        send(steps, frame(PROGRESS, deep))
    assert steps.events == []


@pytest.mark.parametrize("data", [b"", b"\x05", b"\x05\0\0\0\x08[1", file("a", 1000) + b"x" * 999])
def test_end_of_file_before_the_result_is_a_failure(steps: Steps, data: bytes) -> None:
    with pytest.raises(StepFailed) as failed:
        send(steps, data, then="close")
    assert failed.value.message == "the step's process closed its connection before run(context) returned"
    assert not steps.outputs.exists()


def test_more_bytes_than_the_workspace_are_refused_before_they_are_read(steps: Steps) -> None:
    with pytest.raises(StepFailed) as failed:
        send(steps, file("a", 5 * 1024 * 1024))
    assert failed.value.type == "WorkspaceLimit"


def test_directories_of_forged_frames_fill_the_workspace(steps: Steps) -> None:
    """120 of these once made tens of thousands of directories on the host."""
    forged = b"".join(file("/".join([f"{number}"] * 33)) for number in range(120))
    with pytest.raises(StepFailed) as failed:
        send(steps, forged, limits=replace(FEW_FILES, outputs=OutputLimits()))
    assert failed.value.type == "WorkspaceLimit"
    assert not steps.outputs.exists()


def test_a_step_can_only_forge_its_own_result(steps: Steps) -> None:
    """And what it does after that is cut short: the process is ended at once."""
    assert send(steps, file("a", 3) + b"abc" + frame(RESULT, {"own": 1}) + b"\xff" * 100) == {"own": 1}
    assert steps.files() == {"a": b"abc"}


def test_text_that_cannot_be_stored_is_replaced(steps: Steps) -> None:
    data = frame(PROGRESS, {"message": "a\0b", "data": {"k\0": "\0\0", "escaped": "\\u0000"}})
    assert send(steps, data + frame(RESULT, 1)) == 1
    assert steps.events == [("a\ufffdb", {"k\ufffd": "\ufffd\ufffd", "escaped": "\\u0000"})]
