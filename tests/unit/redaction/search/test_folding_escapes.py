"""Escaped values are found, and what is rendered reveals none; what only looks like a value stays."""

from email import message_from_string
from email.utils import getaddresses

import pytest

from backend.resources.renderings.program import markdown
from redaction.redactor import Redactor
from tests.unit.redaction.conftest import SweepFile

_HIDDEN = [
    r"jane.doe77\@mail.example",
    "jane.doe77&#64;mail.example",
    "jane.doe77&#x40;mail&period;example",
    "jane.doe77&commat;mail.example",
    "jane.doe77&amp;#64;mail.example",
    r"<mailto:jane.doe77\u0040mail.example>",
    r"jane.doe77\x40mail.example",
    "mailto:jane%2Edoe77%40mail%2Eexample",
    "jane.doe77@ma&shy;il.example",
    "jane.doe77@**mail**.example",
    "[write](mailto:jane.doe77&#64;mail.example)",
    "jane.doe77<!-- -->@mail.example",
    "jane.doe77@<!-- of work -->mail.example",
]
_AS_WRITTEN = [
    r"jane.doe77\N{COMMERCIAL AT}mail.example",
    r"jane.doe77\40 mail.example",
    r"jane.doe77\000040mail.example",
    r"jane.doe77\0040mail.example",
    r"jane.doe77\'40mail.example",
    "jane.doe77+++@+++mail.example",
    "jane.doe77 (at) mail.example",
    "jane.doe77[at]mail[dot]example",
    "jane.doe77 [AT] mail [DOT] example",
    '"jane doe77"@mail.example',
    "jane.doe77@[192.168.1.77]",
    "jane.doe77@[IPv6:2001:db8::77]",
]


@pytest.mark.parametrize("text", _AS_WRITTEN)
def test_an_address_in_another_notation_goes_whole(engine: Redactor, text: str) -> None:
    assert engine.text(f"Write to {text} today.") == "Write to [EMAIL_ADDRESS] today."


@pytest.mark.parametrize(
    "text", ["look (at) noon", "f(at) and g(dot) x", "a <!-- b --> c", r"\400 and \40", "a+++b+++c"]
)
def test_a_sign_that_no_address_holds_stays(engine: Redactor, text: str) -> None:
    assert engine.text(text) == text


@pytest.mark.parametrize("text", _HIDDEN)
def test_what_is_rendered_reveals_no_escaped_value(engine: Redactor, sweep_file: SweepFile, text: str) -> None:
    _, swept = sweep_file(engine, "page.md", f"# Page\n\nWrite to {text} today\\.\n".encode())
    assert swept is not None
    shown = markdown({"text": swept.decode()}, [])
    assert "doe77" not in shown
    assert "EMAIL_ADDRESS" in shown
    assert "Write to" in shown
    assert "today." in shown


@pytest.mark.parametrize(
    "text",
    [
        "logo@2x.png",
        "icon@3x~ipad.png",
        "bundle@1.2.3.js",
        "lib@1.2.3.zip",
        "react@18.2.0.development.js",
        "style@main.min.css",
        "@scope/pkg@1.0.0",
        "getty@tty1.service",
        "phone 123e4567-e89b-12d3-a456-426614174000",
        "phone 12345678-1234-1234-1234-123456789012",
    ],
)
def test_names_of_files_and_ids_are_no_values(engine: Redactor, text: str) -> None:
    assert engine.text(text) == text
    assert engine.value({"note": text}) == {"note": text}


@pytest.mark.parametrize("text", ["jane@example.com.xml", "export/jane.doe@163.com.tar.gz", "jane@firma.koeln.pdf"])
def test_a_file_named_by_an_address_holds_that_address(engine: Redactor, text: str) -> None:
    assert "[EMAIL_ADDRESS]" in engine.text(text)
    assert "[EMAIL_ADDRESS]" in engine.name(text)


def test_headers_of_a_swept_mail_are_addresses_to_a_parser(engine: Redactor, sweep_file: SweepFile) -> None:
    given = (
        'From: Jane Doe <jane@mail.example>\nTo: bob.smith@mail.example, "Roe, Jane" <j.roe@mail.example>\n'
        "Message-ID: <abc@mail.example>\n\nHello\n"
    )
    _, swept = sweep_file(engine, "a.eml", given.encode())
    assert swept is not None
    message = message_from_string(swept.decode())
    address = "EMAIL_ADDRESS@redacted.invalid"
    assert message["From"] == f'"[PERSON]" <{address}>'
    assert getaddresses([message["To"]]) == [("", address), ("[PERSON]", address)]
    assert message["Message-ID"] == f"<{address}>"


def test_placeholders_stay_legal_in_calendars_and_dumps(engine: Redactor, sweep_file: SweepFile) -> None:
    _, calendar = sweep_file(engine, "a.ics", b"BEGIN:VEVENT\r\nATTENDEE;CN=Jane Doe:mailto:jane@mail.example\r\n")
    _, dump = sweep_file(engine, "a.sql", b"UPDATE t SET card=4111111111111111;")
    assert calendar is not None
    assert b"mailto:EMAIL_ADDRESS@redacted.invalid" in calendar
    assert dump == b"UPDATE t SET card='[CREDIT_CARD]';"
