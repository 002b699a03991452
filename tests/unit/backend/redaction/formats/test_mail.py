"""Mail: whatever the encoding of a part, no value stays in the copy, and the copy is a message of the same parts."""

from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import pytest

from backend.redaction.engine import RedactionEngine
from backend.redaction.formats.mail import WITHHELD
from backend.workflows.pii_policy import normalise

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
    engine = RedactionEngine(normalise({"mode": mode}))
    outcome = engine.sweep_file(source, target, "a.eml")
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
    assert found["From"] == "[PERSON] <[EMAIL_ADDRESS]>"
    assert found["To"] == "[PERSON] <[EMAIL_ADDRESS]>, [EMAIL_ADDRESS]"
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
    outcome = RedactionEngine(normalise({"mode": "redact"})).sweep_file(source, tmp_path / "b", "a.eml")
    assert (outcome.withheld, outcome.reason) == (True, reason)
    assert not (tmp_path / "b").exists()
