"""Pages of a run and its approvals with the most of everything: each is bounded, and links lead to all of it."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from html import unescape
from typing import Any
from urllib.parse import quote, urljoin

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from console.app import Console
from console.run.tabs import TABS
from console.settings import ConsoleSettings
from edge.admission.trial import try_call
from tests.support.browsing import Browser, Seen
from tests.support.loop_thread import LoopThread
from tests.unit.console.people import PeopleChannel
from tests.unit.console.run_answers import services, summary
from tests.unit.console.seen import MOST_BYTES, MOST_BYTES_OF_ONE
from workflow_api.v1.logs_pb2 import ListRunLogsResponse, RunLog, RunLogSummary
from workflow_api.v1.outputs_pb2 import ListOutputsResponse, Output
from workflow_api.v1.previews_pb2 import GetStepPreviewRequest, OutputPreview, StepFile, StepPreview, SummaryPreview
from workflow_api.v1.reviews_pb2 import (
    APPROVAL_STATE_APPROVED,
    APPROVAL_STATE_PENDING,
    CountPendingApprovalsResponse,
    Decision,
    GetReviewRequest,
    ListDecisionsResponse,
    Review,
    ReviewFile,
    ReviewMaterial,
    ReviewRow,
    ReviewStep,
    ReviewTable,
    ReviewText,
)
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_FAILED,
    STEP_STATUS_FAILED,
    Approval,
    Event,
    ListPendingApprovalsResponse,
    ListRunEventsRequest,
    ListRunEventsResponse,
    ListRunStepsResponse,
    PendingApproval,
    Run,
    RunError,
    Segment,
    Step,
)

ONE = "/runs/run_1"
WHEN = Timestamp(seconds=1_790_000_000)
STEPS = [f"{n:02}-{'s' * 125}" for n in range(20)]
"""As many as a workflow may have, with the longest handles."""
EVENTS, OUTPUTS, DECISIONS, APPROVALS = 130, 90, 60, 30


class Backend(PeopleChannel):
    """A backend with one run, whose texts are long and made of one filler."""

    def __init__(self) -> None:
        super().__init__()
        self.fill("x")

    async def unary(self, rpc: str, request: Message, metadata: Any, seconds: float) -> Message:
        if rpc in self.answers:
            return await super().unary(rpc, request, metadata, seconds)
        answer: Message = await self._known.call(rpc.removeprefix("/workflow_api.v1."), request)
        return answer

    def fill(self, filler: str, size: int = 12_000) -> None:
        """Makes all texts of a filler; unlike others a text that is read to its end has a mark there."""
        self.filler, self.long = filler, filler * size
        long, name = self.long, filler * 100
        log = RunLogSummary(step=STEPS[0], attempt=1, last_part=1)
        failed = RunError(code="node_failed", message=long)
        self._known = services(
            Run(
                summary=summary(
                    status=RUN_STATUS_FAILED,
                    workflow_name=name,
                    client_reference=filler * 128,
                    warnings=[f"{long} warning {n} ends" for n in range(30)],
                    labels={f"label-{n}": filler * 250 for n in range(10)},
                ),
                error=failed,
                result_error=failed,
                parameters=json.dumps({"x": long, "end": "parameters end"}),
                input_text=f"{long} input ends",
                inputs_manifest=json.dumps([{"uri": long}, {"uri": "manifest ends"}]),
                result=json.dumps([long, "result ends"]),
                pii_redaction=json.dumps({"x": long, "end": "redaction ends"}),
                summary_markdown=f"{long} summary ends",
            ),
            ListRunSteps=ListRunStepsResponse(
                items=[
                    Step(step=step, name=f"{n} {name}", needs=STEPS[:n], status=STEP_STATUS_FAILED, error=failed)
                    for n, step in enumerate(STEPS)
                ]
            ),
            ListRunLogs=ListRunLogsResponse(items=[RunLogSummary(step=step, attempt=1) for step in STEPS]),
            GetRunLog=RunLog(log=log, text=filler * 60_000, attempts=1),
            ListRunEvents=self._events,
            ListDecisions=ListDecisionsResponse(
                items=[
                    Decision(
                        approval_id=f"apr_{n}_decided",
                        title=f"decision-{n}- {name}",
                        step=STEPS[0],
                        state=APPROVAL_STATE_APPROVED,
                        decided_by="user:ann",
                        decided_at=WHEN,
                    )
                    for n in range(DECISIONS)
                ]
            ),
            ListPendingApprovals=ListPendingApprovalsResponse(items=[self._pending(n) for n in range(APPROVALS)]),
            ListOutputs=ListOutputsResponse(
                items=[
                    Output(output_id=f"out_{n}", path=f"{n}-{filler * 200}", media_type=name, sha256="0" * 64)
                    for n in range(OUTPUTS)
                ]
            ),
            GetStepPreview=self._preview,
            GetSummaryPreview=SummaryPreview(html="<p>" + "<b>x</b>" * 360, cut=True),
        )
        text, value = (ReviewText(text=filler * characters) for characters in (size, 65_536))
        table = ReviewTable(columns=[name] * 30, rows=[ReviewRow(cells=[filler * 290] * 30)] * 50)
        files = [ReviewFile(path=f"{n}-{name}", text=text) for n in range(19)]
        made = [ReviewStep(step=step, value=value, files=[*files, ReviewFile(table=table)]) for step in STEPS[:3]]
        material = ReviewMaterial(steps=made, input_text=text, parameters=text, inputs_manifest=text)
        self._known.answers["ReviewsService/GetReview"] = lambda request: self._review(request, material)
        self._known.answers["ReviewsService/CountPendingApprovals"] = CountPendingApprovalsResponse(total=APPROVALS)
        self._known.answers["PreviewsService/GetOutputPreview"] = OutputPreview(file=ReviewFile(path=name, text=value))

    def _pending(self, number: int) -> PendingApproval:
        approval = Approval(
            approval_id=f"apr_{number}",
            title=f"{number} {self.filler * 60}",
            step=STEPS[0],
            instructions=self.filler * 2_000,
            requested_at=WHEN,
        )
        return PendingApproval(approval=approval, run_id="run_1", workflow_name="Digest")

    def _review(self, request: GetReviewRequest, material: ReviewMaterial) -> Review:
        number = int(request.approval_id.removeprefix("apr_"))
        return Review(pending=self._pending(number), state=APPROVAL_STATE_PENDING, material=material)

    def _preview(self, request: GetStepPreviewRequest) -> StepPreview:
        files = [StepFile(output_id=f"out_{n}", path=f"{n}-{self.filler * 200}") for n in range(50)]
        value = ReviewText(text=json.dumps([self.long, f"value of {request.step[:2]} ends"]))
        return StepPreview(value=value, files=files, files_total=90)

    def _events(self, request: ListRunEventsRequest) -> ListRunEventsResponse:
        """Returns events of which one in two begins an attempt and the next fails it."""
        found = []
        for seq in range(request.after_seq + 1, min(EVENTS, request.after_seq + request.page_size) + 1):
            data = {"message": f"{self.long} event {seq} ends", "attempt": seq, "type": "ModelTimeout"}
            kind = ("step.started", "step.failed")[seq % 2 == 0]
            if 2 < seq <= DECISIONS + 2:
                kind, data = (
                    "approval.decided",
                    {"approval_id": f"apr_{seq - 3}_decided", "comment": self.filler * 2_000},
                )
            found.append(Event(seq=seq, type=kind, step=STEPS[seq // 2 % 20], data=json.dumps(data), at=WHEN))
        segment = Segment(segment_id="seg_1", ordinal=1, last_seq=EVENTS)
        after = found[-1].seq if found else request.after_seq
        return ListRunEventsResponse(
            run_id="run_1", segment_id="seg_1", segments=[segment], events=found, next_after_seq=after
        )


class Reader:
    """Ann, who follows links from page to page."""

    def __init__(self, backend: Backend, port: int) -> None:
        self._browser = Browser(("127.0.0.1", port))
        self._browser.cookies["session"] = backend.begin("ann")

    def open(self, path: str, most: int = MOST_BYTES) -> Seen:
        seen = self._browser.get(path)
        assert seen.status == 200, (path, seen.status)
        if seen.headers.get_content_type() == "text/html":
            assert len(seen.text.encode()) < most, (path, len(seen.text.encode()))
        return seen

    def follow(self, path: str, pattern: str) -> dict[str, str]:
        """Returns the pages that are reached from one, itself among them, by links whose addresses match a pattern."""
        found = {path: self.open(path).text}
        waiting = list(found)
        while waiting:
            here = waiting.pop()
            for href in links(found[here]):
                to = urljoin(here, href).partition("#")[0]
                if to not in found and re.fullmatch(pattern, to):
                    found[to] = self.open(to).text
                    waiting.append(to)
        return found


def links(page: str) -> list[str]:
    return [unescape(href) for href in re.findall(r'href="([^"]*)"', page)]


@pytest.fixture(name="backend", scope="module")
def _backend() -> Backend:
    return Backend()


@pytest.fixture(name="ann", scope="module")
def _ann(backend: Backend) -> Iterator[Reader]:
    with ExitStack() as stack:
        thread = stack.enter_context(LoopThread())
        console = Console(ConsoleSettings(port=0), backend, try_call)
        thread.run(console.start())
        stack.callback(lambda: thread.run(console.stop()))
        yield Reader(backend, console.port)


@pytest.mark.parametrize("filler", ["m", "<", "\U000e0041"], ids=ascii)
def test_a_page_with_the_most_of_everything_is_within_its_bound(ann: Reader, backend: Backend, filler: str) -> None:
    backend.fill(filler)
    tabs = (f"{ONE}?tab={tab}" for tab in TABS)
    for path in (f"{ONE}?step={STEPS[10]}", f"{ONE}?step={STEPS[19]}", *tabs, "/approvals", "/approvals/apr_1"):
        ann.open(path)
    log = f"{ONE}/logs/{STEPS[0]}"
    parts = (f"/approvals/apr_1/material/{part}" for part in (0, 20))
    for path in (log, f"{log}?q={quote(filler)}", f"{ONE}/outputs/out_1", f"{ONE}/events/seg_1/2", *parts):
        ann.open(path, MOST_BYTES_OF_ONE)


@pytest.mark.parametrize(
    "end",
    ["input", "parameters", "manifest", "redaction", "result", "summary", "warning 29"],
)
def test_the_end_of_every_text_of_a_run_is_reached(ann: Reader, backend: Backend, end: str) -> None:
    backend.fill("x", 3_000)
    assert re.search(f"{end} ends?", "".join(ann.follow(ONE, rf"{ONE}(/texts/.*|\?tab=[a-z]+)").values()))


@pytest.mark.parametrize(
    ("query", "row", "count"),
    [
        ("tab=results&outputs", r"/runs/run_1/outputs/out_([0-9]+)/download", OUTPUTS),
        ("tab=events&decisions", "<td[^>]*>decision-([0-9]+)-", DECISIONS),
        ("approvals", 'id="apr_([0-9]+)"', APPROVALS),
        ("tab=events&segment=seg_1&after_seq", "/runs/run_1/events/seg_1/([0-9]+)", EVENTS),
    ],
)
def test_every_row_of_a_list_of_a_run_is_reached(
    ann: Reader, backend: Backend, query: str, row: str, count: int
) -> None:
    backend.fill("x", 3_000)
    pages = ann.follow(f"{ONE}?{query.rpartition('&')[0]}", rf"{ONE}\?{query}=[0-9]+")
    assert len({found for page in pages.values() for found in re.findall(row, page)}) == count


def test_what_an_event_and_a_step_have_is_reached_whole(ann: Reader, backend: Backend) -> None:
    backend.fill("x", 3_000)
    event = ann.follow(f"{ONE}/events/seg_1/2", f"{ONE}/events/seg_1/2/download")
    assert "event 2 ends" in "".join(event.values())
    for step in STEPS[:2]:
        selected = f"{ONE}?step={step}"
        assert selected in {urljoin(ONE, href).partition("#")[0] for href in links(ann.open(ONE).text)}
        pages = ann.follow(selected, f"{ONE}/(steps/{step}/value|logs/{step})")
        assert f"value of {step[:2]} ends" in "".join(pages.values())
        assert f"{ONE}/logs/{step}" in pages


def test_all_of_a_long_log_is_reached(ann: Reader, backend: Backend) -> None:
    backend.fill("x", 3_000)
    pages = ann.follow(f"{ONE}/logs/{STEPS[0]}", rf"{ONE}/logs/{STEPS[0]}\?attempt=1&before=[0-9]+")
    assert sum(len(found) for page in pages.values() for found in re.findall("(?<=\n)x+(?=</pre>)", page)) >= 60_000
    assert f"{ONE}/logs/{STEPS[0]}/download?attempt=1" in links(pages[f"{ONE}/logs/{STEPS[0]}"])


def test_every_part_of_what_an_approval_is_about_is_reached(ann: Reader, backend: Backend) -> None:
    backend.fill("x")
    pages = ann.follow("/approvals/apr_1", r"/approvals/apr_1\?first=[0-9]+")
    read = {n for page in pages.values() for n in re.findall(r"/material/([0-9]+)\?begin=", page)}
    assert read == {str(n) for n in range(3 * 21 + 3)}
    table = ann.follow("/approvals/apr_1/material/20", r"/approvals/apr_1/material/20\?begin=[0-9]+(&before=[0-9,]+)?")
    # The link back to the first rows is another address of the first page.
    table.pop("/approvals/apr_1/material/20?begin=0")
    assert sum(page.count("<tr><td>x") for page in table.values()) == 50
