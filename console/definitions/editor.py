"""Editor of definitions: checks a manifest, shows the differences, and saves it as the next version.

The page's script sends the text while it is typed, with the same fields as the button Check: see `_LIVE`.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from console.definitions.kinds import DefinitionKind
from console.definitions.steps import step_nodes
from console.definitions.versions import (
    ID,
    NOT_THERE,
    ShownDifference,
    difference_lines,
    missing,
    read_manifest,
    read_versions,
    version_of,
)
from console.rendering.dag import MOST_STEPS, Drawing, draw
from console.rendering.text import short
from console.visit import PageResult, Redirect, UserServices, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.definitions_pb2 import CompareVersionsRequest, DefinitionVersion, Manifest
from workflow_api.v1.workflows_pb2 import AppliedResource, ApplyManifestsRequest, ExpectedVersion, ManifestFile

FILE: Final = "manifest"
"""File name of the text in requests; problems are named `manifest:12: steps[0].agent`."""

_PLACE: Final = re.compile(rf"{FILE}:([0-9]{{1,9}}): (.*)", re.DOTALL)
_SPARE_LINES: Final = 10
_FEWEST_LINES: Final = 20
_MOST_NUMBERED: Final = 1_000
"""Line numbers in the HTML; the page's script adds the others."""
_EXCERPT_CHARS: Final = 160
_FIELD_CHARS: Final = 200
_REASON_CHARS: Final = 400
_MOST_PROBLEMS: Final = 30


class LineProblem(NamedTuple):
    """Problem in a text: line number or None, field, reason, and the beginning of the line."""

    line: int | None
    field: str
    reason: str
    excerpt: str


class ShownProblems(NamedTuple):
    """The first problems, as many as a page shows, and the number of all."""

    first: Sequence[LineProblem]
    total: int

    @property
    def left_out(self) -> int:
        """Number of problems that are not shown."""
        return self.total - len(self.first)


_NO_PROBLEMS: Final = ShownProblems((), 0)


class SourceText(NamedTuple):
    """A text for a field with numbered lines; `rows` is the height of the field, some lines more than the text.

    `gutter` has the numbers of the first thousand rows.
    """

    text: str
    rows: int
    gutter: Markup


def line_problems(details: Any, text: str) -> list[LineProblem]:
    """Returns the problems that a refusal names in its details, by line, those without a line first."""
    lines = text.split("\n")
    found = [_problem(each, lines) for each in details] if isinstance(details, list) else []
    return sorted(found, key=lambda each: each.line or 0)


def problems_shown(found: Sequence[LineProblem]) -> ShownProblems:
    """Returns the first problems, with their texts cut for a page."""
    first = [
        each._replace(
            field=short(each.field, _FIELD_CHARS, size=_FIELD_CHARS),
            reason=short(each.reason, _REASON_CHARS, size=_REASON_CHARS),
        )
        for each in found[:_MOST_PROBLEMS]
    ]
    return ShownProblems(first, len(found))


def source_text(text: str, problems: Iterable[LineProblem] = ()) -> SourceText:
    """Returns a text with the numbers of its lines, those with a problem marked."""
    rows = max(text.count("\n") + 1 + _SPARE_LINES, _FEWEST_LINES)
    wrong = {each.line for each in problems}
    gutter = Markup("\n").join(
        Markup('<b id="line-{0}">{0}</b>').format(number) if number in wrong else Markup(str(number))  # noqa: S704 - a number
        for number in range(1, min(rows, _MOST_NUMBERED) + 1)
    )
    return SourceText(text, rows, gutter)


def _problem(detail: Mapping[str, str], lines: Sequence[str]) -> LineProblem:
    place = _PLACE.fullmatch(detail["name"])
    if place is None:
        return LineProblem(None, detail["name"], detail["reason"], "")
    line = min(int(place[1]), len(lines))
    return LineProblem(line, place[2], detail["reason"], lines[line - 1].strip()[:_EXCERPT_CHARS])


LONGEST_TEXT: Final = 65_536
"""Characters of the longest text that the console edits; longer manifests are applied from files."""

