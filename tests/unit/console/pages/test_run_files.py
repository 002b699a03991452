import re
from typing import Any

import pytest
from markupsafe import escape

from console.visit import FileDownload, View
from contract.refusals import Refusal
from tests.unit.console.run_answers import EVIL, HERE, services
from tests.unit.console.seen import MemoryServices, answered, html
from workflow_api.v1.outputs_pb2 import DownloadHeader, GetOutputContentResponse, GetOutputsZipResponse
from workflow_api.v1.previews_pb2 import OutputPreview
from workflow_api.v1.reviews_pb2 import ReviewFile, ReviewRow, ReviewTable, ReviewText

ONE = "/runs/{run_id}/outputs/{output_id}"
OUTPUT = {**HERE, "output_id": "out_1"}


def shown(file: ReviewFile, **preview: Any) -> str:
    answer = OutputPreview(file=file, **preview)
    return html(answered(services(GetOutputPreview=answer), "GET", ONE, OUTPUT))


def test_text_is_shown_escaped() -> None:
    page = shown(ReviewFile(path=EVIL, media_type="text/plain", text=ReviewText(text=EVIL)))
    assert "&lt;script&gt;" in page
    assert EVIL not in page


def test_a_text_of_characters_that_take_much_room_stays_within_the_bound_of_a_page() -> None:
    for character in ('"', "\u202e", "é"):
        page = shown(ReviewFile(path="a.txt", media_type="text/plain", text=ReviewText(text=character * 60_000)))
        assert len(page.encode()) < 100_000
        assert "The rest is not shown" in page


def test_markdown_is_shown_as_clean_html() -> None:
    file = ReviewFile(path="a.md", media_type="text/markdown", text=ReviewText(text="# T"))
    page = shown(file, html=f"<h1>T</h1>{EVIL}")
    assert "<h2>T</h2>" in page
    assert "alert" not in page


@pytest.mark.parametrize(
    "cell", [EVIL + "x" * 270, "&" * 300, "\N{GRINNING FACE}" * 300], ids=["tags", "escaped", "wide"]
)
@pytest.mark.parametrize("columns", [1, 12, 30])
def test_all_rows_of_a_table_are_shown_within_the_bound_of_a_page(cell: str, columns: int) -> None:
    rows = [ReviewRow(cells=[cell] * columns)] * 200
    page = shown(ReviewFile(path="a.csv", table=ReviewTable(columns=[cell] * columns, rows=rows)))
    assert len(page.encode()) < 100_000
    assert page.count("<tr>") == 201
    assert EVIL not in page
    assert ("with long texts cut" in page) == (len(escape(cell).encode()) * columns > 400)


def test_columns_of_a_wide_table_are_shown_in_groups() -> None:
    table = ReviewTable(columns=[f"c{n}" for n in range(30)], rows=[ReviewRow(cells=[f"v{n}" for n in range(30)])])
    answer = OutputPreview(file=ReviewFile(path="a.csv", table=table))
    for chosen, first, last in (("", 0, 11), ("2", 12, 23), ("3", 24, 29), ("4", 0, 11), ("x", 0, 11)):
        backend = services(GetOutputPreview=answer)
        page = html(answered(backend, "GET", ONE, OUTPUT, query={"columns": chosen}))
        cells = re.findall("<td>v([0-9]+)</td>", page)
        assert (cells[0], cells[-1]) == (str(first), str(last))
    assert '<a href="?columns=3">25 to 30</a>' in page
    assert "cut" not in page


def test_json_is_shown_as_a_tree() -> None:
    text = '{"a": {"b": "<i>"}}'
    page = shown(ReviewFile(path="a.json", media_type="application/json", text=ReviewText(text=text)))
    assert re.search(r'<details open><summary><b>a</b> <span class="soft">1 member</span>', page)
    assert "<code>&#34;&lt;i&gt;&#34;</code>" in page


def test_an_image_is_shown_unless_it_may_hold_script() -> None:
    assert '<img src="/runs/run_1/outputs/out_1/image" alt="a.png" loading="lazy">' in shown(
        ReviewFile(path="a.png", media_type="image/png")
    )
    assert "<img" not in shown(ReviewFile(path="a.svg", media_type="image/svg+xml", problem="No."))


@pytest.mark.parametrize("code", ["output_not_found", "run_not_terminal", "redaction_pending", "run_not_found"])
def test_an_output_that_cannot_be_read_is_reported(code: str) -> None:
    answer = answered(services(GetOutputPreview=Refusal(code, "Not yet.")), "GET", ONE, OUTPUT)
    assert isinstance(answer, View)
    assert answer.status == 404
    assert "Not yet." in html(answer)


def streaming(media_type: str) -> MemoryServices:
    backend = services()
    header = DownloadHeader(media_type=media_type, file_name="a.x", length=3)
    backend.streams["OutputsService/GetOutputContent"] = [
        GetOutputContentResponse(header=header),
        GetOutputContentResponse(data=b"abc"),
    ]
    backend.streams["OutputsService/GetOutputsZip"] = [
        GetOutputsZipResponse(header=header),
        GetOutputsZipResponse(data=b"zip"),
    ]
    return backend


@pytest.mark.parametrize(("path", "content"), [(ONE + "/download", b"abc"), ("/runs/{run_id}/outputs.zip", b"zip")])
def test_outputs_are_downloaded_one_by_one_or_zipped(path: str, content: bytes) -> None:
    found = answered(streaming("text/html"), "GET", path, OUTPUT)
    assert isinstance(found, FileDownload)
    assert (found.file_name, found.length, found.inline) == ("a.x", 3, False)


@pytest.mark.parametrize(
    ("media_type", "inline"), [("image/png", True), ("image/svg+xml", False), ("text/html", False)]
)
def test_only_images_are_sent_to_be_shown(media_type: str, inline: bool) -> None:
    found = answered(streaming(media_type), "GET", ONE + "/image", OUTPUT)
    assert (isinstance(found, FileDownload) and found.inline) == inline
