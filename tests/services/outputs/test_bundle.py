"""GetOutputsZip. (contract 18.11 to 18.16)"""

import io
import tracemalloc
import zipfile
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import update

from backend.common.ids import new_id
from backend.services.outputs.bundle import WINDOW_BYTES, Bundle
from backend.services.outputs.sql import NewOutput, add_outputs, outputs_of
from backend.storage.object_keys import object_key
from backend.storage.statements import Command
from backend.storage.tables.files import OutputRow, outputs
from tests.services.calls import RefusedError
from tests.services.runs.world import World
from workflow_api.v1 import outputs_pb2

FILES = {"first/a.txt": b"aaa", "first/b.bin": bytes(range(256)) * 2_000, "first/empty": b"", "first/é.txt": b"e"}


def bundle(world: World, run_id: str, **fields: Any) -> tuple[outputs_pb2.DownloadHeader, bytes]:
    request = outputs_pb2.GetOutputsZipRequest(run_id=run_id, **fields)
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
        NewOutput(
            new_id("out"), run_id, f"first/{n}", "first", "text/plain", size, "ab", object_key(run_id, f"sparse-{n}"), 0
        )
        for n, size in enumerate(sizes)
    ]
    world.services.database.write(lambda tx: add_outputs(tx, new, world.clock()))
    world.close(run_id)
    return run_id


def rows_of(world: World, run_id: str) -> list[OutputRow]:
    return world.services.database.read(lambda tx: outputs_of(tx, run_id))


