import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.redaction import Mention, ModelError, RedactionEngine
from backend.redaction.formats import csv_text, json_text
from backend.redaction.formats.csv_text import sweep_csv
from backend.redaction.formats.files import ArchiveBounds
from backend.redaction.formats.json_text import NotJsonError, sweep_json
from backend.workflows import pii_policy
from tests.unit.backend.redaction.conftest import SweepFile, engine_of
from tests.unit.backend.redaction.malformed import MALFORMED


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_text_keeps_its_encoding_and_line_ends(engine: RedactionEngine, sweep_file: SweepFile, encoding: str) -> None:
    text = "Grüße an jané@example.org\r\nfür 5 €\n"
    outcome, swept = sweep_file(engine, "a.txt", text.encode(encoding))
    assert (outcome.kind, outcome.values) == ("text", 1)
    assert swept == text.replace("jané@example.org", "[EMAIL_ADDRESS]").encode(encoding)


@pytest.mark.parametrize(
    "content",
    [b"\x00\x01jane@example.org", b"%PDF-1.7 jane@example.org", b"\xff\xfe\x00\xd8", b"caf\xe9 \x02 jane@example.org"],
)
def test_a_file_that_no_rule_can_read_is_withheld(
    engine: RedactionEngine, sweep_file: SweepFile, content: bytes
) -> None:
    outcome, swept = sweep_file(engine, "a.txt", content)
    assert (outcome.kind, outcome.withheld, outcome.reason, swept) == ("binary", True, "binary", None)
    assert engine.counts | {"categories": {}} == engine.counts
    assert (engine.counts["files"], engine.counts["binary_files"], engine.counts["withheld_files"]) == (1, 1, 1)


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("mode", ["redact", "detect"])
def test_whatever_a_file_holds_it_is_swept_or_withheld(sweep_file: SweepFile, name: str, mode: str) -> None:
    outcome, _ = sweep_file(engine_of(mode=mode), name, MALFORMED[name])
    assert (outcome.kind, outcome.withheld, outcome.reason) == (name.partition(".")[2], mode == "redact", "broken")


def test_detect_releases_every_file_and_writes_none(sweep_file: SweepFile) -> None:
    engine = engine_of(mode="detect")
    assert sweep_file(engine, "a.bin", b"\x00")[0].withheld is False
    outcome, swept = sweep_file(engine, "a.csv", b"mail\njane@example.org\n")
    assert (outcome.values, outcome.withheld, swept) == (1, False, None)
    assert engine.counts["binary_files"] == 1


def test_cells_are_swept_and_the_rest_of_a_table_stays(engine: RedactionEngine, sweep_file: SweepFile) -> None:
    table = 'id;"mail";note;first_name\r\n1;jane@example.org;"a ""b""\n; 4111111111111111";Jane\r\n2;;"";"Bo;b"'
    swept = 'id;"mail";note;first_name\r\n1;[EMAIL_ADDRESS];"a ""b""\n; [CREDIT_CARD]";[PERSON]\r\n2;;"";"[PERSON]"'
    outcome, copy = sweep_file(engine, "a.csv", table.encode())
    assert (outcome.kind, outcome.values) == ("csv", 4)
    assert copy == swept.encode()


@pytest.mark.parametrize(
    ("name", "content", "swept"),
    [
        (
            "a.csv",
            'card,n\n4.111111111111111E+15,1.5E+3\n"4.111111111111111e15",x\n',
            'card,n\n[CREDIT_CARD],1.5E+3\n"[CREDIT_CARD]",x\n',
        ),
        ("a.json", '{"card": 4.111111111111111E+15, "n": 1.25e1}', '{"card": "[CREDIT_CARD]", "n": 1.25e1}'),
    ],
)
def test_numbers_with_exponents_are_swept_as_their_digits(
    engine: RedactionEngine, sweep_file: SweepFile, name: str, content: str, swept: str
) -> None:
    assert sweep_file(engine, name, content.encode())[1] == swept.encode()


