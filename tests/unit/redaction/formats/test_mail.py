"""Mail: whatever the encoding of a part, no value stays in the copy, and the copy is a message of the same parts."""

from base64 import b64encode, encodebytes
from collections.abc import Collection, Sequence
from contextlib import closing
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.policy import SMTP
from mailbox import mbox
from pathlib import Path
from typing import Any

import pytest

from redaction.formats.mail import WITHHELD
from redaction.model import Column, Mention
from redaction.redactor import Redactor

MAIL = "jane.roe@example.com"


def message(text: str = f"write to {MAIL}\n", **options: Any) -> EmailMessage:
    made = EmailMessage()
    made["From"] = f"Jane Roe <{MAIL}>"
    made["Subject"] = "Report"
    made.set_content(text, **options)
    return made


def swept(made: EmailMessage | bytes, folder: Path, mode: str = "redact") -> tuple[EmailMessage, dict[str, Any]]:
    source, target = folder / "a.eml", folder / "swept.eml"
    source.write_bytes(made if isinstance(made, bytes) else made.as_bytes(policy=SMTP))
    engine = Redactor({"mode": mode})
    outcome = engine.file(source, target, "a.eml")
    assert (outcome.kind, outcome.withheld) == ("mail", False)
    read = target.read_bytes() if mode == "redact" else source.read_bytes()
    found = message_from_bytes(read)
    assert MAIL.encode() not in read or mode == "detect"
    return found, engine.counts  # type: ignore[return-value]  # the same interface


def texts(found: Any) -> list[str]:
    parts = [part for part in found.walk() if not part.is_multipart()]
    return [part.get_payload(decode=True).decode(part.get_content_charset("utf-8")) for part in parts]


@pytest.mark.parametrize("encoding", ["7bit", "base64", "quoted-printable"])
def test_a_text_is_swept_in_each_transfer_encoding(tmp_path: Path, encoding: str) -> None:
    found, counts = swept(message(cte=encoding), tmp_path)
    assert [text.rstrip() for text in texts(found)] == ["write to [EMAIL_ADDRESS]"]
    assert found["Content-Transfer-Encoding"] == encoding
    assert counts["categories"]["EMAIL_ADDRESS"] == 2


def test_a_text_keeps_its_character_set(tmp_path: Path) -> None:
    found, _ = swept(message(f"Łódź: {MAIL}", charset="iso-8859-2"), tmp_path)
    assert texts(found)[0].rstrip() == "Łódź: [EMAIL_ADDRESS]"
    assert found.get_content_charset() == "iso-8859-2"


def test_names_beside_addresses_and_encoded_headers_are_swept(tmp_path: Path) -> None:
    made = message("nothing")
    made["To"] = f'"Müller, Jörg" <jm@example.de>, {MAIL}'
    made["X-Note"] = f"über {MAIL}"
    made["X-Plain"] = "unchanged  text"
    found, _ = swept(made, tmp_path)
    assert found["From"] == '"[PERSON]" <EMAIL_ADDRESS@redacted.invalid>'
    assert found["To"] == '"[PERSON]" <EMAIL_ADDRESS@redacted.invalid>, EMAIL_ADDRESS@redacted.invalid'
    assert str(make_header(decode_header(found["X-Note"]))) == "über [EMAIL_ADDRESS]"
    assert found["X-Plain"] == "unchanged  text"


def test_attachments_are_swept_as_their_own_kinds_of_file(tmp_path: Path) -> None:
    made = message()
    table, pdf = b"full name;city\nJane Roe;Berlin\n", b"%PDF-1.4 jane.roe@example.com"
    made.add_attachment(table, maintype="text", subtype="csv", filename=f"{MAIL}.csv")
    made.add_attachment(pdf, maintype="application", subtype="pdf", filename="b.pdf")
    found, counts = swept(made, tmp_path)
    assert texts(found)[1:] == ["full name;city\n[PERSON];[LOCATION]\n", WITHHELD.replace("\n", "\r\n")]
    assert [part.get_filename() for part in found.walk()][2:] == ["[EMAIL_ADDRESS].csv", None]
    assert (counts["files"], counts["binary_files"], counts["withheld_files"]) == (3, 1, 1)


def test_an_attached_message_is_swept_too(tmp_path: Path) -> None:
    made = message("see below")
    made.add_attachment(message(cte="base64"))
    found, counts = swept(made, tmp_path)
    assert texts(found)[1].strip() == "write to [EMAIL_ADDRESS]"
    assert counts["categories"] == {"EMAIL_ADDRESS": 3, "PERSON": 2}


def test_the_number_of_a_boundary_is_no_value(tmp_path: Path) -> None:
    made = message("see below")
    made.add_attachment(message(cte="base64"))
    made.set_boundary("===============4111111111111111==")
    found, counts = swept(made, tmp_path)
    assert found.get_boundary() == "===============4111111111111111=="
    assert counts["categories"] == {"EMAIL_ADDRESS": 3, "PERSON": 2}


def test_detection_counts_what_redaction_replaces_and_what_it_did_not_read(tmp_path: Path) -> None:
    made = message(cte="base64")
    made.add_attachment(b"\0\1\2", maintype="image", subtype="png", filename="a.png")
    _, counts = swept(made, tmp_path, "detect")
    assert counts["categories"] == {"EMAIL_ADDRESS": 2, "PERSON": 1}
    assert (counts["binary_files"], counts["withheld_files"]) == (1, 0)


