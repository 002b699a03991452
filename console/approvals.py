"""Decisions on approvals, and excerpts of the redacted material that reviewers see."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from console.rendering import formatting, times
from console.rendering.text import beginning, html_bytes, sanitised, short
from console.visit import UserServices
from contract.refusals import Refusal
from contract.times import milliseconds_of
from workflow_api.v1.reviews_pb2 import GetReviewRequest, Review, ReviewFile, ReviewMaterial, ReviewStep, ReviewTable
from workflow_api.v1.runs_pb2 import (
    DEADLINE_ACTION_FAIL,
    DecideApprovalRequest,
    DecideApprovalResponse,
    PendingApproval,
)

DECISIONS: Final = {"approve": True, "reject": False}
"""Values of the decision field of a form, and whether each approves."""

_EMPTY: Final = frozenset({"", "{}"})
_CELL_CHARS: Final = 300
_GONE: Final = frozenset({"not_found", "invalid_request"})
_READ_AT_ONCE: Final = 4
"""Approvals that one page reads at a time: the backend may hold a thread for each that it prepares."""


async def decide(
    services: UserServices, approval_id: str, decision: str, comment: str, form: str | None = None
) -> DecideApprovalResponse | None:
    """Records one of `DECISIONS`, with the values of a form as JSON; returns None where it is not pending any more.

    Raises:
        Refusal: as `UserServices.call`, for any other reason.
    """
    approve = DECISIONS[decision]
    request = DecideApprovalRequest(approval_id=approval_id, approve=approve, comment=comment or None, form=form)
    try:
        decided: DecideApprovalResponse = await services.call("RunsService/DecideApproval", request)
    except Refusal as refusal:
        if refusal.code == "not_found" or _concerns(refusal, "approval_id"):
            return None
        raise
    return decided


async def review_of(
    services: UserServices, approval_id: str, seconds: float | None = None, *, without_material: bool = False
) -> Review | None:
    """Returns an approval with its material, or as being prepared after `seconds`; None where it does not exist.

    Raises:
        Refusal: as `UserServices.call`, for any other reason.
    """
    request = GetReviewRequest(approval_id=approval_id, without_material=without_material)
    try:
        async with asyncio.timeout(seconds):
            answer: Review = await services.call("ReviewsService/GetReview", request)
    except TimeoutError:
        return Review(preparing=True)
    except Refusal as refusal:
        if refusal.code not in _GONE:
            raise
        return None
    return answer


async def reviews_of(services: UserServices, approval_ids: Sequence[str], seconds: float | None = None) -> list[Review]:
    """Returns the approvals that exist without their material, which may be large; else as `review_of`."""
    places = asyncio.Semaphore(_READ_AT_ONCE)

    async def read(approval_id: str) -> Review | None:
        async with places:
            return await review_of(services, approval_id, seconds, without_material=True)

    found = await asyncio.gather(*map(read, approval_ids))
    return [each for each in found if each is not None]


class Deadline(NamedTuple):
    """Deadline of a pending approval: the time left in words, the kind of its badge, and its effect."""

    left: str
    kind: str
    rejects: bool


def deadline_of(pending: PendingApproval) -> Deadline | None:
    """Returns the deadline of an approval, by the service's clock; None for an approval without one."""
    if not pending.HasField("deadline_at"):
        return None
    now = milliseconds_of(pending.approval.requested_at) + milliseconds_of(pending.waiting)
    left = milliseconds_of(pending.deadline_at) - now
    words = f"due in {formatting.duration(left)}" if left > 0 else "expires now"
    kind = "bad" if left < times.HOUR_MS else "warn" if left < times.DAY_MS else ""
    return Deadline(words, kind, pending.on_deadline != DEADLINE_ACTION_FAIL)


class ShownCall(NamedTuple):
    """The call of a model's tool that an approval is about: the tool, and its arguments as JSON on several lines."""

    tool: str
    arguments: str


def call_of(pending: PendingApproval) -> ShownCall | None:
    """Returns the call that an approval is about; None where it is about none."""
    if not pending.HasField("tool_call"):
        return None
    return ShownCall(pending.tool_call.tool, formatting.json_lines(pending.tool_call.arguments))


def deciders_text(pending: PendingApproval) -> str:
    """Returns the persons and roles that alone may decide an approval, in words; empty without a restriction."""
    if not pending.HasField("approvers"):
        return ""
    roles = [f"everybody with the role {role}" for role in pending.approvers.roles]
    return ", ".join([*roles, *pending.approvers.people])


class MaterialPart(NamedTuple):
    """Part of an approval's material: a value, a file or an input, as a text, a table, or a note in their place.

    Attributes:
        section: The step that the part belongs to, or the inputs.
        name: Heading; empty for a note about the section.
        about: Media type and size.
        cut: Whether the backend prepared only the beginning.
        output_id: The file, where its bytes can be had; empty for any other part.
        html: HTML of Markdown, not sanitised.
        picture: Whether the file is shown as a picture.
        pages: Number of its pages that are shown as pictures.
    """

    section: str
    name: str
    about: str = ""
    text: str = ""
    table: ReviewTable | None = None
    note: str = ""
    cut: bool = False
    output_id: str = ""
    html: str = ""
    picture: bool = False
    pages: int = 0

    @property
    def total(self) -> int | None:
        """Rows of a table whose rows can all be had; None for any other part."""
        known = self.table is not None and self.table.HasField("rows_total") and self.output_id
        return self.table.rows_total if self.table is not None and known else None