@pytest.mark.parametrize("inside", ["a ", '""', "a,b\n"])
def test_a_quote_that_is_not_closed_takes_no_more_memory_than_its_text(engine: RedactionEngine, inside: str) -> None:
    size = 1_000_000
    blocks = ['"', *[inside * (100_000 // len(inside))] * (size // 100_000), "jane@example.org"]
    engine.sweep_text("jane@example.org")
    tracemalloc.start()
    for _ in sweep_csv(iter(blocks), lambda *_: {}, ","):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 * size


def test_a_value_does_not_reach_over_cells(engine: RedactionEngine, sweep_file: SweepFile) -> None:
    assert sweep_file(engine, "a.tsv", b"4111 1111\t1111 1111\n")[1] == b"4111 1111\t1111 1111\n"


def test_json_keeps_its_keys_layout_and_numbers(engine: RedactionEngine, sweep_file: SweepFile) -> None:
    text = b'{ "mail" : "\\u006aane\\u0040example.org\\n",\t"n": 1.50e3, "card":4111111111111111, "a@b.co": [] }\n'
    outcome, swept = sweep_file(engine, "a.json", text)
    assert outcome.kind == "json"
    assert swept == (b'{ "mail" : "[EMAIL_ADDRESS]\\n",\t"n": 1.50e3, "card":"[CREDIT_CARD]", "a@b.co": [] }\n')


def test_json_lines_are_swept_line_by_line(engine: RedactionEngine, sweep_file: SweepFile) -> None:
    assert sweep_file(engine, "a", b'{"a":"jane@example.org"}\n{"a":1}\n')[1] == b'{"a":"[EMAIL_ADDRESS]"}\n{"a":1}\n'


@pytest.mark.parametrize(
    "text", ["{mail: jane@example.org}", '{"mail": "jane@example.org', "[2024] by jane@example.org", '["a\n@']
)
def test_what_is_no_json_is_swept_as_text(engine: RedactionEngine, sweep_file: SweepFile, text: str) -> None:
    outcome, swept = sweep_file(engine, "a.json", text.encode())
    assert outcome.kind == "text"
    assert swept == text.replace("jane@example.org", "[EMAIL_ADDRESS]").encode()
    assert engine.counts["values"] == text.count("jane")


@pytest.mark.parametrize(
    "content",
    [
        '["' + "a " * 500_000 + '"]',
        '["' + "\\\\" * 500_000 + '"]',
        '{"' + "a" * 1_000_000 + '": 1}',
        "[" * 1_000_000,
        "[" + "1" * 1_000_000 + "]",
        '["a"' + " " * 1_000_000 + ", 1]",
    ],
    ids=["string", "escapes", "key", "brackets", "number", "blanks"],
)
def test_json_text_is_read_a_few_times_however_it_grows(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    cut = json_text._tokens

    def counting(text: str) -> tuple[list[str], str]:
        nonlocal read
        read += len(text)
        return cut(text)

    monkeypatch.setattr(json_text, "_BATCH", 1_000)
    monkeypatch.setattr(json_text, "_tokens", counting)
    assert "".join(sweep_json(_pieces(content, 1_000), lambda *_: {})) == content
    assert read < 3 * len(content)


def test_a_first_row_of_nothing_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    labels: list[str] = []

    def note(_: list[str], more: list[str]) -> dict[int, str]:
        labels.extend(more)
        return {}

    text = "\n" * 20_000 + "a,b\n1,2\n"
    assert "".join(sweep_csv([text], note, ",")) == text
    assert labels[-2:] == ["a", "b"]


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(st.text(alphabet='ab,"\n é', max_size=6), min_size=2, max_size=4), min_size=1, max_size=6),
    size=st.integers(1, 9),
)
def test_csv_is_read_alike_in_pieces(rows: list[list[str]], size: int) -> None:
    text = "\r\n".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_text, "_BATCH", 1)
        seen: list[str] = []
        swept = "".join(sweep_csv(_pieces(text, size), _noting(seen), ","))
    assert swept == text
    assert seen == ['"' + cell.replace('"', '""') + '"' for row in rows for cell in row]


@settings(deadline=None, max_examples=80)
@given(
    value=st.recursive(
        st.text(alphabet='ab{}[],:"\\\n\u00e9', max_size=6) | st.integers() | st.none(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    size=st.integers(1, 9),
    indent=st.sampled_from([None, 1]),
)
def test_json_is_read_alike_in_pieces(value: object, size: int, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "_BATCH", 1)
        pieces: list[str] = []
        whole: list[str] = []
        swept = "".join(sweep_json(_pieces(text, size), _noting(pieces)))
        "".join(sweep_json([text], _noting(whole)))
    assert swept == text
    assert pieces == whole


def test_a_json_value_too_long_to_hold_is_withheld(
    engine: RedactionEngine, sweep_file: SweepFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_text, "LONGEST_VALUE", 600_000)
    outcome, swept = sweep_file(engine, "a.json", b'["' + b"a" * 2_000_000 + b'"]')
    assert (outcome.kind, outcome.withheld, outcome.reason, swept) == ("json", True, "value_too_long", None)


def test_a_cell_too_long_to_hold_is_swept_as_text(
    engine: RedactionEngine, sweep_file: SweepFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_text, "LONGEST_CELL", 600_000)
    outcome, swept = sweep_file(engine, "a.csv", b'"' + b"a " * 1_000_000 + b"jane@example.org")
    assert (outcome.kind, outcome.values) == ("text", 1)
    assert swept is not None
    assert swept.endswith(b"[EMAIL_ADDRESS]")


def test_a_failed_sweep_leaves_no_copy_and_no_counts(
    engine: RedactionEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("jane@example.org\n" * 100_000)
    model = _Broken()
    broken = RedactionEngine(
        {"mode": "redact", "categories": "all", "min_confidence": 0.8, "max_model_calls": 9, "parquet_sample_rows": 1},
        model,
    )
    with pytest.raises(ModelError):
        broken.sweep_file(source, target, "a.txt")
    assert list(tmp_path.iterdir()) == [source]
    assert broken.counts["values"] == broken.counts["files"] == 0


class _Broken:
    def find(self, text: str, categories: Collection[str]) -> list[Mention]:
        raise ConnectionError


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


def test_members_of_archives_are_swept_with_their_names(engine: RedactionEngine, sweep_file: SweepFile) -> None:
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
    engine: RedactionEngine, sweep_file: SweepFile, tmp_path: Path
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


def test_members_that_become_one_name_stay_apart(engine: RedactionEngine, sweep_file: SweepFile) -> None:
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
    engine: RedactionEngine, sweep_file: SweepFile, monkeypatch: pytest.MonkeyPatch, archive: bytes, reason: str | None
) -> None:
    monkeypatch.setattr("backend.redaction.engine.ArchiveBounds", lambda **_: ArchiveBounds(20, 100_000))
    outcome, swept = sweep_file(engine, "a.zip", archive)
    assert (outcome.kind, outcome.reason) == ("zip", reason)
    assert (swept is None) == outcome.withheld == (reason is not None)


def test_archives_share_their_bound_with_the_tables_inside(sweep_file: SweepFile) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": ["x" * 6_000] * 10}), buffer)
    bounded = RedactionEngine(pii_policy.normalise({"mode": "redact"}), expanded_bytes=100_000)
    table = buffer.getvalue()
    assert sweep_file(bounded, "a.zip", _zip({"a.parquet": table}))[0].reason is None
    outcome, swept = sweep_file(bounded, "a.zip", _zip({"a.parquet": table, "b.parquet": table}))
    assert (outcome.reason, swept) == ("too_large", None)


def test_archives_within_archives_end_somewhere(engine: RedactionEngine, sweep_file: SweepFile) -> None:
    archive = b""
    for _ in range(6):
        archive = _zip({"a.zip": archive})
    assert sweep_file(engine, "a.zip", archive)[0].reason == "too_deep"


def test_an_archive_may_not_lie_about_its_sizes(engine: RedactionEngine, sweep_file: SweepFile) -> None:
    archive = _zip({"a.txt": b" " * 3_000_000})
    lying = archive.replace((3_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    outcome, swept = sweep_file(engine, "a.zip", lying)
    assert outcome.withheld or len(_members(swept).get("a.txt", b"")) <= 10


def test_malformed_json_is_told() -> None:
    with pytest.raises(NotJsonError):
        "".join(sweep_json(["{'a': 1}"], lambda *_: {}))


def _noting(seen: list[str]) -> Callable[[list[str], list[str]], dict[int, str]]:
    def note(cells: list[str], _: list[str]) -> dict[int, str]:
        seen.extend(cells)
        return {}

    return note


def _pieces(text: str, size: int) -> list[str]:
    return [text[place : place + size] for place in range(0, len(text), size)]