_MOST_LISTED: Final = 20
"""Most entries in each list of a check's result: other workflows that change, warnings, missing readiness."""
_BAND: Final = 2
"""Columns of steps beside each other, whose texts can be read beside the manifest."""
_LIVE: Final = "live"
"""Value of the field `do` of a text under way: the answer is the verdict alone, for the page's script."""
_CHANGED: Final = "The text has changed since it was checked. Review what would be saved now."


class _Graph(NamedTuple):
    """The drawing of a workflow's steps, and the number of steps that are left out."""

    drawing: Drawing
    left_out: int


class _CheckResult(NamedTuple):
    """Effects of saving: on the definition, on workflows that use it, and how the definition would differ."""

    item: AppliedResource
    others: list[AppliedResource]
    difference: ShownDifference

    @property
    def graph(self) -> _Graph | None:
        """The graph of a workflow's first steps; None for other kinds."""
        if not self.item.HasField("definition"):
            return None
        steps = json.loads(self.item.definition).get("steps") or ()
        return _Graph(draw(step_nodes(steps[:MOST_STEPS]), _BAND), max(len(steps) - MOST_STEPS, 0))


class _Conflict(NamedTuple):
    """The version that somebody saved meanwhile, and its difference from the edited one."""

    version: DefinitionVersion
    difference: ShownDifference


class _InvalidError(Exception):
    """Raised for a text that cannot be saved, with its problems."""

    def __init__(self, problems: list[LineProblem]) -> None:
        super().__init__()
        self.problems = problems


async def edit(kind: DefinitionKind, visit: Visit) -> PageResult:
    """Shows the editor with the version that the query names, by default the newest."""
    try:
        newest = await read_manifest(visit.services, kind, visit.path[ID])
        older = version_of(visit.query.get("from", ""))
        manifest = newest if older is None else await read_manifest(visit.services, kind, newest.id, older)
    except Refusal as refusal:
        if refusal.code not in NOT_THERE:
            raise
        return missing(kind, refusal.message)
    if not 0 < len(manifest.text) <= LONGEST_TEXT:
        return View("definitions/too_long.html", {"kind": kind, "manifest": newest, "longest": LONGEST_TEXT})
    return _editor(kind, manifest.text, newest, older=older)


async def save(kind: DefinitionKind, visit: Visit) -> PageResult:
    """Checks a changed text of a definition, or saves it if exactly this text was checked."""
    text = _text(visit)
    try:
        newest = await read_manifest(visit.services, kind, visit.path[ID])
    except Refusal as refusal:
        if refusal.code not in NOT_THERE:
            raise
        return missing(kind, refusal.message)
    base = version_of(visit.sent("base"))
    if base is not None and base < newest.newest_version:
        conflict = await _conflict(visit.services, kind, newest, base)
        if visit.sent("do") == _LIVE:
            return _verdict(conflict=conflict)
        return _editor(kind, text, newest, conflict=conflict, status=409)
    return await _check_or_save(kind, visit, text, newest)


async def begin(kind: DefinitionKind, visit: Visit) -> PageResult:  # noqa: ARG001 - a handler of a page
    """Shows the editor with a template of a new definition."""
    return _editor(kind, kind.starter)


async def create(kind: DefinitionKind, visit: Visit) -> PageResult:
    """Checks the text of a new definition, or saves it if exactly this text was checked."""
    return await _check_or_save(kind, visit, _text(visit), None)


async def _check_or_save(kind: DefinitionKind, visit: Visit, text: str, newest: Manifest | None) -> PageResult:
    try:
        checked = await _check(visit.services, kind, text, newest)
    except _InvalidError as invalid:
        if visit.sent("do") == _LIVE:
            return _verdict(problems=problems_shown(invalid.problems))
        return _editor(kind, text, newest, problems=invalid.problems, status=400)
    if visit.sent("do") == _LIVE:
        return _verdict(checked=checked)
    as_checked = visit.sent("checked") == _digest(text, newest)
    if visit.sent("do") != "save" or not as_checked:
        return _editor(kind, text, newest, checked=checked, above=_CHANGED if visit.sent("do") == "save" else "")
    expected = ExpectedVersion(
        kind=kind.kind, name=checked.item.name, version=newest.newest_version if newest is not None else 0
    )
    try:
        (item, *_) = await _applied(visit.services, text, expected, dry_run=False)
    except _InvalidError as invalid:
        # The next check shows the version that was saved meanwhile.
        return _editor(kind, text, newest, problems=invalid.problems, status=409)
    return Redirect(kind.page_of(item.id), f"Saved as version {item.version}.")


