"""GetOutputsZip. (contract 18.14, 18.15)"""

import io
import tracemalloc
import zipfile

import pytest

from backend.ids import new_id
from backend.outputs.bundle import bundle_parts
from backend.outputs.sql import NewOutput, add_outputs, outputs_of
from backend.storage.object_keys import object_key
from tests.services.calls import RefusedError
from tests.services.runs.world import World
from workflow_api.v1 import outputs_pb2


def bundle(world: World, run_id: str) -> tuple[outputs_pb2.DownloadHeader, bytes]:
    request = outputs_pb2.GetOutputsZipRequest(run_id=run_id)
    messages = world.outputs.stream("GetOutputsZip", request, world.key).rest()
    assert all(len(message.data) <= 256 * 1024 for message in messages)
    return messages[0].header, b"".join(message.data for message in messages[1:])


def filled(world: World, files: dict[str, bytes]) -> str:
    run_id = world.started()
    world.begin(run_id)
    for path, data in files.items():
        world.output(run_id, path, data)
    world.close(run_id)
    return run_id


def claiming(world: World, sizes: list[int]) -> str:
    """A run whose outputs are said to have these sizes."""
    run_id = world.started()
    world.begin(run_id)
    new = [
        NewOutput(new_id("out"), run_id, f"first/{n}", "first", "text/plain", size, "ab", object_key(run_id, "none"))
        for n, size in enumerate(sizes)
    ]
    world.services.database.write(lambda tx: add_outputs(tx, new, world.clock()))
    world.close(run_id)
    return run_id


def refusal(world: World, run_id: str) -> str:
    with pytest.raises(RefusedError) as caught:
        bundle(world, run_id)
    return caught.value.reason


def test_the_zip_holds_every_output_under_its_path(world: World) -> None:
    files = {"first/a.txt": b"aaa", "first/é/日本.bin": bytes(600_000), "first/empty": b"", "result.json": b"{}"}
    header, data = bundle(world, filled(world, files))
    assert (header.length, header.size_bytes, header.media_type) == (len(data), len(data), "application/zip")
    archive = zipfile.ZipFile(io.BytesIO(data))
    assert archive.testzip() is None
    assert {name: archive.read(name) for name in archive.namelist()} == files
    assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}


def test_the_same_zip_is_made_each_time(world: World) -> None:
    run_id = filled(world, {"first/a.txt": b"aaa"})
    first = bundle(world, run_id)
    world.clock.advance(days=3)
    assert bundle(world, run_id) == first


@pytest.mark.parametrize("erased", [False, True])
def test_a_run_without_outputs_yields_an_empty_zip(world: World, erased: bool) -> None:
    run_id = filled(world, {"first/a.txt": b"x"} if erased else {})
    if erased:
        world.erase(run_id)
    header, data = bundle(world, run_id)
    assert zipfile.ZipFile(io.BytesIO(data)).namelist() == []
    assert header.length == len(data) == 22


def test_two_thousand_files_are_a_bundle_and_one_more_is_too_large(world: World) -> None:
    run_id = filled(world, {f"first/{number:04}": b"x" for number in range(2_000)})
    header, data = bundle(world, run_id)
    assert len(zipfile.ZipFile(io.BytesIO(data)).namelist()) == 2_000
    assert header.length == len(data)
    assert refusal(world, claiming(world, [0] * 2_001)) == "bundle_too_large"


def test_500_million_bytes_of_content_are_the_most(world: World) -> None:
    assert refusal(world, claiming(world, [400_000_000, 100_000_001])) == "bundle_too_large"
    run_id = claiming(world, [400_000_000, 100_000_000])
    request = outputs_pb2.GetOutputsZipRequest(run_id=run_id)
    stream = world.outputs.stream("GetOutputsZip", request, world.key)
    assert stream.take().header.length > 500_000_000


def test_a_bundle_is_made_in_constant_memory(world: World) -> None:
    run_id = filled(world, {f"first/{number}": bytes(8_000_000) for number in range(5)})
    rows = world.services.database.read(lambda tx: outputs_of(tx, run_id))
    tracemalloc.start()
    try:
        size = sum(len(part) for part in bundle_parts(rows, world.objects))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 40_000_000
    assert peak < 4_000_000
