from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from redaction.model import Column, Mention, ModelError
from redaction.redactor import Redactor
from tests.unit.redaction.conftest import SweepFile, engine_of
from tests.unit.redaction.malformed import MALFORMED


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_text_keeps_its_encoding_and_line_ends(engine: Redactor, sweep_file: SweepFile, encoding: str) -> None:
    text = "Grüße an jané@example.org\r\nfür 5 €\n"
    outcome, swept = sweep_file(engine, "a.txt", text.encode(encoding))
    assert (outcome.kind, outcome.values) == ("text", 1)
    assert swept == text.replace("jané@example.org", "[EMAIL_ADDRESS]").encode(encoding)


@pytest.mark.parametrize(
    "content",
    [b"\x00\x01jane@example.org", b"%PDF-1.7 jane@example.org", b"\xff\xfe\x00\xd8", b"caf\xe9 \x02 jane@example.org"],
)
def test_a_file_that_no_rule_can_read_is_withheld(engine: Redactor, sweep_file: SweepFile, content: bytes) -> None:
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
    engine: Redactor, sweep_file: SweepFile, name: str, content: str, swept: str
) -> None:
    assert sweep_file(engine, name, content.encode())[1] == swept.encode()


def test_a_failed_sweep_leaves_no_copy_and_no_counts(
    engine: Redactor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("jane@example.org\n" * 100_000)
    model = _Broken()
    broken = Redactor(
        {"mode": "redact", "categories": "all", "min_confidence": 0.8, "max_model_calls": 9, "parquet_sample_rows": 1},
        model,
    )
    with pytest.raises(ModelError):
        broken.file(source, target, "a.txt")
    assert list(tmp_path.iterdir()) == [source]
    assert broken.counts["values"] == broken.counts["files"] == 0


class _Broken:
    def find(self, text: str, categories: Collection[str], _: Sequence[Column] = ()) -> list[Mention]:
        raise ConnectionError


def test_a_line_in_another_encoding_makes_a_file_no_other_one(engine: Redactor, sweep_file: SweepFile) -> None:
    above, below = "für größere Bögen über\n".encode(), "José".encode("latin-1")
    outcome, swept = sweep_file(engine, "a.txt", above + b"Name: " + below + b" Ruiz, jane@example.org \xe9\n")
    assert (outcome.kind, outcome.values) == ("text", 2)
    assert swept == above + b"Name: [PERSON], [EMAIL_ADDRESS] \xe9\n"


@pytest.mark.parametrize(
    "content",
    [
        b"\n\n%PDF-1.4 text",
        b"\xef\xbb\xbf{\\rtf1 text}",
        b"-----BEGIN PGP MESSAGE-----\n\nabcd",
        b"begin 644 a.txt\nMabc",
    ],
)
def test_text_in_an_encoding_of_its_own_is_withheld(engine: Redactor, sweep_file: SweepFile, content: bytes) -> None:
    outcome, copy = sweep_file(engine, "a.txt", content)
    assert (outcome.reason, copy) == ("binary", None)


@pytest.mark.parametrize("name", ["a.txt", "a.dat", "a"])
@pytest.mark.parametrize(
    ("text", "swept", "kind"),
    [
        (
            "Vorname;Nachname;Ort\nOttilie;Brand;Ulm\nAnn;Beer;Bonn\n",
            "Vorname;Nachname;Ort\n[PERSON];[PERSON];[LOCATION]\n[PERSON];[PERSON];[LOCATION]\n",
            "csv",
        ),
        (
            "first_name,note,city\nRosalind,call 4111 1111 1111 1111,Ilkley\n\nMy name is Jane Doe, and I live here.\n",
            "first_name,note,city\n[PERSON],call [CREDIT_CARD],[LOCATION]\n\nMy name is [PERSON], and I live here.\n",
            "csv",
        ),
        (
            "Staff\n\n| First name | Colour |\n|---|---|\n| Ottilie | Green |\n",
            "Staff\n\n| First name | Colour |\n|---|---|\n| [PERSON] | Green |\n",
            "text",
        ),
        ("name, city\nwas all we saw\nof it\n", "name, city\nwas all we saw\nof it\n", "text"),
        ("colour;size;city\nred;big;Ulm\n", "colour;size;city\nred;big;Ulm\n", "text"),
    ],
)
def test_a_table_is_known_by_its_rows_whatever_its_extension(
    engine: Redactor, sweep_file: SweepFile, name: str, text: str, swept: str, kind: str
) -> None:
    outcome, copy = sweep_file(engine, name, text.encode())
    assert (outcome.kind, copy) == (kind, swept.encode())
    assert outcome.values == swept.count("[")


@pytest.mark.parametrize(
    ("content", "swept"),
    [
        (b"Vorname;Nachname\r\nOttilie;Brandst\xfctter\r\n", b"Vorname;Nachname\r\n[PERSON];[PERSON]\r\n"),
        (b"Vorname;Farbe\nOttilie;gr\xfcn\n", b"Vorname;Farbe\n[PERSON];gr\xfcn\n"),
        (b"Vorname;Farbe\nOttilie;\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xfc\n", None),
    ],
)
def test_a_mark_of_utf_8_does_not_hide_that_a_byte_is_in_another_encoding(
    engine: Redactor, sweep_file: SweepFile, content: bytes, swept: bytes | None
) -> None:
    marked = sweep_file(engine, "a.csv", b"\xef\xbb\xbf" + content)[1]
    assert marked == b"\xef\xbb\xbf" + (swept or content.replace(b"Ottilie", b"[PERSON]"))
