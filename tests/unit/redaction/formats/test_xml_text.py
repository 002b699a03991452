"""XML and HTML: texts and attributes are swept by their names, marks stay, and nothing is expanded."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redaction.formats import xml_text
from redaction.formats.xml_text import sweep_xml
from redaction.redactor import Redactor
from tests.unit.redaction.conftest import SweepFile
from tests.unit.redaction.formats.pieces import collecting, pieces_of

MAIL = "jane.roe@example.com"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<a><surname>Roe</surname> 1</a>", "<a><surname>[PERSON]</surname> 1</a>"),
        ("<a surname='Roe' id=\"7\" />", "<a surname='[PERSON]' id=\"7\" />"),
        ("<name><first>Jane</first><x>y</x></name>", "<name><first>[PERSON]</first><x>y</x></name>"),
        (
            "<a xmlns:x='http://example.org/a' href='http://example.org/b'/>",
            "<a xmlns:x='http://example.org/a' href='[URL]'/>",
        ),
        ("<n:a n:surname = 'Roe'>coat</n:a>", "<n:a n:surname = '[PERSON]'>coat</n:a>"),
        ("<a>jane.roe&#64;example.com &lt;&amp; &#x40;</a>", "<a>[EMAIL_ADDRESS] &lt;&amp; @</a>"),
        (f"<a b='&quot;{MAIL}'/>", "<a b='&quot;[EMAIL_ADDRESS]'/>"),
        (f"<a>{MAIL} &own;</a>", "<a>[EMAIL_ADDRESS] &own;</a>"),
        (
            f"<a><![CDATA[{MAIL} <b>]]><!-- {MAIL} --></a>",
            "<a><![CDATA[[EMAIL_ADDRESS] <b>]]><!-- [EMAIL_ADDRESS] --></a>",
        ),
        (
            f"<?pi {MAIL}?><!DOCTYPE a [<!ENTITY x '{MAIL}'>]><a/>",
            "<?pi [EMAIL_ADDRESS]?><!DOCTYPE a [<!ENTITY x '[EMAIL_ADDRESS]'>]><a/>",
        ),
        (
            f"<p>1 < 2 {MAIL}<br>x<a {MAIL} href=mailto:{MAIL}>",
            "<p>1 < 2 [EMAIL_ADDRESS]<br>x<a [EMAIL_ADDRESS] href=mailto:[EMAIL_ADDRESS]>",
        ),
        (f'<a b="{MAIL}> <surname>Roe</surname>', '<a b="[EMAIL_ADDRESS]> <surname>[PERSON]</surname>'),
    ],
)
def test_what_is_no_mark_is_swept(engine: Redactor, sweep_file: SweepFile, text: str, expected: str) -> None:
    outcome, swept = sweep_file(engine, "a.xml", text.encode())
    assert outcome.kind == "xml"
    assert swept == expected.encode()


def test_a_document_is_known_by_its_declaration(engine: Redactor, sweep_file: SweepFile) -> None:
    document = b"<?xml version='1.0' encoding='iso-8859-1'?><a surname='Roe'>\xe9 &#20013; jane@example.org</a>"
    swept = sweep_file(engine, "export", document)[1]
    assert swept is not None
    root = ET.fromstring(swept)  # noqa: S314 - made above
    assert (root.get("surname"), root.text) == ("[PERSON]", "\xe9 \u4e2d [EMAIL_ADDRESS]")


def test_a_term_of_a_list_is_the_label_of_its_description(engine: Redactor, sweep_file: SweepFile) -> None:
    text = b"<dl><dt>Surname</dt><dd>Roe</dd><dt>Note</dt><dd>Roof</dd></dl>"
    assert sweep_file(engine, "a.html", text)[1] == text.replace(b"<dd>Roe", b"<dd>[PERSON]")


def test_entities_that_stand_for_one_another_are_not_expanded(engine: Redactor, sweep_file: SweepFile) -> None:
    declared = "".join(f"<!ENTITY l{n + 1} '{f'&l{n};' * 10}'>" for n in range(12))
    bomb = f"<!DOCTYPE a [<!ENTITY l0 '{MAIL}'>{declared}]><a>&l12;</a>"
    assert sweep_file(engine, "a.xml", bomb.encode())[1] == bomb.replace(MAIL, "[EMAIL_ADDRESS]").encode()


@given(
    pieces=st.lists(
        st.sampled_from(["<a>", "</a>", "<a b='c'", ">", "x &amp; y", "<!--", "-->", '"', "<", "\n"]), max_size=20
    ),
    size=st.integers(1, 9),
)
def test_xml_without_values_stays_as_it_is(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xml_text, "BATCH", 1)
        assert "".join(sweep_xml(pieces_of(text, size), collecting([]))) == text


@pytest.mark.parametrize(
    ("text", "swept"),
    [
        ('<field name="surname">Achterberg</field>', '<field name="surname">[PERSON]</field>'),
        ('<f name="surname"><value>Achterberg</value></f>', '<f name="surname"><value>[PERSON]</value></f>'),
        ('<property key="city" value="Ilkley"/>', '<property key="city" value="[LOCATION]"/>'),
        ('<input type="text" name="surname" value="Brand">', '<input type="text" name="surname" value="[PERSON]">'),
        ('<f name="colour">Green</f>', '<f name="colour">Green</f>'),
        (
            "<dict><key>surname</key><string>Brand</string><key>colour</key><string>Green</string></dict>",
            "<dict><key>surname</key><string>[PERSON]</string><key>colour</key><string>Green</string></dict>",
        ),
    ],
)
def test_a_label_that_stands_as_a_value_names_the_value_beside_it(
    engine: Redactor, sweep_file: SweepFile, text: str, swept: str
) -> None:
    assert sweep_file(engine, "a.xml", text.encode())[1] == swept.encode()


@pytest.mark.parametrize("beginning", ["", "<!DOCTYPE plist>\n", "<?xml version='1.0'?>"])
def test_a_property_list_is_known_by_its_beginning(engine: Redactor, sweep_file: SweepFile, beginning: str) -> None:
    text = f"{beginning}<plist><dict><key>city</key><string>Ulm</string></dict></plist>"
    assert sweep_file(engine, "a.plist", text.encode())[1] == text.replace("Ulm", "[LOCATION]").encode()
