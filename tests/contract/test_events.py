"""The durable event log. (contract 17)"""

from typing import Any

import pytest

from tests.support.client import Caller
from tests.support.expect import invalid, is_timestamp, refused

TYPES = {
    "segment.started",
    "segment.ended",
    "run.started",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "inputs.materialised",
    "step.started",
    "step.progress",
    "step.completed",
    "step.failed",
    "step.skipped",
    "approval.requested",
    "approval.decided",
    "output.promoted",
    "redaction.started",
    "redaction.completed",
    "publish.started",
    "publish.completed",
    "warning",
}


@pytest.fixture(scope="module")
def talk_run(resident: Caller, flows: dict[str, str]) -> dict[str, Any]:
    return resident.finished(flows["Talk"], parameters={"count": 230})


def kinds(page: dict[str, Any]) -> list[str]:
    return [event["type"] for event in page["events"]]


def test_events_are_numbered_from_one_without_gaps(resident: Caller, echo_run: dict[str, Any]) -> None:
    page = resident.events(echo_run["run_id"])
    assert set(page) == {"run_id", "segment_id", "events", "next_after_seq", "segments"}
    assert page["run_id"] == echo_run["run_id"]
    assert [event["seq"] for event in page["events"]] == list(range(1, len(page["events"]) + 1))
    assert page["next_after_seq"] == len(page["events"])
    for event in page["events"]:
        assert set(event) == {"seq", "type", "at", "step", "data"}
        assert event["type"] in TYPES
        assert is_timestamp(event["at"])
        assert isinstance(event["data"], dict)
    times = [event["at"] for event in page["events"]]
    assert times == sorted(times)


def test_the_events_of_a_run_are_complete_and_in_order(resident: Caller, echo_run: dict[str, Any]) -> None:
    story = kinds(resident.events(echo_run["run_id"]))
    for earlier, later in (
        ("segment.started", "step.started"),
        ("run.started", "step.started"),
        ("step.started", "step.completed"),
        ("step.completed", "output.promoted"),
        ("output.promoted", "run.completed"),
    ):
        assert story.index(earlier) < story.index(later)
    assert story.count("run.completed") == 1
    assert story.count("segment.ended") == 1


def test_segments_have_start_and_end_times(resident: Caller, echo_run: dict[str, Any]) -> None:
    page = resident.events(echo_run["run_id"])
    [segment] = page["segments"]
    assert set(segment) == {"segment_id", "ordinal", "started_at", "ended_at", "last_seq"}
    assert segment["segment_id"] == page["segment_id"]
    assert segment["ordinal"] == 1
    assert segment["last_seq"] == page["next_after_seq"]
    assert is_timestamp(segment["started_at"])
    assert is_timestamp(segment["ended_at"])


def test_a_page_is_two_hundred_unless_asked_otherwise(resident: Caller, talk_run: dict[str, Any]) -> None:
    page = resident.events(talk_run["run_id"])
    assert len(page["events"]) == page["next_after_seq"] == 200
    rest = resident.events(talk_run["run_id"], after_seq=200)
    assert rest["events"][0]["seq"] == 201
    assert len(resident.events(talk_run["run_id"], limit=500)["events"]) == rest["next_after_seq"]


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_polling_by_next_after_seq_gives_every_event_once(
    resident: Caller, talk_run: dict[str, Any], limit: int
) -> None:
    run_id = talk_run["run_id"]
    whole = resident.events(run_id, limit=500)["events"][-60 if limit == 1 else 0 :]
    seen: list[Any] = []
    after = whole[0]["seq"] - 1
    while page := resident.events(run_id, limit=limit, after_seq=after):
        if not page["events"]:
            break
        seen += page["events"]
        after = page["next_after_seq"]
    assert seen == whole


def test_a_replay_from_zero_returns_the_events_again(resident: Caller, talk_run: dict[str, Any]) -> None:
    first, second = (resident.get(f"/runs/{talk_run['run_id']}/events?after_seq=0&limit=500") for _ in range(2))
    assert first.body == second.body


def test_next_after_seq_equals_after_seq_when_nothing_follows(resident: Caller, echo_run: dict[str, Any]) -> None:
    for after in (10_000, 10**17):
        page = resident.events(echo_run["run_id"], after_seq=after)
        assert (page["events"], page["next_after_seq"]) == ([], after)


def test_progress_of_an_agent_is_an_event(resident: Caller, talk_run: dict[str, Any]) -> None:
    events = resident.events(talk_run["run_id"], limit=500)["events"]
    progress = [event for event in events if event["type"] == "step.progress"]
    assert len(progress) == 230
    assert {event["step"] for event in progress} == {"talk"}
    assert [event["data"]["number"] for event in progress] == list(range(230))


def test_an_unknown_segment_is_not_found(resident: Caller, echo_run: dict[str, Any]) -> None:
    path = f"/runs/{echo_run['run_id']}/events"
    refused(resident.get(path, segment="seg_none"), 404, "segment_not_found")
    refused(resident.get(path, segment="s" * 128), 404, "segment_not_found")
    invalid(resident.get(path, segment="s" * 129), "segment")


def test_an_event_never_changes_and_is_never_late(resident: Caller, flows: dict[str, str]) -> None:
    """A caller that polls during the run sees a prefix of the final events."""
    run_id = resident.started(flows["Talk"], parameters={"count": 200})
    seen: list[list[Any]] = []
    while resident.run(run_id)["status"] != "completed":
        seen.append(resident.events(run_id, limit=500)["events"])
    final = resident.events(run_id, limit=500)["events"]
    assert all(events == final[: len(events)] for events in seen)


def test_a_failed_run_ends_with_run_failed(resident: Caller, flows: dict[str, str]) -> None:
    run = resident.finished(flows["Failure"])
    events = resident.events(run["run_id"])["events"]
    assert [event["step"] for event in events if event["type"] == "step.failed"] == ["fall"]
    story = [event["type"] for event in events]
    assert "run.failed" in story
    assert "run.completed" not in story


def test_an_optional_failure_shows_as_skipped_step_and_warning(resident: Caller, flows: dict[str, str]) -> None:
    run = resident.finished(flows["Optional failure"])
    events = resident.events(run["run_id"])["events"]
    assert [event["step"] for event in events if event["type"] == "step.failed"] == ["extra"]
    assert [event["step"] for event in events if event["type"] == "step.skipped"] == ["behind"]
    assert "warning" in kinds({"events": events})