async def _check(services: UserServices, kind: DefinitionKind, text: str, newest: Manifest | None) -> _CheckResult:
    if len(text) > LONGEST_TEXT:
        raise _InvalidError([LineProblem(None, "text", f"must have at most {LONGEST_TEXT:,} characters here", "")])
    if newest is not None:
        expected = ExpectedVersion(kind=kind.kind, name=newest.name, version=newest.newest_version)
    else:
        (first, *_) = await _applied(services, text, None, dry_run=True)
        if first.kind != kind.kind:
            raise _InvalidError([LineProblem(1, "kind", f"must be {kind.kind} on this page", "")])
        expected = ExpectedVersion(kind=first.kind, name=first.name)
    item, *others = await _applied(services, text, expected, dry_run=True)
    return _CheckResult(item, others, difference_lines(item.manifest_difference))


async def _applied(
    services: UserServices, text: str, expected: ExpectedVersion | None, *, dry_run: bool
) -> list[AppliedResource]:
    """Applies the text; returns the outcome for the document, then for the workflows that use it.

    Raises:
        _InvalidError: the text cannot be applied.
    """
    request = ApplyManifestsRequest(
        files=[ManifestFile(name=FILE, content=text)],
        dry_run=dry_run,
        expected=[] if expected is None else [expected],
    )
    try:
        answer = await services.call("WorkflowsService/ApplyManifests", request)
    except Refusal as refusal:
        if refusal.code != "invalid_request":
            raise
        problems = line_problems(refusal.details, text) or [LineProblem(None, "text", refusal.message, "")]
        raise _InvalidError(problems) from None
    return list(answer.items)


async def _conflict(services: UserServices, kind: DefinitionKind, newest: Manifest, base: int) -> _Conflict:
    request = CompareVersionsRequest(kind=kind.kind, definition=newest.id, before=base, after=newest.newest_version)
    answer = await services.call("DefinitionsService/CompareVersions", request)
    found = await read_versions(services, kind, newest.id, size=1)
    return _Conflict(found.versions[0], difference_lines(answer.difference))


def _editor(
    kind: DefinitionKind,
    text: str,
    newest: Manifest | None = None,
    *,
    problems: list[LineProblem] | None = None,
    status: int = 200,
    **more: Any,
) -> View:
    shown = problems_shown(problems or ())
    context = {
        "kind": kind,
        "manifest": newest,
        "here": f"{kind.path}/new" if newest is None else kind.page_of(newest.id, "/edit"),
        "source": source_text(text, shown.first),
        "problems": shown,
        "digest": _digest(text, newest),
        "longest": LONGEST_TEXT,
        "most_listed": _MOST_LISTED,
    }
    defaults = {"checked": None, "conflict": None, "older": None, "above": ""}
    return View("definitions/editor.html", {**context, **defaults, **more}, status=status)


def _verdict(
    *, problems: ShownProblems = _NO_PROBLEMS, checked: _CheckResult | None = None, conflict: _Conflict | None = None
) -> View:
    """Returns the verdict on a text under way, which is no failure of the request."""
    return View("definitions/live.html", {"problems": problems, "checked": checked, "conflict": conflict})


def _text(visit: Visit) -> str:
    """Returns the text as typed, with blanks at its ends."""
    return next(iter(visit.form.get("text", ())), "")


def _digest(text: str, newest: Manifest | None) -> str:
    """Returns a digest of a text and the version that it replaces, which shows that exactly these were checked."""
    version = 0 if newest is None else newest.newest_version
    return sha256(f"{version} {text}".encode()).hexdigest()
