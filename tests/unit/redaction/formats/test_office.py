"""Documents and workbooks: what a reader sees is swept, the rest stays, and what cannot be searched is withheld."""

import io
import zipfile
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pytest
from docx.opc.constants import RELATIONSHIP_TYPE
from openpyxl.comments import Comment
from openpyxl.styles import Font
from openpyxl.worksheet.table import Table

from redaction.formats.outcome import FileOutcome
from redaction.redactor import Redactor

MAIL = "jane.roe@example.com"


def document() -> Any:
    made = docx.Document()
    made.core_properties.author = "Jane Roe"
    paragraph = made.add_paragraph("Write to jane.")
    paragraph.add_run("roe@exam").bold = True
    paragraph.add_run("ple.com & <others>.").italic = True
    made.add_table(1, 2).cell(0, 1).text = "DE89370400440532013000"
    made.sections[0].header.paragraphs[0].text = f"of {MAIL}"
    return made


def workbook() -> openpyxl.Workbook:
    made = openpyxl.Workbook()
    made.properties.creator = "Jane Roe"
    sheet = made.active
    assert sheet is not None
    for row in (["Customers"], ["id", "surname", "card"], [1, "Roe", 4111111111111111], [2, f"<{MAIL}>", 1.5]):
        sheet.append(row)
    sheet["B3"].font = Font(bold=True)
    sheet["D3"] = "=C3+1"
    assert sheet.oddFooter is not None
    sheet.oddFooter.center.text = MAIL
    return made


def swept(made: Any, folder: Path, name: str, mode: str = "redact") -> tuple[FileOutcome, dict[str, int]]:
    made.save(folder / name)
    engine = Redactor({"mode": mode})
    return engine.file(folder / name, folder / "swept", name), engine.counts["categories"]


def with_part(folder: Path, name: str, part: str, content: str) -> None:
    """Puts a part into the file, in place of one of the same name."""
    with zipfile.ZipFile(folder / name) as archive:
        parts = {one: archive.read(one) for one in archive.namelist()}
    with zipfile.ZipFile(folder / name, "w") as archive:
        for one, given in {**parts, part: content.encode()}.items():
            archive.writestr(one, given)


def test_texts_of_a_document_are_swept_over_its_runs(tmp_path: Path) -> None:
    outcome, counts = swept(document(), tmp_path, "a.docx")
    assert (outcome.kind, outcome.withheld) == ("office", False)
    assert counts == {"EMAIL_ADDRESS": 2, "IBAN_CODE": 1, "PERSON": 1}
    found = docx.Document(str(tmp_path / "swept"))
    runs = found.paragraphs[0].runs
    assert [(run.text, run.bold, run.italic) for run in runs] == [
        ("Write to [EMAIL_ADDRESS]", None, None),
        ("", True, None),
        (" & <others>.", None, True),
    ]
    assert found.tables[0].cell(0, 1).text == "[IBAN_CODE]"
    assert found.sections[0].header.paragraphs[0].text == "of [EMAIL_ADDRESS]"
    assert found.core_properties.author == "[PERSON]"


def test_cells_of_a_workbook_are_swept_by_the_names_of_their_columns(tmp_path: Path) -> None:
    outcome, counts = swept(workbook(), tmp_path, "a.xlsx")
    assert (outcome.kind, outcome.withheld) == ("office", False)
    assert counts == {"CREDIT_CARD": 1, "EMAIL_ADDRESS": 1, "PERSON": 3}
    found = openpyxl.load_workbook(io.BytesIO((tmp_path / "swept").read_bytes()))
    sheet = found.active
    assert sheet is not None
    assert [[cell.value for cell in row] for row in sheet.rows][1:] == [
        ["id", "surname", "card", None],
        [1, "[PERSON]", "[CREDIT_CARD]", "=C3+1"],
        [2, "[PERSON]", 1.5, None],
    ]
    assert sheet["B3"].font.bold
    assert sheet.oddFooter is not None
    assert (sheet.oddFooter.center.text, found.properties.creator) == ("[EMAIL_ADDRESS]", "[PERSON]")


