"""GetOutputContent. (contract 18.8 to 18.13)"""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from backend.rpc.interceptors import handlers_of
from backend.services.outputs.servicer import OutputsServicer
from backend.services.outputs.sql import outputs_of
from backend.settings import ObjectSettings
from backend.storage.objects.bucket import BucketObjects
from tests.services.calls import Caller, RefusedError
from tests.services.runs.world import World
from workflow_api.v1 import outputs_pb2

DATA = bytes(range(100))
ETAG = hashlib.sha256(DATA).hexdigest()


def content(world: World, run_id: str, output_id: str, **fields: Any) -> tuple[outputs_pb2.DownloadHeader, bytes]:
    if "range" in fields:
        fields["range"] = outputs_pb2.ByteRange(**fields["range"])
    request = outputs_pb2.GetOutputContentRequest(run_id=run_id, output_id=output_id, **fields)
    messages = world.outputs.stream("GetOutputContent", request, world.key).rest()
    assert all(len(message.data) <= 256 * 1024 for message in messages)
    return messages[0].header, b"".join(message.data for message in messages[1:])


def refusal(world: World, run_id: str, output_id: str, **fields: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        content(world, run_id, output_id, **fields)
    return caught.value


def made(world: World, data: bytes = DATA) -> tuple[str, str]:
    run_id = world.started()
    world.begin(run_id)
    output_id = world.output(run_id, "first/sub/a.bin", data)
    world.close(run_id)
    return run_id, output_id


def test_a_whole_output_comes_with_its_header(world: World) -> None:
    header, data = content(world, *made(world))
    assert data == DATA
    assert header == outputs_pb2.DownloadHeader(
        media_type="text/plain", file_name="a.bin", size_bytes=100, length=100, etag=ETAG
    )


def test_a_large_output_comes_in_parts(world: World) -> None:
    large = bytes(300_000) + b"end"
    assert content(world, *made(world, large))[1] == large


def test_an_output_of_another_run_is_not_found(world: World) -> None:
    run_id, _ = made(world)
    _, foreign = made(world)
    assert refusal(world, run_id, foreign).reason == "output_not_found"
    assert refusal(world, run_id, "é" * 2048).reason == "output_not_found"
    assert refusal(world, run_id, "x" * 2049).problems.keys() == {"output_id"}


@pytest.mark.parametrize(
    ("asked", "offset", "length"),
    [
        ({"first": 0}, 0, 100),
        ({"first": 0, "last": 0}, 0, 1),
        ({"first": 10, "last": 19}, 10, 10),
        ({"first": 99, "last": 5000}, 99, 1),
        ({"suffix_length": 1}, 99, 1),
        ({"suffix_length": 1000}, 0, 100),
    ],
)
def test_a_range_is_answered_in_part(world: World, asked: dict[str, int], offset: int, length: int) -> None:
    header, data = content(world, *made(world), range=asked)
    assert header.partial
    assert (header.offset, header.length, header.size_bytes) == (offset, length, 100)
    assert data == DATA[offset : offset + length]


@pytest.mark.parametrize("asked", [{"first": 100}, {"first": 100, "last": 200}, {"suffix_length": 0}])
def test_a_range_that_does_not_fit_names_the_size(world: World, asked: dict[str, int]) -> None:
    refused = refusal(world, *made(world), range=asked)
    assert (refused.reason, refused.metadata) == ("range_not_satisfiable", {"size": "100"})


@pytest.mark.parametrize("asked", [{"first": 0}, {"suffix_length": 0}])
def test_no_range_fits_an_empty_output(world: World, asked: dict[str, int]) -> None:
    run_id, output_id = made(world, b"")
    assert refusal(world, run_id, output_id, range=asked).metadata == {"size": "0"}
    assert content(world, run_id, output_id)[1] == b""


def test_the_last_bytes_of_an_empty_output_are_all_of_it(world: World) -> None:
    header, data = content(world, *made(world, b""), range={"suffix_length": 5})
    assert (header.partial, header.length, data) == (False, 0, b"")


@pytest.mark.parametrize("kept", [None, DATA[:50]])
def test_what_the_store_has_lost_is_an_error_before_the_first_byte(
    world: World, caplog: pytest.LogCaptureFixture, kept: bytes | None
) -> None:
    run_id, output_id = made(world)
    (row,) = world.services.database.read(lambda tx: outputs_of(tx, run_id))
    if kept is None:
        world.objects.delete(row.object_key)
    else:
        world.objects.put_bytes(row.object_key, kept)
    assert refusal(world, run_id, output_id).reason == "runtime_error"
    assert row.object_key in caplog.text


def test_a_range_that_ends_before_it_begins_is_ignored(world: World) -> None:
    header, data = content(world, *made(world), range={"first": 9, "last": 3})
    assert (header.partial, data) == (False, DATA)


def test_if_range_with_another_tag_voids_the_range(world: World) -> None:
    run_id, output_id = made(world)
    assert content(world, run_id, output_id, range={"first": 5}, if_range=ETAG)[0].partial
    header, data = content(world, run_id, output_id, range={"first": 500}, if_range="other")
    assert (header.partial, data) == (False, DATA)


@pytest.mark.parametrize("tags", [[ETAG], ["other", ETAG], ["*"]])
def test_an_unchanged_output_is_answered_not_modified(world: World, tags: list[str]) -> None:
    run_id, output_id = made(world)
    header, data = content(world, run_id, output_id, if_none_match=tags, range={"first": 500})
    assert (header.not_modified, header.etag, data) == (True, ETAG, b"")
    assert content(world, run_id, output_id, if_none_match=["other"])[1] == DATA


def test_an_output_over_25_million_bytes_is_only_in_the_bundle_whatever_the_range(world: World) -> None:
    run_id, output_id = made(world, bytes(25_000_001))
    refused = refusal(world, run_id, output_id, range={"first": 0, "last": 0})
    assert (refused.reason, refused.metadata) == ("use_bundle", {"run_id": run_id})
    run_id, output_id = made(world, bytes(25_000_000))
    assert content(world, run_id, output_id, range={"suffix_length": 1})[1] == b"\0"


def test_an_output_that_is_erased_while_it_is_asked_for_is_not_found(world: World) -> None:
    class Erasing:
        def open_range(self, key: str, offset: int, length: int) -> Any:
            world.erase(run_id)
            world.removals.round()
            return world.objects.open_range(key, offset, length)

    run_id, output_id = made(world)
    servicer = OutputsServicer(world.services, Erasing())  # type: ignore[arg-type]
    call = Caller(servicer, outputs_pb2.DESCRIPTOR.services_by_name["OutputsService"])
    request = outputs_pb2.GetOutputContentRequest(run_id=run_id, output_id=output_id)
    with pytest.raises(RefusedError) as caught:
        call.stream("GetOutputContent", request, world.key).rest()
    assert caught.value.reason == "output_not_found"


def test_an_unreachable_store_is_refused_as_runtime_unreachable(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OWNKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    run_id, output_id = made(world)
    away = BucketObjects(ObjectSettings(store="s3", bucket="kept", endpoint_url="http://127.0.0.1:1"))
    call = Caller(OutputsServicer(world.services, away), outputs_pb2.DESCRIPTOR.services_by_name["OutputsService"])
    request = outputs_pb2.GetOutputContentRequest(run_id=run_id, output_id=output_id)
    with pytest.raises(RefusedError) as caught:
        call.stream("GetOutputContent", request, world.key).rest()
    assert caught.value.reason == "runtime_unreachable"


def being_read(world: World) -> int:
    """How many files of the store of objects this process has open."""
    objects = str(world.stored_below(""))
    opened = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return sum(str(path.readlink()).startswith(objects) for path in opened)


def test_a_caller_that_goes_away_ends_the_read(world: World) -> None:
    opened: list[Any] = []

    class Watched:
        def open_range(self, key: str, offset: int, length: int) -> Any:
            opened.append(world.objects.open_range(key, offset, length))
            return opened[0]

    run_id, output_id = made(world, bytes(1_000_000))
    servicer = OutputsServicer(world.services, Watched())  # type: ignore[arg-type]
    service = outputs_pb2.DESCRIPTOR.services_by_name["OutputsService"]
    handler = handlers_of(servicer, service)["/workflow_api.v1.OutputsService/GetOutputContent"]

    class Context:
        def invocation_metadata(self) -> tuple[()]:
            return ()

    request = outputs_pb2.GetOutputContentRequest(run_id=run_id, output_id=output_id)
    stream = handler.messages(request, Context())  # type: ignore[arg-type]
    next(stream)
    next(stream)
    assert being_read(world) == 1
    stream.close()
    assert being_read(world) == 0