class PartLimits(NamedTuple):
    """Bounds of a page: its parts, and characters, rows or pages of each.

    `size` is the most bytes of its HTML, and `below` the level of the heading that headings of Markdown are below.
    """

    parts: int
    chars: int
    rows: int
    size: int = 0
    pages: int = 1
    below: int = 3


class PartExcerpt(NamedTuple):
    """Excerpt of a part, from a character, row or page `begin` on, counted from 0.

    `following` is the character, row or page where the rest begins; None at the end. `html` is Markdown that is shown
    whole, in place of the text, and `pages` are numbers of pages.
    """

    number: int
    part: MaterialPart
    text: str
    rows: Sequence[Sequence[str]]
    following: int | None
    begin: int = 0
    html: Markup | None = None
    pages: Sequence[int] = ()


def parts_of(material: ReviewMaterial) -> list[MaterialPart]:
    """Returns the parts of the material: the value and the files of each step, then the inputs of the run."""
    found: list[MaterialPart] = []
    for step in material.steps:
        found += _step_parts(step)
    if not material.steps:
        found.append(MaterialPart("Steps", "", note="It needs no other step."))
    return found + _input_parts(material)


def page_of(parts: Sequence[MaterialPart], first: int, limits: PartLimits) -> tuple[Sequence[PartExcerpt], int | None]:
    """Returns excerpts that fill a page, from part number `first` on, and the number of the next part, if any."""
    end = first + limits.parts
    shown = [excerpt(number, part, 0, limits) for number, part in enumerate(parts[first:end], first)]
    return shown, end if end < len(parts) else None


def excerpt(number: int, part: MaterialPart, begin: int, limits: PartLimits) -> PartExcerpt:
    """Returns an excerpt of `part` from character, row or page `begin` on; a table's excerpt has at least one row."""
    if part.table is not None:
        return table_excerpt(number, part, part.table, begin, limits, first=0)
    if part.pages:
        end = min(begin + limits.pages, part.pages)
        following = end if end < part.pages else None
        return PartExcerpt(number, part, "", (), following, begin, pages=range(begin + 1, end + 1))
    size = limits.size or 4 * limits.chars
    if part.html and not begin and len(html := sanitised(part.html, below=limits.below).encode()) <= size:
        return PartExcerpt(number, part, "", (), None, html=Markup(html.decode()))  # noqa: S704 - it is sanitised
    text, cut = beginning(part.text[begin:], limits.chars, limits.size)
    return PartExcerpt(number, part, text, (), begin + len(text) if cut else None, begin)


def table_excerpt(
    number: int, part: MaterialPart, table: ReviewTable, begin: int, limits: PartLimits, *, first: int
) -> PartExcerpt:
    """Returns an excerpt of rows from row `begin` on; `table` has some of them, from row `first` on."""
    rows: list[Sequence[str]] = []
    size = sum(map(html_bytes, table.columns))
    at = begin - first
    for row in table.rows[at : at + limits.rows]:
        cells = [short(each, _CELL_CHARS) for each in row.cells]
        size += sum(map(html_bytes, cells))
        if rows and size > limits.chars:
            break
        rows.append(cells)
    end = begin + len(rows)
    total = first + len(table.rows) if part.total is None else part.total
    return PartExcerpt(number, part, "", rows, end if rows and end < total else None, begin)


def _concerns(refusal: Refusal, name: str) -> bool:
    problems = refusal.details
    return (
        refusal.code == "invalid_request"
        and isinstance(problems, list)
        and [problem["name"] for problem in problems] == [name]
    )


def _step_parts(step: ReviewStep) -> list[MaterialPart]:
    section = f"Step {step.name or step.step}"
    value = formatting.json_lines(step.value.text) if step.HasField("value") else ""
    found = []
    if value not in {"", "null"}:
        found.append(MaterialPart(section, "Value", text=value, cut=step.value.cut))
    found += [_file_part(section, file) for file in step.files]
    left_out = step.files_total - len(step.files)
    if left_out > 0:
        found.append(MaterialPart(section, "", note=f"{left_out:,} more files are not shown."))
    return found or [MaterialPart(section, "", note="It returned nothing and left no file.")]


def _file_part(section: str, file: ReviewFile) -> MaterialPart:
    about = f"{file.media_type}, {formatting.size(file.size_bytes)}"
    part = MaterialPart(section, file.path, about, output_id=file.output_id)
    if file.picture:
        return part._replace(picture=True)
    if file.pages:
        return part._replace(pages=file.pages)
    if file.HasField("text"):
        return part._replace(text=file.text.text, cut=file.text.cut, html=file.html)
    if file.HasField("table"):
        return part._replace(table=file.table, cut=file.table.cut)
    return part._replace(note=f"Not shown. {file.problem}")


def _input_parts(material: ReviewMaterial) -> list[MaterialPart]:
    section = "Inputs"
    found = []
    if material.HasField("input_text"):
        found.append(MaterialPart(section, "Text", text=material.input_text.text, cut=material.input_text.cut))
    for name, given in (("Parameters", material.parameters), ("Copied inputs", material.inputs_manifest)):
        if given.text not in _EMPTY:
            found.append(MaterialPart(section, name, text=formatting.json_lines(given.text), cut=given.cut))
    return found or [MaterialPart(section, "", note="The run was given no input.")]
