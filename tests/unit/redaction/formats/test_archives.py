import io
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from redaction.formats.outcome import ArchiveBounds
from redaction.redactor import Redactor
from tests.unit.redaction.conftest import SweepFile


def _zip(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _members(content: bytes | None) -> dict[str, bytes]:
    assert content is not None
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_members_of_archives_are_swept_with_their_names(engine: Redactor, sweep_file: SweepFile) -> None:
    inner = _zip({"p.txt": b"jane@example.org"})
    archive = _zip(
        {
            "d/jane@example.org.csv": b"a\n123-45-6789",
            "d/joe@example.org.csv": b"",
            "in.zip": inner,
            "b.png": b"\x89PNG\0",
        }
    )
    outcome, swept = sweep_file(engine, "a.zip", archive)
    members = _members(swept)
    assert outcome.kind == "zip"
    assert list(members) == ["d/[EMAIL_ADDRESS].csv", "d/[EMAIL_ADDRESS]-2.csv", "in.zip"]
    assert members["d/[EMAIL_ADDRESS].csv"] == b"a\n[US_SSN]"
    assert _members(members["in.zip"]) == {"p.txt": b"[EMAIL_ADDRESS]"}
    assert engine.counts["categories"] == {"EMAIL_ADDRESS": 3, "US_SSN": 1}
    assert (engine.counts["files"], engine.counts["binary_files"], engine.counts["withheld_files"]) == (6, 1, 1)


def test_members_of_archives_stay_inside_the_folder_they_are_unpacked_in(
    engine: Redactor, sweep_file: SweepFile, tmp_path: Path
) -> None:
    hostile = ["../up.txt", "a/../../b.txt", "..", "/etc/abs.txt", "C:/drive.txt", r"s\..\..\win.txt", "d./e ", "l\nn"]
    _, swept = sweep_file(engine, "a.zip", _zip(dict.fromkeys(hostile, b"x")))
    safe = {"etc/abs.txt", "C%3A/drive.txt", "s%5C..%5C..%5Cwin.txt", "d%2E/e%20", "l%0An"}
    assert set(_members(swept)) == safe
    assert (engine.counts["files"], engine.counts["withheld_files"]) == (9, 3)
    target = tmp_path / "unpacked"
    with zipfile.ZipFile(io.BytesIO(swept or b"")) as archive:
        archive.extractall(target)
    assert {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()} == safe


def test_members_that_become_one_name_stay_apart(engine: Redactor, sweep_file: SweepFile) -> None:
    _, swept = sweep_file(engine, "a.zip", _zip({"a//b.txt": b"1", "a/b.txt": b"2", "a\\b": b"3", "a%5Cb": b"4"}))
    assert _members(swept) == {"a/b.txt": b"1", "a/b-2.txt": b"2", "a%5Cb": b"3", "a%255Cb": b"4"}


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (_zip({f"{number}.txt": b"" for number in range(21)}), "too_many_members"),
        (_zip({"a.txt": b" " * 60_000, "b.zip": _zip({"c.txt": b" " * 60_000})}), "too_large"),
        (_zip({"a.txt": b"jane@example.org"})[:-10], "broken"),
        (_zip({"a": _zip({"b.txt": b""})}).replace(b"b.txt", b"b.tx\0"), None),
    ],
    ids=["members", "bytes", "cut", "odd"],
)
def test_an_archive_beyond_the_bounds_is_withheld(
    engine: Redactor, sweep_file: SweepFile, monkeypatch: pytest.MonkeyPatch, archive: bytes, reason: str | None
) -> None:
    monkeypatch.setattr("redaction.redactor.ArchiveBounds", lambda **_: ArchiveBounds(20, 100_000))
    outcome, swept = sweep_file(engine, "a.zip", archive)
    assert (outcome.kind, outcome.reason) == ("zip", reason)
    assert (swept is None) == outcome.withheld == (reason is not None)


def test_archives_share_their_bound_with_the_tables_inside(sweep_file: SweepFile) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": ["x" * 6_000] * 10}), buffer)
    bounded = Redactor({"mode": "redact"}, expanded_bytes=100_000)
    table = buffer.getvalue()
    assert sweep_file(bounded, "a.zip", _zip({"a.parquet": table}))[0].reason is None
    outcome, swept = sweep_file(bounded, "a.zip", _zip({"a.parquet": table, "b.parquet": table}))
    assert (outcome.reason, swept) == ("too_large", None)


def test_archives_within_archives_end_somewhere(engine: Redactor, sweep_file: SweepFile) -> None:
    archive = b""
    for _ in range(6):
        archive = _zip({"a.zip": archive})
    assert sweep_file(engine, "a.zip", archive)[0].reason == "too_deep"


def test_an_archive_may_not_lie_about_its_sizes(engine: Redactor, sweep_file: SweepFile) -> None:
    archive = _zip({"a.txt": b" " * 3_000_000})
    lying = archive.replace((3_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    outcome, swept = sweep_file(engine, "a.zip", lying)
    assert outcome.withheld or len(_members(swept).get("a.txt", b"")) <= 10