def test_what_stands_around_the_parts_is_swept(tmp_path: Path) -> None:
    raw = (
        f"Subject: x\nContent-Type: multipart/mixed; boundary=b; note={MAIL}\n\nfrom {MAIL}\n"
        f"--b\n\ntext\n--b--\nto {MAIL}\n"
    )
    found, counts = swept(raw.encode(), tmp_path)
    assert (found.preamble, found.epilogue) == ("from [EMAIL_ADDRESS]", "to [EMAIL_ADDRESS]\n")
    assert counts["categories"] == {"EMAIL_ADDRESS": 3}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"no header\n", "broken"),
        (b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(9)), "too_deep"),
        (b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\na\n" * 3_000, "too_many_members"),
    ],
)
def test_a_message_that_is_none_or_past_the_bounds_is_withheld(tmp_path: Path, raw: bytes, reason: str) -> None:
    source = tmp_path / "a.eml"
    source.write_bytes(raw)
    outcome = Redactor({"mode": "redact"}).file(source, tmp_path / "b", "a.eml")
    assert (outcome.withheld, outcome.reason) == (True, reason)
    assert not (tmp_path / "b").exists()


def test_a_loosely_written_encoding_is_read_like_a_plain_one(tmp_path: Path) -> None:
    raw = message(cte="base64").as_bytes().replace(b"Encoding: base64", b'Encoding: "BASE64" (text)')
    found, _ = swept(raw, tmp_path)
    assert texts(found)[0].rstrip() == "write to [EMAIL_ADDRESS]"


@pytest.mark.parametrize(("kind", "encoding"), [("text/plain", "x-other"), ("multipart/mixed", "base64")])
def test_a_part_that_no_parser_reads_is_withheld(tmp_path: Path, kind: str, encoding: str) -> None:
    body = b64encode(MAIL.encode()).decode()
    found, counts = swept(f"Content-Type: {kind}\nContent-Transfer-Encoding: {encoding}\n\n{body}\n".encode(), tmp_path)
    assert found.get_payload() == WITHHELD
    assert counts["withheld_files"] == 1


def test_a_message_in_base64_is_swept_as_one(tmp_path: Path) -> None:
    inner = encodebytes(message(cte="base64").as_bytes()).decode()
    head = "From: a@roe.co\nContent-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n"
    found, counts = swept((head + inner).encode(), tmp_path)
    assert texts(found)[0].rstrip() == "write to [EMAIL_ADDRESS]"
    assert counts["categories"]["EMAIL_ADDRESS"] == 3


def test_a_name_in_a_header_is_found_again_in_the_text(tmp_path: Path) -> None:
    made = message("Quirin told Abelung.\n")
    made["To"] = "Quirin Abelung <q@example.com>"
    found, _ = swept(made, tmp_path)
    assert texts(found)[0].rstrip() == "[PERSON] told [PERSON]."


def test_a_model_changes_no_transfer_encoding(tmp_path: Path) -> None:
    class Everything:
        def find(self, text: str, categories: Collection[str], columns: Sequence[Column] = ()) -> Sequence[Mention]:
            del categories, columns
            return [Mention("PERSON", line, 0.9) for line in text.splitlines() if line.strip()]

    made = message(cte="base64")
    made.add_attachment(b"%PDF-1.4 " + MAIL.encode(), maintype="application", subtype="pdf", filename="a.pdf")
    source, target = tmp_path / "a.eml", tmp_path / "b.eml"
    source.write_bytes(made.as_bytes())
    Redactor({"mode": "redact", "model": "local"}, Everything()).file(source, target, "a.eml")
    found = message_from_bytes(target.read_bytes())
    assert [text.rstrip() for text in texts(found)] == ["[EMAIL_ADDRESS]", WITHHELD.rstrip()]


@pytest.mark.parametrize("name", ["a.mbox", "mail.txt"])
def test_a_mailbox_is_swept_message_by_message(tmp_path: Path, name: str) -> None:
    one = b"From jane@roe.co Mon Jan  1 00:00:00 2024\n" + message(cte="base64").as_bytes() + b"\n"
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(one + one)
    engine = Redactor({"mode": "redact"})
    assert engine.file(source, target, name).kind == "mail"
    with closing(mbox(target)) as box:
        swept_messages = [texts(found)[0].rstrip() for found in box]
    assert swept_messages == ["write to [EMAIL_ADDRESS]"] * 2
    assert b"roe" not in target.read_bytes().lower()


@pytest.mark.parametrize("name", ["a.txt", "a.mht", "mail"])
def test_mail_is_known_by_its_headers_whatever_its_name(tmp_path: Path, name: str) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(message(cte="base64").as_bytes())
    assert Redactor({"mode": "redact"}).file(source, target, name).kind == "mail"
    assert texts(message_from_bytes(target.read_bytes()))[0].rstrip() == "write to [EMAIL_ADDRESS]"


def test_broken_attached_messages_are_withheld_and_the_one_behind_them_is_swept(tmp_path: Path) -> None:
    made = message()
    for index in range(5):
        made.add_attachment(b"no header\n", maintype="application", subtype="octet-stream", filename=f"{index}.eml")
    made.add_attachment(message().as_bytes(), maintype="application", subtype="octet-stream", filename="last.eml")
    found, counts = swept(made, tmp_path)
    *_, last = texts(found)
    assert counts["withheld_files"] == 5
    assert "[EMAIL_ADDRESS]" in last


def test_names_of_files_hold_no_name_that_stands_beside_an_address(tmp_path: Path) -> None:
    made = EmailMessage()
    made["From"] = f"Jane Penhaligon <{MAIL}>"
    made.set_content("Hello")
    for name in ("rota_Penhaligon.txt", "Jane Penhaligon.txt", "rota.txt"):
        made.add_attachment("a", filename=name)
    found, _ = swept(made, tmp_path)
    assert [part.get_filename() for part in found.walk()][2:] == ["rota_[PERSON].txt", "[PERSON].txt", "rota.txt"]
