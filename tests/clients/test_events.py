"""Events of runs, replayed and as they happen."""

import asyncio
import itertools
from typing import Any

import pytest

from workflow_api_client import AsyncRun, Run, errors, records
from workflow_api_client.operations.server_sent import Message, Parser
from workflow_api_client.testing import FakeApi, approval, complete, event, progress

SCRIPT = [
    progress("page 1", page=1),
    approval("Plausible?", decided_after=70),
    progress("page 2", page=2, after=21),
    complete(),
]
TYPES = [
    *("segment.started", "run.started", "step.started", "step.progress", "approval.requested", "segment.ended"),
    *("segment.started", "approval.decided", "step.progress", "run.completed", "segment.ended"),
]


def requests_for(api: FakeApi, ending: str) -> int:
    return sum(each.path.endswith(ending) for each in api.requests)


def test_live_events_come_once_in_order_over_all_segments_to_the_end_of_the_run(either_api: FakeApi) -> None:
    either_api.workflow("Digest", script=SCRIPT)
    run = either_api.client().runs.start("Digest")
    seen = [(either_api.clock.now(), event) for event in run.events(live=True)]
    assert [event.type for _, event in seen] == TYPES
    assert [event.data["page"] for _, event in seen if event.type == "step.progress"] == [1, 2]  # type: ignore[typeddict-item] # the agent's own
    assert (
        max(now - (event.at - either_api.clock.date()).total_seconds() - either_api.clock.now() for now, event in seen)
        <= 5
    )
    assert run.refresh().status == "completed"


def test_without_live_the_events_so_far_are_replayed(either_api: FakeApi) -> None:
    either_api.workflow("Digest", script=SCRIPT)
    run = either_api.client().runs.start("Digest").wait(or_approval=True)
    assert [event.type for event in run.events()] == TYPES[:6]
    run.wait()
    assert [event.type for event in run.events()] == TYPES


@pytest.mark.parametrize("live", [False, True])
def test_events_go_on_after_any_of_them(either_api: FakeApi, *, live: bool) -> None:
    either_api.workflow("Digest", script=SCRIPT)
    run = either_api.client().runs.start("Digest").wait()
    ids = [event.id for event in run.events()]
    assert len(set(ids)) == len(TYPES)
    for count, known in enumerate(ids, 1):
        assert [event.id for event in run.events(live=live, after=known)] == ids[count:]


@pytest.mark.parametrize("after", ["", "7", "seg:", "seg:-1", "a b:1", "seg\n:1"])
def test_a_position_that_is_none_is_refused(api: FakeApi, after: str) -> None:
    run = api.client().runs.start(api.workflow("Digest"))
    with pytest.raises(ValueError, match="must be the `id` of an event"):
        list(run.events(after=after))


@pytest.mark.parametrize("cleanly", [False, True])
def test_a_stream_that_ends_too_early_is_opened_again_where_it_was(api: FakeApi, *, cleanly: bool) -> None:
    api.workflow("Digest", script=SCRIPT)
    for size in (10, 200, 400, 600):
        api.cut(size, cleanly=cleanly)
    run = api.client().runs.start("Digest")
    assert [event.type for event in run.events(live=True)] == TYPES
    assert requests_for(api, "/events") == 5
    assert sum("last-event-id" in each.headers for each in api.requests) >= 3


def test_a_stream_that_ends_at_once_is_not_opened_again_before_five_seconds(api: FakeApi) -> None:
    api.workflow("Digest", script=SCRIPT)
    run = api.client().runs.start("Digest")
    for _ in range(10):
        api.cut(5, cleanly=True)
    list(run.events(live=True))
    times = [each.at for each in api.requests if each.path.endswith("/events")][:11]
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 5


def test_a_service_that_neither_streams_nor_holds_is_asked_at_most_once_in_five_seconds() -> None:
    api = FakeApi(waits=False, streams=False)
    api.workflow("Digest", script=SCRIPT)
    run = api.client().runs.start("Digest")
    list(run.events(live=True))
    # A probe of each kind at the start; then 98 seconds of the script.
    assert requests_for(api, "/events") + requests_for(api, run.id) <= 98 / 5 + 14


def test_more_events_than_a_page_holds_are_all_given(either_api: FakeApi) -> None:
    either_api.workflow("Talk", script=[*(progress(str(number), after=0.01) for number in range(1100)), complete()])
    run = either_api.client().runs.start("Talk").wait()
    for live in (False, True):
        said = [event.data["message"] for event in run.events(live=live) if event.type == "step.progress"]
        assert said == [str(number) for number in range(1100)]


def test_a_run_that_ends_without_an_event_ends_its_events(either_api: FakeApi) -> None:
    either_api.workflow("Digest", script=[approval("?", decision=None)])
    run = either_api.client().runs.start("Digest").wait(or_approval=True)
    events = run.events(live=True)
    seen = [next(events) for _ in range(5)]
    run.cancel()
    assert [event.type for event in [*seen, *events]] == [*TYPES[:3], *TYPES[4:6]]


def test_events_of_an_erased_run_are_not_found(either_api: FakeApi) -> None:
    either_api.workflow("Digest")
    run = either_api.client().runs.start("Digest").wait()
    run.erase()
    for live in (False, True):
        with pytest.raises(errors.NotFoundError):
            list(run.events(live=live))


def test_messages_are_the_same_however_the_bytes_arrive() -> None:
    stream = ": hello\r\n\r\nid: s:1\ndata: é\n\nevent: end\rid: s:2\rdata:a\rdata: b\r\rdata: cut".encode()
    wanted = [Message("message", "s:1", "é"), Message("end", "s:2", "a\nb")]
    for size in range(1, len(stream) + 1):
        parser = Parser()
        pieces = [stream[place : place + size] for place in range(0, len(stream), size)]
        assert [message for piece in pieces for message in parser.feed(piece)] == wanted, size


FAILED: dict[str, Any] = {"attempt": 1, "code": "node_failed", "message": "no", "will_retry": True, "retry_at": None}


def failures(run: Run) -> list[tuple[str | None, str]]:
    """Returns step and code of failures, as a type checker lets a caller read them."""
    found = []
    for each in run.stream():
        match each:
            case records.StepFailedEvent(step=step, data=data):
                found.append((step, data["code"]))
            case records.StepProgressEvent():
                assert each.data["message"] == "page 1"
    return found


def test_a_stream_has_a_class_for_each_type_and_goes_on_over_unknown_ones(either_api: FakeApi) -> None:
    script = [progress("page 1"), event("step.failed", **FAILED), event("step.dreamt", of="sheep"), complete()]
    either_api.workflow("Digest", script=script)
    run = either_api.client().runs.start("Digest")
    assert failures(run) == [("work", "node_failed")]
    seen = list(run.stream())
    assert [type(each) for each in seen if each.type.startswith("step.")] == [
        records.StepStartedEvent,
        records.StepProgressEvent,
        records.StepFailedEvent,
        records.Event,
    ]
    unknown = [dict(each.data) for each in seen if each.type not in records.EVENT_TYPES]
    assert unknown == [{"of": "sheep"}]
    assert [each.id for each in run.stream(after=seen[3].id)] == [each.id for each in seen[4:]]


def test_a_task_streams_as_a_thread_does(either_api: FakeApi) -> None:
    either_api.workflow("Digest", script=SCRIPT)

    async def work(run: AsyncRun) -> list[str]:
        return [each.type async for each in run.stream()]

    async def started() -> list[str]:
        async with either_api.async_client() as client:
            return await work(await client.runs.start("Digest"))

    assert asyncio.run(started()) == TYPES