def test_strings_that_cells_share_are_swept_with_their_columns(tmp_path: Path) -> None:
    made = openpyxl.Workbook()
    made.save(tmp_path / "a.xlsx")
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    rows = "".join(
        f'<row r="{row}"><c r="A{row}" t="s"><v>{first}</v></c><c r="B{row}" t="s"><v>{second}</v></c></row>'
        for row, first, second in ((1, 0, 1), (2, 2, 3))
    )
    strings = "".join(
        f"<si>{item}</si>"
        for item in ("<t>surname</t>", "<t>note</t>", "<r><t>R</t></r><r><t>oe</t></r>", "<t>x</t>", f"<t>{MAIL}</t>")
    )
    with_part(
        tmp_path, "a.xlsx", "xl/worksheets/sheet1.xml", f"<worksheet {space}><sheetData>{rows}</sheetData></worksheet>"
    )
    with_part(tmp_path, "a.xlsx", "xl/sharedStrings.xml", f"<sst {space}>{strings}</sst>")
    engine = Redactor({"mode": "redact"})
    assert not engine.file(tmp_path / "a.xlsx", tmp_path / "swept", "a.xlsx").withheld
    with zipfile.ZipFile(tmp_path / "swept") as archive:
        copy = archive.read("xl/sharedStrings.xml").decode()
    assert copy.count("[PERSON]") == copy.count("[EMAIL_ADDRESS]") == 1
    assert "Roe" not in copy.replace("</t></r><r><t>", "")
    assert MAIL not in copy


@pytest.mark.parametrize("made", [document, workbook])
def test_detection_counts_what_redaction_replaces(tmp_path: Path, made: Any) -> None:
    name = "a.docx" if made is document else "a.xlsx"
    assert swept(made(), tmp_path, name)[1] == swept(made(), tmp_path, name, "detect")[1]


def test_what_cannot_be_searched_withholds_the_whole_file(tmp_path: Path) -> None:
    commented = workbook()
    assert commented.active is not None
    commented.active["A1"].comment = Comment("Maria Gonzalez", "Jane")
    outcome, _ = swept(commented, tmp_path, "a.xlsx")
    assert (outcome.withheld, outcome.reason) == (True, "embedded")
    assert not (tmp_path / "swept").exists()


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("word/media/image1.png", "\x89PNG"),
        ("word/styles.xml", f"<w:styles xmlns:w='x' w:a='{MAIL}'/>"),
        ("word/document.xml", "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>"),
        ("word/document.xml", "<w:document xmlns:w='other'><w:t>Maria Gonzalez</w:t></w:document>"),
        (f"customXml/{MAIL}.xml", "<a/>"),
    ],
)
def test_a_part_of_another_form_withholds_a_document(tmp_path: Path, part: str, content: str) -> None:
    document().save(tmp_path / "a.docx")
    with_part(tmp_path, "a.docx", part, content)
    outcome = Redactor({"mode": "redact"}).file(tmp_path / "a.docx", tmp_path / "b", "a.docx")
    assert (outcome.withheld, outcome.reason) == (True, "embedded")


def test_a_document_that_expands_too_far_is_withheld(tmp_path: Path) -> None:
    document().save(tmp_path / "a.docx")
    with_part(tmp_path, "a.docx", "word/settings.xml", " " * 70_000_000)
    outcome = Redactor({"mode": "redact"}).file(tmp_path / "a.docx", tmp_path / "b", "a.docx")
    assert (outcome.withheld, outcome.reason) == (True, "too_large")


