import datetime as dt
import decimal
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from redaction.redactor import Redactor
from redaction.sweep import Sweep
from tests.unit.redaction.conftest import SweepFile, engine_of

_CARD = 4111111111111111


def _file(columns: dict[str, Any], **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, **options)
    return buffer.getvalue()


def _swept(engine: Redactor, sweep_file: SweepFile, columns: dict[str, Any], **options: Any) -> pa.Table:
    outcome, swept = sweep_file(engine, "a.parquet", _file(columns, **options))
    assert (outcome.kind, outcome.withheld) == ("parquet", False)
    assert swept is not None
    return pq.read_table(io.BytesIO(swept))


def test_text_columns_are_swept_in_every_row(engine: Redactor, sweep_file: SweepFile) -> None:
    rows = ["jane@example.org", None, "x"] * 15_000
    columns = {
        "plain": rows,
        "large": pa.array(rows, pa.large_string()),
        "coded": pa.array(rows).dictionary_encode(),
        "id": range(45_000),
    }
    table = _swept(engine, sweep_file, columns)
    for name in ("plain", "large", "coded"):
        assert table[name].to_pylist() == ["[EMAIL_ADDRESS]", None, "x"] * 15_000
    assert table["id"].to_pylist() == list(range(45_000))
    assert engine.counts["values"] == 45_000


def test_a_column_of_numbers_becomes_text_when_its_sample_holds_values(engine: Redactor, sweep_file: SweepFile) -> None:
    table = _swept(engine, sweep_file, {"n": [5, _CARD, None], "price": [1.5, 2.5, 3.5], "ok": [True, False, None]})
    assert table["n"].to_pylist() == ["5", "[CREDIT_CARD]", None]
    assert table["price"].to_pylist() == [1.5, 2.5, 3.5]
    assert table["ok"].to_pylist() == [True, False, None]


@pytest.mark.parametrize("kind", [pa.float64(), pa.list_(pa.float64())])
def test_whole_numbers_in_floats_are_swept_as_their_digits(sweep_file: SweepFile, kind: pa.DataType) -> None:
    engine = engine_of(min_confidence=0.5)
    cards = [4111111111111111.0, None, 6362970000457013.0, 1.5, float("nan")]
    rows = cards if pa.types.is_floating(kind) else [cards]
    _swept(engine, sweep_file, {"card": pa.array(rows, kind), "phone": pa.array([12025550143.0] * len(rows))})
    assert engine.counts["categories"] == {"CREDIT_CARD": 2, "PHONE_NUMBER": len(rows)}


def test_a_value_beyond_the_sample_is_emptied(sweep_file: SweepFile) -> None:
    engine = engine_of(parquet_sample_rows=10)
    table = _swept(engine, sweep_file, {"n": [7] * 99 + [_CARD]})
    assert table["n"].to_pylist() == [7] * 99 + [None]
    assert engine.counts["categories"] == {"CREDIT_CARD": 1}


def test_times_and_decimals_are_swept_as_their_text(engine: Redactor, sweep_file: SweepFile) -> None:
    columns = {
        "day": [dt.date(2020, 1, 2)],
        "at": [dt.datetime(2020, 1, 2, 3, 4, tzinfo=dt.UTC)],
        "card": [decimal.Decimal(_CARD)],
    }
    table = _swept(engine, sweep_file, columns)
    assert table["day"].to_pylist() == ["[DATE_TIME]"]
    assert "2020" not in table["at"].to_pylist()[0]
    assert table["card"].to_pylist() == ["[CREDIT_CARD]"]


def test_nested_columns_are_swept_to_their_leaves(engine: Redactor, sweep_file: SweepFile) -> None:
    value = {"ssn": "123456789", "tags": [{"k": "jane@example.org"}, None], "n": [1, _CARD], "at": None}
    columns = {
        "nest": [value, None],
        "map": pa.array([[("first_name", "Jane")], []], pa.map_(pa.string(), pa.string())),
    }
    table = _swept(engine, sweep_file, columns)
    swept = {"ssn": "[US_SSN]", "tags": [{"k": "[EMAIL_ADDRESS]"}, None], "n": [1, None], "at": None}
    assert table["nest"].to_pylist() == [swept, None]
    assert table["map"].to_pylist() == [[("first_name", "[PERSON]")], []]


def test_bytes_are_swept_as_text_or_emptied(engine: Redactor, sweep_file: SweepFile) -> None:
    table = _swept(engine, sweep_file, {"b": [b"jane@example.org", b"\xff\xd8", None]})
    assert table["b"].to_pylist() == [b"[EMAIL_ADDRESS]", None, None]
    assert engine.counts["emptied_values"] == 1


