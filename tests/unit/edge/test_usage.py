import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message

from contract.call_groups import calls_in
from contract.times import milliseconds_of
from edge.server import system_clock
from edge.settings import EdgeSettings
from edge.usage import SINGLE_REFUSALS, UsageRecorder
from tests.unit.edge.services import EDGE, MemoryChannel, refusing


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the state changes without an event
            await asyncio.sleep(0.001)


def record(recorder: UsageRecorder, count: int, start: int = 0) -> None:
    for at_ms in range(start, start + count):
        recorder.record((at_ms, "ak_a", ("GET", "/me", 200, ""), "::1", "r", 1_000))


def seen(channel: MemoryChannel) -> list[int]:
    return [milliseconds_of(record.at) for record in channel.usage]


def sizes(channel: MemoryChannel) -> list[int]:
    return [sum(len(group.times) for group in batch.groups) for batch in channel.batches]


def test_records_leave_in_batches_of_at_most_ten_thousand() -> None:
    async def run() -> MemoryChannel:
        channel = MemoryChannel()
        recorder = UsageRecorder(channel, EdgeSettings(usage_flush_seconds=0.001), system_clock)
        record(recorder, 25_000)
        recorder.start()
        await until(lambda: sum(sizes(channel)) == 25_000)
        await recorder.stop()
        return channel

    channel = asyncio.run(run())
    assert sizes(channel) == [10_000, 10_000, 5_000]
    assert len({batch.batch_id for batch in channel.batches}) == 3
    assert seen(channel) == list(range(25_000))


def test_calls_that_come_while_a_batch_is_sent_wait_for_the_next_turn() -> None:
    async def run() -> tuple[MemoryChannel, list[int]]:
        channel = MemoryChannel()
        recorder = UsageRecorder(channel, EdgeSettings(usage_flush_seconds=0.001), system_clock)
        keep = channel.answers[EDGE + "RecordUsage"]

        def keep_while_another_comes(request: Any) -> Message:
            if len(channel.batches) < 3:
                record(recorder, 1, start=10 + len(channel.batches))
            return keep(request)

        channel.answers[EDGE + "RecordUsage"] = keep_while_another_comes
        record(recorder, 10)
        await recorder.stop()
        first = sizes(channel)
        await recorder.stop()
        await recorder.stop()
        await recorder.stop()
        return channel, first

    channel, first = asyncio.run(run())
    assert first == [10]
    assert sizes(channel) == [10, 1, 1, 1]


def test_a_recorder_that_stops_while_it_groups_loses_nothing() -> None:
    async def run() -> MemoryChannel:
        channel = MemoryChannel()
        recorder = UsageRecorder(channel, EdgeSettings(usage_flush_seconds=0), system_clock)
        for at_ms in range(0, 50_000_000, 10_000):
            record(recorder, 1, start=at_ms)
        recorder.start()
        for _ in range(3):
            await asyncio.sleep(0)
        await recorder.stop()
        return channel

    assert len(seen(asyncio.run(run()))) == 5_000


def test_a_batch_is_tried_again_under_its_id_until_it_is_kept() -> None:
    async def run() -> MemoryChannel:
        channel = MemoryChannel()
        channel.reachable = False
        recorder = UsageRecorder(channel, EdgeSettings(usage_flush_seconds=0.001), system_clock)
        record(recorder, 1)
        recorder.start()
        await until(lambda: len(channel.calls) > 3)
        channel.reachable = True
        await until(lambda: bool(channel.batches))
        await recorder.stop()
        return channel

    channel = asyncio.run(run())
    assert len({request.batch_id for _, request, _ in channel.calls}) == 1  # type: ignore[attr-defined]
    assert seen(channel) == [0]


def test_a_batch_that_is_refused_does_not_hold_up_the_next() -> None:
    async def run() -> tuple[MemoryChannel, int]:
        channel = MemoryChannel()
        recorder = UsageRecorder(channel, EdgeSettings(), system_clock)
        keep = channel.answers[EDGE + "RecordUsage"]
        channel.answers[EDGE + "RecordUsage"] = refusing("invalid_request")
        record(recorder, 1)
        await recorder.stop()
        channel.answers[EDGE + "RecordUsage"] = keep
        record(recorder, 1, start=1)
        await recorder.stop()
        return channel, recorder.lost

    channel, lost = asyncio.run(run())
    assert (seen(channel), lost) == ([1], 1)


def test_what_overflows_the_buffer_is_counted_oldest_first() -> None:
    async def run() -> tuple[MemoryChannel, int]:
        channel = MemoryChannel()
        recorder = UsageRecorder(channel, EdgeSettings(usage_buffer_records=10), system_clock)
        record(recorder, 25)
        await recorder.stop()
        return channel, recorder.lost

    channel, lost = asyncio.run(run())
    assert (seen(channel), lost) == (list(range(15, 25)), 15)


def test_what_cannot_be_sent_at_the_end_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> int:
        channel = MemoryChannel()
        channel.reachable = False
        recorder = UsageRecorder(channel, EdgeSettings(), system_clock)
        record(recorder, 3)
        await recorder.stop()
        return recorder.lost

    assert asyncio.run(run()) == 3
    assert "3 are lost" in caplog.text