def test_cells_of_a_table_in_a_document_are_swept_by_the_names_of_their_columns(tmp_path: Path) -> None:
    made = docx.Document()
    made.core_properties.author = ""
    table = made.add_table(2, 2)
    for place, text in enumerate(("Surname", "City", "Roe", "Oakton")):
        table.cell(place // 2, place % 2).text = text
    made.save(str(tmp_path / "a.docx"))
    engine = Redactor({"mode": "redact"})
    assert not engine.file(tmp_path / "a.docx", tmp_path / "swept", "a.docx").withheld
    found = docx.Document(str(tmp_path / "swept")).tables[0]
    assert [[cell.text for cell in row.cells] for row in found.rows] == [
        ["Surname", "City"],
        ["[PERSON]", "[LOCATION]"],
    ]


def test_links_and_formulas_with_a_value_lose_it_and_the_workbook_stays(tmp_path: Path) -> None:
    made = workbook()
    sheet = made.active
    assert sheet is not None
    sheet["B4"].hyperlink = f"mailto:{MAIL}"
    sheet["B4"].hyperlink.tooltip = MAIL
    sheet["A3"].hyperlink = "rows.csv"
    sheet["E3"] = f'=HYPERLINK("mailto:{MAIL}","write")'
    outcome, counts = swept(made, tmp_path, "a.xlsx")
    assert not outcome.withheld
    assert counts["EMAIL_ADDRESS"] == 4
    with zipfile.ZipFile(tmp_path / "swept") as archive:
        assert all(b"jane" not in archive.read(name) for name in archive.namelist())
    copy = openpyxl.load_workbook(io.BytesIO((tmp_path / "swept").read_bytes()))
    cells = copy.active
    assert cells is not None
    assert [cells[place].hyperlink.target for place in ("B4", "A3")] == ["about:blank", "rows.csv"]
    assert (cells["D3"].value, cells["E3"].value or None) == ("=C3+1", None)


@pytest.mark.parametrize(("head", "withheld"), [("surname", False), (MAIL, True)])
def test_a_table_stays_if_the_names_of_its_columns_do(tmp_path: Path, head: str, withheld: bool) -> None:
    made = openpyxl.Workbook()
    sheet = made.active
    assert sheet is not None
    for row in ([head, "colour"], ["Roe", "Green"], ["Brand", "Red"]):
        sheet.append(row)
    sheet.add_table(Table(displayName="People", ref="A1:B3"))
    outcome, _ = swept(made, tmp_path, "a.xlsx")
    assert outcome.withheld is withheld
    if not withheld:
        copy = openpyxl.load_workbook(io.BytesIO((tmp_path / "swept").read_bytes())).active
        assert copy is not None
        assert [[cell.value for cell in row] for row in copy.rows][1:] == [["[PERSON]", "Green"], ["[PERSON]", "Red"]]
        assert copy.tables["People"].column_names == ["surname", "colour"]


def test_a_tab_divides_a_field_from_its_value_and_a_link_of_a_document_loses_its_target(tmp_path: Path) -> None:
    made = docx.Document()
    made.add_paragraph("Name:\t\tJane Roe")
    made.part.relate_to(f"mailto:{MAIL}", RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
    outcome, _ = swept(made, tmp_path, "a.docx")
    assert not outcome.withheld
    copy = docx.Document(io.BytesIO((tmp_path / "swept").read_bytes()))
    assert [paragraph.text for paragraph in copy.paragraphs] == ["Name:\t\t[PERSON]"]
    assert "about:blank" in {relation.target_ref for relation in copy.part.rels.values()}


def test_the_order_of_calculation_is_left_out_with_what_refers_to_it(tmp_path: Path) -> None:
    workbook().save(tmp_path / "a.xlsx")
    with zipfile.ZipFile(tmp_path / "a.xlsx") as archive:
        types = archive.read("[Content_Types].xml").decode()
        relations = archive.read("xl/_rels/workbook.xml.rels").decode()
    space = "http://schemas.openxmlformats.org"
    kind = f"{space}/officeDocument/2006/relationships/calcChain"
    override = '<Override PartName="/xl/calcChain.xml" ContentType="application/xml"/>'
    relation = f'<Relationship Id="rId99" Type="{kind}" Target="calcChain.xml"/>'
    with_part(tmp_path, "a.xlsx", "xl/calcChain.xml", '<calcChain><c r="D3" i="1"/></calcChain>')
    with_part(tmp_path, "a.xlsx", "[Content_Types].xml", types.replace("</Types>", f"{override}</Types>"))
    with_part(
        tmp_path,
        "a.xlsx",
        "xl/_rels/workbook.xml.rels",
        relations.replace("</Relationships>", f"{relation}</Relationships>"),
    )
    engine = Redactor({"mode": "redact"})
    assert not engine.file(tmp_path / "a.xlsx", tmp_path / "swept", "a.xlsx").withheld
    with zipfile.ZipFile(tmp_path / "swept") as archive:
        assert "xl/calcChain.xml" not in archive.namelist()
        assert all(b"calcChain" not in archive.read(name) for name in archive.namelist())
    assert openpyxl.load_workbook(io.BytesIO((tmp_path / "swept").read_bytes())).active is not None