class Counting:
    """An object store that counts the bytes that are read."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.read = 0

    def open_range(self, key: str, offset: int, length: int) -> Any:
        self.read += length
        return self._world.objects.open_range(key, offset, length)


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


def test_the_bytes_are_those_of_the_standard_librarys_writer(world: World) -> None:
    run_id = filled(world, FILES)

    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for row in rows_of(world, run_id):
            info = zipfile.ZipInfo(row.path, datetime.fromtimestamp(row.created_at / 1000, UTC).timetuple()[:6])
            info.external_attr = 0o644 << 16
            archive.writestr(info, FILES[row.path])
    assert bundle(world, run_id)[1] == written.getvalue()


def test_every_range_is_that_part_of_the_zip(world: World) -> None:
    run_id = filled(world, {"first/a.txt": b"aaa", "first/empty": b"", "first/é.txt": b"e"})
    whole = bundle(world, run_id)[1]
    rows = rows_of(world, run_id)
    for offset in range(len(whole)):
        for length in (1, 40, len(whole) - offset):
            made = Bundle(rows, world.objects)
            assert b"".join(made.parts(offset, length)) == whole[offset : offset + length]


def test_a_range_of_the_zip_is_resumed_with_its_entity_tag(world: World) -> None:
    run_id = filled(world, FILES)
    header, whole = bundle(world, run_id)
    rest = outputs_pb2.ByteRange(first=1_000)
    resumed, data = bundle(world, run_id, range=rest, if_range=header.etag)
    assert (resumed.partial, resumed.offset, resumed.etag, data) == (True, 1_000, header.etag, whole[1_000:])
    assert bundle(world, run_id, range=rest, if_range="other")[1] == whole
    kept, none = bundle(world, run_id, if_none_match=[header.etag])
    assert (kept.not_modified, none) == (True, b"")
    with pytest.raises(RefusedError) as caught:
        bundle(world, run_id, range=outputs_pb2.ByteRange(first=len(whole)))
    assert (caught.value.reason, caught.value.metadata) == ("range_not_satisfiable", {"size": str(len(whole))})


def test_other_outputs_have_another_entity_tag(world: World) -> None:
    rows = rows_of(world, filled(world, FILES))

    def tag(*changed: OutputRow) -> str:
        return Bundle([*changed, *rows[1:]], world.objects).etag

    first = rows[0]
    others = [
        first._replace(path="b"),
        first._replace(sha256="0" * 64),
        first._replace(size_bytes=4),
        first._replace(created_at=first.created_at + 2_000),
    ]
    assert len({tag(first), tag(), *map(tag, others)}) == 6
    assert tag(first._replace(object_key="elsewhere")) == tag(first)


def test_only_objects_within_the_range_are_read(world: World) -> None:
    run_id = filled(world, FILES)
    objects = Counting(world)
    made = Bundle(rows_of(world, run_id), objects)  # type: ignore[arg-type]
    whole = b"".join(made.parts(0, made.size))
    assert objects.read == sum(map(len, FILES.values()))
    objects.read = 0
    offset = whole.index(b"first/b.bin") + len(b"first/b.bin") + 511_000
    assert b"".join(made.parts(offset, made.size - offset)) == whole[offset:]
    assert objects.read == 1_001


def test_the_checksums_of_older_outputs_are_computed_by_their_first_zip_and_stored(world: World) -> None:
    run_id = filled(world, FILES)
    whole = bundle(world, run_id)
    rows = rows_of(world, run_id)
    world.services.database.write(lambda tx: tx.run(Command(update(outputs).values(crc32=None))))
    assert bundle(world, run_id) == whole
    assert rows_of(world, run_id) == rows


def test_a_range_computes_only_the_checksums_that_it_contains(world: World) -> None:
    rows = rows_of(world, filled(world, FILES))
    older = Bundle([row._replace(crc32=None) for row in rows], world.objects)
    whole = b"".join(Bundle(rows, world.objects).parts(0, older.size))
    assert b"".join(older.parts(0, 40)) == whole[:40]
    assert older.computed == {rows[0].output_id: rows[0].crc32}
    assert b"".join(older.parts(0, older.size)) == whole
    assert older.computed == {row.output_id: row.crc32 for row in rows}


def test_an_erasure_ends_the_download_of_a_zip(world: World) -> None:
    run_id = filled(world, {"first/a.txt": bytes(WINDOW_BYTES + 1)})
    request = outputs_pb2.GetOutputsZipRequest(run_id=run_id)
    stream = world.outputs.stream("GetOutputsZip", request, world.key)
    stream.take()
    stream.take()
    world.erase(run_id)
    world.removals.round()
    with pytest.raises(RefusedError) as caught:
        stream.rest()
    assert caught.value.reason == "runtime_unreachable"


@pytest.mark.parametrize("damage", ["removed", "shortened", "lengthened"])
def test_what_the_store_has_lost_is_found_before_the_first_byte_and_logged(
    world: World, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    run_id = filled(world, FILES)
    key = rows_of(world, run_id)[1].object_key
    if damage == "removed":
        world.objects.delete(key)
    else:
        world.objects.put_bytes(
            key, FILES["first/b.bin"][:-1] if damage == "shortened" else FILES["first/b.bin"] + b"x"
        )
    assert refusal(world, run_id) == "runtime_error"
    assert key in caplog.text


@pytest.mark.parametrize("damage", ["removed", "shortened"])
def test_what_the_store_has_lost_breaks_a_later_range_off_and_is_logged(
    world: World, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    run_id = filled(world, FILES)
    key = rows_of(world, run_id)[1].object_key
    if damage == "removed":
        world.objects.delete(key)
    else:
        world.objects.put_bytes(key, FILES["first/b.bin"][:-1])
    with pytest.raises(RefusedError) as caught:
        bundle(world, run_id, range=outputs_pb2.ByteRange(first=1))
    assert caught.value.reason == "runtime_error"
    assert key in caplog.text


def test_only_a_zip_that_is_sent_from_its_beginning_is_checked_against_a_listing_of_the_store(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = filled(world, FILES)
    listed: list[str] = []
    sizes = world.objects.sizes

    def counted(prefix: str) -> dict[str, int]:
        listed.append(prefix)
        return dict(sizes(prefix))

    monkeypatch.setattr(world.objects, "sizes", counted)
    etag = bundle(world, run_id, range=outputs_pb2.ByteRange(first=1))[0].etag
    assert bundle(world, run_id, if_none_match=[etag])[0].not_modified
    bundle(world, filled(world, {}))
    assert listed == []
    bundle(world, run_id, range=outputs_pb2.ByteRange(first=0, last=9))
    bundle(world, run_id)
    assert listed == [f"runs/{run_id}/"] * 2


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
    for row in rows_of(world, run_id):
        file = world.folder / "objects" / row.object_key
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as sparse:
            sparse.truncate(row.size_bytes)
    request = outputs_pb2.GetOutputsZipRequest(run_id=run_id)
    stream = world.outputs.stream("GetOutputsZip", request, world.key)
    assert stream.take().header.length > 500_000_000


def test_a_bundle_is_made_in_constant_memory(world: World) -> None:
    run_id = filled(world, {f"first/{number}": bytes(8_000_000) for number in range(5)})
    made = Bundle(rows_of(world, run_id), world.objects)
    tracemalloc.start()
    try:
        size = sum(len(part) for part in made.parts(0, made.size))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 40_000_000
    assert peak < 4_000_000
