"""Files of approvals: whole tables and texts by pages, pictures, pages of documents, and downloads."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from console.addresses import approval_address
from console.approvals import PartLimits, excerpt, parts_of, table_excerpt
from console.http.downloads import MESSAGE_SECONDS, open_download
from console.pages.approvals import GONE, review_if_any
from console.pages.run_files import IMAGES
from console.paging import row_number
from console.visit import PageResult, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.reviews_pb2 import (
    APPROVAL_STATE_PENDING,
    REVIEW_FILE_FORM_BYTES,
    REVIEW_FILE_FORM_PAGE,
    REVIEW_FILE_FORM_PICTURE,
    GetReviewFileRequest,
    GetReviewRowsRequest,
    ReviewFileForm,
)

_ALONE: Final = PartLimits(parts=1, chars=75_000, rows=100, size=80_000, pages=5, below=1)
_PAGE_NUMBER: Final = re.compile(r"[0-9]{1,4}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_BEGINS: Final = re.compile(r"[0-9]{1,9}(,[0-9]{1,9})*")
_MOST_BEFORE: Final = 100
"""Most earlier pages that an address lists."""


async def show_part(visit: Visit) -> PageResult:
    """Shows one part of an approval's material, from the position in the query."""
    approval_id, number = visit.path["approval_id"], visit.path["number"]
    begin = row_number(visit.query.get("begin", ""))
    review = await review_if_any(visit)
    if review is None or review.state != APPROVAL_STATE_PENDING or not _NUMBER.fullmatch(number):
        return GONE
    parts = parts_of(review.material)
    if int(number) >= len(parts):
        return GONE
    part = parts[int(number)]
    if part.total is None:
        shown = excerpt(int(number), part, begin, _ALONE)
    else:
        request = GetReviewRowsRequest(approval_id=approval_id, output_id=part.output_id, first=begin)
        table = await visit.services.call("ReviewsService/GetReviewRows", request)
        shown = table_excerpt(int(number), part, table, begin, _ALONE, first=begin)
    before = _begins_before(visit.query.get("before", ""), begin)
    context = {
        "address": approval_address(approval_id),
        "shown": shown,
        "unit": "row" if part.table is not None else "page" if part.pages else "character",
        "earlier": before[-1] if before else None,
        "before_earlier": _listed(before[:-1]),
        "before_next": _listed([*before, begin]),
    }
    return View("approvals/part.html", context)


def _begins_before(listed: str, begin: int) -> list[int]:
    """Returns where the pages before this one begin, as the address lists them: how much fits on a page differs."""
    found = [int(each) for each in listed.split(",")] if _BEGINS.fullmatch(listed) else []
    return found if all(first < second for first, second in pairwise([*found, begin])) else []


def _listed(begins: Sequence[int]) -> str:
    return ",".join(map(str, begins[-_MOST_BEFORE:]))


async def download(visit: Visit) -> PageResult:
    """Sends a file of an approval, as the run's PII policy leaves it."""
    return await _file(visit, REVIEW_FILE_FORM_BYTES)


async def show_picture(visit: Visit) -> PageResult:
    """Sends a file of an approval that is a picture, to be shown in a page."""
    return await _file(visit, REVIEW_FILE_FORM_PICTURE)


async def show_page(visit: Visit) -> PageResult:
    """Sends a page of a file of an approval as a picture."""
    number = visit.path["page"]
    return await _file(visit, REVIEW_FILE_FORM_PAGE, int(number) if _PAGE_NUMBER.fullmatch(number) else 0)


async def _file(visit: Visit, form: ReviewFileForm.ValueType, page: int = 0) -> PageResult:
    request = GetReviewFileRequest(
        approval_id=visit.path["approval_id"], output_id=visit.path["output_id"], form=form, page=page
    )
    inline = form != REVIEW_FILE_FORM_BYTES
    messages = visit.services.stream("ReviewsService/GetReviewFile", request, MESSAGE_SECONDS)
    try:
        found = await open_download(messages, inline=inline)
    except Refusal as refusal:
        if refusal.code not in {"not_found", "invalid_request"}:
            raise
        return GONE
    if inline and found.media_type not in IMAGES:
        await found.parts.aclose()
        return GONE
    return found