def test_what_a_file_says_of_itself_is_left_behind(engine: Redactor, sweep_file: SweepFile) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({"by": "jane@example.org"}), buffer)
    swept = sweep_file(engine, "a", buffer.getvalue())[1]
    assert swept is not None
    assert b"jane" not in swept


def test_a_value_that_many_rows_share_takes_no_memory_for_each(engine: Redactor, sweep_file: SweepFile) -> None:
    rows = pa.array(["jane@example.org " + "a " * 50_000] * 1_000)
    content = _file({"plain": rows, "coded": rows.dictionary_encode()}, compression="zstd")
    assert len(content) < 20_000
    before = pa.total_allocated_bytes()
    peaks = []

    def peak(*_: object) -> dict[int, str]:
        peaks.append(pa.total_allocated_bytes() - before)
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sweep, "cells", peak)
        assert sweep_file(engine, "a.parquet", content)[0].kind == "parquet"
    assert max(peaks) < 300_000_000


@pytest.mark.parametrize("compression", ["zstd", "none"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.list_(pa.string())])
@pytest.mark.parametrize("dictionary", [True, False])
def test_a_file_that_expands_beyond_the_bound_is_withheld(
    sweep_file: SweepFile, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, compression: str, *, dictionary: bool
) -> None:
    rows = ["x" * 10_000] * 1_000
    columns = {"a": pa.array([[row] for row in rows] if pa.types.is_list(kind) else rows, kind)}
    content = _file(columns, compression=compression, use_dictionary=dictionary)
    swept: list[int] = []

    def note(_: Sweep, texts: list[str], __: list[str]) -> dict[int, str]:
        swept.append(sum(map(len, texts)))
        return {}

    monkeypatch.setattr(Sweep, "cells", note)
    policy = {"mode": "redact"}
    assert not sweep_file(Redactor(policy, expanded_bytes=10_100_000), "a", content)[0].withheld
    swept.clear()
    outcome, copy = sweep_file(Redactor(policy, expanded_bytes=9_900_000), "a", content)
    assert (outcome.kind, outcome.withheld, outcome.reason, copy) == ("parquet", True, "too_large", None)
    assert sum(swept) <= 2 * 9_900_000


def test_rows_of_nothing_count_against_the_bound(sweep_file: SweepFile) -> None:
    engine = Redactor({"mode": "redact"}, expanded_bytes=100_000)
    outcome, _ = sweep_file(engine, "a.parquet", _file({"a": pa.nulls(200_000)}))
    assert (outcome.withheld, outcome.reason) == (True, "too_large")


def test_a_value_that_stands_for_gigabytes_is_withheld_before_it_is_expanded(sweep_file: SweepFile) -> None:
    engine = engine_of(parquet_sample_rows=1)
    codes = pa.array([0] * 100_000, pa.int32())
    column = pa.DictionaryArray.from_arrays(codes, ["x" * 1_000_000])
    content = _file({"a": column}, compression="zstd")
    before = pa.total_allocated_bytes()
    peaks = []

    def peak(*_: object) -> dict[int, str]:
        peaks.append(pa.total_allocated_bytes() - before)
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sweep, "cells", peak)
        outcome, _ = sweep_file(engine, "a.parquet", content)
    assert (outcome.withheld, outcome.reason) == (True, "too_large")
    assert max(peaks) < 300_000_000


def test_a_broken_file_is_withheld(engine: Redactor, sweep_file: SweepFile) -> None:
    outcome, swept = sweep_file(engine, "a.parquet", b"PAR1" + b"jane@example.org" * 9 + b"PAR1")
    assert (outcome.withheld, outcome.reason, swept) == (True, "broken", None)


def test_a_damaged_page_is_withheld(engine: Redactor, sweep_file: SweepFile) -> None:
    content = bytearray(_file({"a": [f"jane{number}@example.org" for number in range(2000)]}, compression="zstd"))
    content[60:100] = b"\xff" * 40
    outcome, swept = sweep_file(engine, "a.parquet", bytes(content))
    assert (outcome.withheld, swept) == (True, None)


def test_detect_counts_every_row(sweep_file: SweepFile) -> None:
    engine = engine_of(mode="detect")
    outcome, swept = sweep_file(engine, "a.parquet", _file({"n": [_CARD, 1], "b": [b"\xff", b"jane@example.org"]}))
    assert (outcome.values, swept) == (2, None)