def test_records_without_a_key_have_a_share_of_each_minute_only() -> None:
    async def run() -> tuple[MemoryChannel, int]:
        channel = MemoryChannel()
        recorder = UsageRecorder(channel, EdgeSettings(usage_anonymous_per_minute=2), system_clock)
        for at_ms in (0, 1, 2, 3, 60_000):
            recorder.record((at_ms, "", ("GET", "/me", 401, "unauthorized"), "::1", "r", 1_000))
        record(recorder, 1, start=4)
        await recorder.stop()
        return channel, recorder.lost

    channel, lost = asyncio.run(run())
    assert (seen(channel), lost) == ([0, 1, 60_000, 4], 2)


def refuse(recorder: UsageRecorder, count: int, start: int = 0, address: str = "::1", **changes: Any) -> None:
    kind = {"method": "GET", "route": "/me", "status": 429, "reason": "rate_limited", **changes}
    key_id = kind.pop("key_id", "ak_a")
    for at_ms in range(start, start + count):
        recorder.record((at_ms, key_id, tuple(kind.values()), address, f"r{at_ms}", 1_000))


def kept_calls(channel: MemoryChannel) -> list[tuple[int, Any, str, int]]:
    """Time, kind, address and number of calls of each record."""
    return [
        (at, kind, address, number)
        for batch in channel.batches
        for group in batch.groups
        for (at, _, kind, address, _, _), number in zip(
            calls_in(group), group.calls or [1] * len(group.times), strict=True
        )
    ]


def recorded(scene: Callable[[UsageRecorder], None]) -> list[tuple[int, Any, str, int]]:
    async def run() -> MemoryChannel:
        channel = MemoryChannel()
        recorder = UsageRecorder(channel, EdgeSettings(), system_clock)
        scene(recorder)
        await recorder.stop()
        return channel

    return kept_calls(asyncio.run(run()))


def test_refused_calls_of_a_key_beyond_a_bound_share_a_record_with_their_number() -> None:
    def scene(recorder: UsageRecorder) -> None:
        refuse(recorder, 10_499)
        record(recorder, 3, start=20_000)
        refuse(recorder, 1, start=60_000)

    kept = recorded(scene)
    limited = ("GET", "/me", 429, "rate_limited")
    assert sum(number for _, kind, _, number in kept if kind == limited) == 10_500
    assert [one for one in kept if one[3] > 1] == [(10_498, limited, "::1", 10_499 - SINGLE_REFUSALS)]
    assert len(kept) == SINGLE_REFUSALS + 1 + 3 + 1


def test_grouped_refusals_are_kept_apart_by_key_minute_kind_and_address() -> None:
    def scene(recorder: UsageRecorder) -> None:
        for minute in range(2):
            for key_id in ("ak_a", "ak_b"):
                start = minute * 60_000
                refuse(recorder, SINGLE_REFUSALS, start, key_id=key_id)
                for status, reason in ((429, "rate_limited"), (403, "forbidden")):
                    for address in ("::1", "::2"):
                        refuse(recorder, 5, start, address, key_id=key_id, status=status, reason=reason)

    assert sorted(number for *_, number in recorded(scene) if number > 1) == [5] * 16


def test_addresses_of_grouped_refusals_past_sixteen_share_one() -> None:
    def scene(recorder: UsageRecorder) -> None:
        refuse(recorder, SINGLE_REFUSALS)
        for number in range(40):
            refuse(recorder, 2, address=f"10.0.0.{number}")

    grouped = {address: number for _, _, address, number in recorded(scene) if number > 1}
    assert grouped == {**{f"10.0.0.{number}": 2 for number in range(16)}, "other": 48}


def test_methods_and_routes_that_a_caller_makes_up_leave_a_bounded_number_of_records() -> None:
    def scene(recorder: UsageRecorder) -> None:
        for number in range(2_000):
            refuse(recorder, 1, method=f"METHOD{number}", route=f"/{number}")

    kept = recorded(scene)
    assert len(kept) <= SINGLE_REFUSALS + 257
    assert sum(number for *_, number in kept) == 2_000


def test_grouped_refusals_are_sent_after_their_minute_and_counted_where_they_are_lost() -> None:
    now = 0

    async def run() -> tuple[list[tuple[int, Any, str, int]], int]:
        nonlocal now
        channel = MemoryChannel()
        recorder = UsageRecorder(channel, EdgeSettings(usage_flush_seconds=0.001), clock=lambda: now)
        refuse(recorder, SINGLE_REFUSALS + 9)
        recorder.start()
        await until(lambda: bool(channel.batches))
        assert sum(number for *_, number in kept_calls(channel)) == SINGLE_REFUSALS
        now = 60_000
        await until(lambda: len(channel.batches) == 2)
        channel.reachable = False
        refuse(recorder, SINGLE_REFUSALS + 7, start=60_000)
        await recorder.stop()
        return kept_calls(channel), recorder.lost

    kept, lost = asyncio.run(run())
    assert sum(number for *_, number in kept) == SINGLE_REFUSALS + 9
    assert lost == SINGLE_REFUSALS + 7


def test_answered_calls_always_have_records_of_their_own() -> None:
    assert {number for *_, number in recorded(lambda recorder: record(recorder, 500))} == {1}
