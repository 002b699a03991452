"""Files of approvals that people see whole: pictures, pages of documents, and rows of tables, swept by the policy."""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.services.reviews.servicer import ReviewsServicer
from tests.services.calls import Caller, RefusedError
from tests.services.runtime.conftest import RuntimeWorld
from tests.services.runtime.test_reviews import MAIL, SWEPT, Desk, files, parked
from workflow_api.v1 import reviews_pb2

AGENT = f"""
    import base64
    PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
        "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
    PDF = (b"%PDF-1.4\\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\\n"
        b"2 0 obj<</Type/Pages/Count 1/Kids[3 0 R]>>endobj\\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]>>endobj\\n"
        b"trailer<</Root 1 0 R/Size 4>>\\n%%EOF\\n")

    def run(context):
        out = context.outputs
        (out / "chart.png").write_bytes(PNG)
        (out / "document.pdf").write_bytes(PDF)
        (out / "list.json").write_text('[{{"n": 1.10, "to": "{MAIL}"}}, {{"n": 2}}]')
        (out / "notes.md").write_text("# Sums\\n\\n<script>1</script>")
        (out / "table.csv").write_text("name,mail\\n" + "".join(f"row {{n}},{MAIL}\\n" for n in range(250)))
        return {{}}
"""


@pytest.fixture(autouse=True)
def _agents(idle_world: RuntimeWorld) -> None:
    idle_world.apply(json.dumps({"kind": "Agent", "name": "maker", "type": "python", "code": textwrap.dedent(AGENT)}))


@pytest.fixture
def desk(world: RuntimeWorld, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(world, tmp_path / "desk")
    yield desk
    desk.close()


def caller(desk: Desk) -> Caller:
    return Caller(ReviewsServicer(desk.reviews), reviews_pb2.DESCRIPTOR.services_by_name["ReviewsService"])


def content(
    desk: Desk,
    approval_id: str,
    file: reviews_pb2.ReviewFile,
    form: reviews_pb2.ReviewFileForm.ValueType,
    page: int = 0,
) -> tuple[str, bytes]:
    request = reviews_pb2.GetReviewFileRequest(approval_id=approval_id, output_id=file.output_id, form=form, page=page)
    header, *parts = caller(desk).stream("GetReviewFile", request).rest()
    return header.header.media_type, b"".join(part.data for part in parts)


def rows(desk: Desk, approval_id: str, file: reviews_pb2.ReviewFile, first: int) -> reviews_pb2.ReviewTable:
    request = reviews_pb2.GetReviewRowsRequest(approval_id=approval_id, output_id=file.output_id, first=first)
    found: reviews_pb2.ReviewTable = caller(desk)("GetReviewRows", request)
    return found


def test_pictures_pages_and_rows_are_had_where_nothing_is_swept(world: RuntimeWorld, desk: Desk) -> None:
    _, approval_id = parked(world, agent="maker")
    found = files(desk.look(approval_id))
    picture, document, table = (found[f"count/{name}"] for name in ("chart.png", "document.pdf", "table.csv"))
    assert (picture.picture, document.pages, table.table.rows_total) == (True, 1, 250)
    assert found["count/notes.md"].html == "<h1>Sums</h1>\n<p>&lt;script&gt;1&lt;/script&gt;</p>\n"
    assert [list(row.cells) for row in found["count/list.json"].table.rows] == [["1.10", MAIL], ["2", ""]]
    media_type, data = content(desk, approval_id, picture, reviews_pb2.REVIEW_FILE_FORM_PICTURE)
    assert (media_type, data[:4]) == ("image/png", b"\x89PNG")
    media_type, data = content(desk, approval_id, document, reviews_pb2.REVIEW_FILE_FORM_PAGE, 1)
    assert (media_type, data[:4]) == ("image/png", b"\x89PNG")
    shown = rows(desk, approval_id, table, 200)
    assert [row.cells[0] for row in shown.rows] == [f"row {n}" for n in range(200, 250)]
    with pytest.raises(RefusedError) as caught:
        content(desk, approval_id, document, reviews_pb2.REVIEW_FILE_FORM_PAGE, 2)
    assert list(caught.value.problems) == ["page"]


def test_a_preview_that_does_not_end_in_time_is_refused_as_not_available(world: RuntimeWorld, desk: Desk) -> None:
    _, approval_id = parked(world, agent="maker")
    found = files(desk.look(approval_id))
    # A stop ends renderings as a time that has passed does.
    desk.close()
    for name, form in (
        ("chart.png", reviews_pb2.REVIEW_FILE_FORM_PICTURE),
        ("document.pdf", reviews_pb2.REVIEW_FILE_FORM_PAGE),
    ):
        with pytest.raises(RefusedError) as caught:
            content(desk, approval_id, found[f"count/{name}"], form, 1)
        assert "its preview is not available now" in caught.value.message


def test_files_are_had_swept_where_the_policy_redacts_and_not_once_decided(world: RuntimeWorld, desk: Desk) -> None:
    run_id, approval_id = parked(world, {"mode": "redact"}, agent="maker")
    found = files(desk.look(approval_id))
    assert found["count/chart.png"].problem == "It is a picture, which cannot be swept for personal data."
    assert not found["count/chart.png"].output_id
    table = found["count/table.csv"]
    _, data = content(desk, approval_id, table, reviews_pb2.REVIEW_FILE_FORM_BYTES)
    assert data.count(SWEPT.encode()) == 250
    assert MAIL.encode() not in data
    assert rows(desk, approval_id, table, 249).rows[0].cells[1] == SWEPT
    world.cancel(run_id)
    world.until_ended(run_id)
    with pytest.raises(RefusedError) as caught:
        rows(desk, approval_id, table, 0)
    assert caught.value.reason == "not_found"
