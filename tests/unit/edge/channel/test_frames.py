import asyncio

import pytest

from edge.channel.frames import CallContent, FrameProtocol, Kind, refusal_content, refusal_of
from edge.errors import Refusal


class WriteRecorder:
    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)


class End(FrameProtocol):
    def __init__(self) -> None:
        super().__init__()
        self.frames: list[tuple[int, int, bytes]] = []

    def received(self, kind: int, call: int, content: bytes) -> None:
        self.frames.append((kind, call, content))


FRAMES = [(Kind.UNARY, 1, b"abc"), (Kind.NEXT, 2**64 - 1, b""), (Kind.MESSAGE, 3, b"m" * 100_000), (Kind.END, 3, b"")]


def written(*, gone: bool = False) -> list[bytes]:
    """What is written of the frames in one turn of a loop."""

    async def turn() -> list[bytes]:
        end, transport = End(), WriteRecorder()
        end.connection_made(transport)  # type: ignore[arg-type]  # all of it that is used
        for kind, call, content in FRAMES:
            end.send(kind, call, content)
        if gone:
            end.connection_lost(None)
            end.send(Kind.END, 1)
        await asyncio.sleep(0)
        return transport.writes

    return asyncio.run(turn())


@pytest.mark.parametrize("size", [1, 3, 9, 10, 65_536, 1_000_000])
def test_frames_arrive_whole_however_their_bytes_do(size: int) -> None:
    end, (data,) = End(), written()
    for at in range(0, len(data), size):
        end.data_received(data[at : at + size])
    assert end.frames == FRAMES


def test_nothing_is_sent_to_an_end_that_is_gone() -> None:
    assert written(gone=True) == []


@pytest.mark.parametrize("metadata", [(), (("a", "1"),), (("a", "é"), ("b", ""))])
def test_a_call_is_read_as_it_was_written(metadata: tuple[tuple[str, str], ...]) -> None:
    content = CallContent("/service/Method", 1.5, metadata, b"\0request")
    assert CallContent.decoded(content.encoded()) == content


def test_a_refusal_is_read_as_it_was_written() -> None:
    refusal = Refusal(
        "too_many_active_runs",
        "Wait.",
        details={"runs": ["run_1"], "é": None},
        retry_after=7,
        headers={"Content-Range": "bytes */3"},
    )
    read = refusal_of(refusal_content(refusal))
    assert vars(read) == vars(refusal)
    assert vars(refusal_of(refusal_content(Refusal("unauthorized")))) == vars(Refusal("unauthorized"))
