import asyncio

import pytest

from backend.runtime.execution.slots import StepSlots


def _holders(asked: dict[str, asyncio.Future[None]]) -> set[str]:
    return {name for name, slot in asked.items() if slot.done() and not slot.cancelled()}


def test_no_more_slots_are_given_than_there_are() -> None:
    async def scene() -> None:
        slots = StepSlots(2, 100)
        asked = {name: slots.request("k", 0) for name in "abc"}
        assert _holders(asked) == {"a", "b"}
        slots.release("k", 0)
        assert _holders(asked) == {"a", "b", "c"}

    asyncio.run(scene())


def test_a_free_slot_goes_to_the_key_that_holds_the_fewest() -> None:
    async def scene() -> None:
        slots = StepSlots(2, 100)
        asked = {name: slots.request("busy", 0) for name in ("b1", "b2", "b3", "b4")}
        asked["other"] = slots.request("other", 0)
        slots.release("busy", 0)
        assert _holders(asked) == {"b1", "b2", "other"}

    asyncio.run(scene())


def test_keys_that_hold_as_many_take_turns() -> None:
    async def scene() -> None:
        slots = StepSlots(1, 100)
        held = slots.request("x", 0)
        asked = {name: slots.request(name[0], 0) for name in ("a1", "a2", "b1", "b2")}
        assert held.done()
        order: list[str] = []
        for key in ("x", "a", "b", "a"):
            slots.release(key, 0)
            order.append((_holders(asked) - set(order)).pop())
        assert order == ["a1", "b1", "a2", "b2"]

    asyncio.run(scene())


def test_who_no_longer_waits_takes_no_slot() -> None:
    async def scene() -> None:
        slots = StepSlots(1, 100)
        slots.request("k", 0)
        gone, next_one = slots.request("k", 0), slots.request("k", 0)
        gone.cancel()
        slots.release("k", 0)
        assert next_one.done()
        slots.release("k", 0)
        assert slots.request("z", 0).done()

    asyncio.run(scene())


def test_no_more_memory_is_given_than_there_is() -> None:
    async def scene() -> None:
        slots = StepSlots(8, 100)
        asked = {name: slots.request(name, 40) for name in "abc"}
        assert _holders(asked) == {"a", "b"}
        slots.release("a", 40)
        assert _holders(asked) == {"a", "b", "c"}

    asyncio.run(scene())


def test_what_asks_for_little_does_not_overtake_what_asks_for_much() -> None:
    async def scene() -> None:
        slots = StepSlots(8, 100)
        asked = {"small": slots.request("k", 40), "other": slots.request("k", 40), "big": slots.request("k", 80)}
        asked |= {"behind": slots.request("k", 1), "another key's": slots.request("z", 1)}
        assert _holders(asked) == {"small", "other"}
        slots.release("k", 40)
        assert _holders(asked) == {"small", "other"}
        slots.release("k", 40)
        assert _holders(asked) == asked.keys()

    asyncio.run(scene())


def test_the_turn_goes_by_key_also_among_those_who_wait_for_memory() -> None:
    async def scene() -> None:
        slots = StepSlots(8, 100)
        asked = {"b1": slots.request("busy", 60), "b2": slots.request("busy", 60), "b3": slots.request("busy", 60)}
        asked["other"] = slots.request("other", 60)
        # It was the second's turn when the other key came.
        order: list[str] = []
        for key in ("busy", "busy", "other"):
            slots.release(key, 60)
            order.append((_holders(asked) - {"b1", *order}).pop())
        assert order == ["b2", "other", "b3"]

    asyncio.run(scene())


def test_who_gives_up_waiting_for_memory_holds_up_nobody() -> None:
    async def scene() -> None:
        slots = StepSlots(8, 100)
        slots.request("k", 40)
        big, small = slots.request("k", 90), slots.request("z", 10)
        assert not small.done()
        big.cancel()
        await asyncio.wait_for(small, 60)

    asyncio.run(scene())


def test_a_slot_is_taken_at_once_only_where_nobody_waits_and_there_is_memory() -> None:
    async def scene() -> None:
        slots = StepSlots(3, 100)
        assert not slots.try_take("k", 101)
        assert slots.try_take("k", 60)
        waiting = slots.request("z", 60)
        assert not slots.try_take("k", 10)
        slots.release("k", 60)
        assert waiting.done()
        assert slots.try_take("k", 40)
        assert not slots.try_take("k", 1)
        assert slots.in_use == 2

    asyncio.run(scene())


def test_a_key_leaves_a_slot_for_keys_that_hold_none() -> None:
    async def scene() -> None:
        slots = StepSlots(8, 100)
        asked = {f"busy {number}": slots.request("busy", 0) for number in range(9)}
        assert len(_holders(asked)) == 7
        assert not slots.try_take("busy", 0)
        other = slots.request("other", 0)
        assert other.done()
        slots.release("other", 0)
        assert len(_holders(asked)) == 7
        slots.release("busy", 0)
        assert len(_holders(asked)) == 8
        assert slots.request("third", 0).done()

    asyncio.run(scene())


def test_keys_with_slots_leave_one_for_the_next_key() -> None:
    async def scene() -> None:
        slots = StepSlots(8, 100)
        asked = {name: slots.request(name[0], 0) for name in ("a1", "b1", "a2", "b2", "a3", "b3", "a4", "b4", "a5")}
        assert len(_holders(asked)) == 7
        assert slots.request("c", 0).done()
        assert not slots.request("d", 0).done()

    asyncio.run(scene())


@pytest.mark.parametrize(("count", "alone"), [(1, 1), (2, 2), (3, 2), (8, 7), (256, 255)])
def test_a_key_alone_loses_one_slot_of_three_or_more(count: int, alone: int) -> None:
    async def scene() -> None:
        slots = StepSlots(count, 100)
        asked = [slots.request("k", 0) for _ in range(count + 1)]
        assert sum(slot.done() for slot in asked) == alone

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("memory_mb", "alone"), [(90, 1), (50, 2), (34, 2), (33, 2), (30, 2), (25, 3), (20, 4), (12, 7), (1, 7)]
)
def test_a_key_leaves_a_slots_share_of_the_memory(memory_mb: int, alone: int) -> None:
    """One step fewer at the most, where there is memory for three of them."""

    async def scene() -> None:
        slots = StepSlots(8, 100)
        asked = [slots.request("k", memory_mb) for _ in range(9)]
        assert sum(slot.done() for slot in asked) == alone
        assert 0 <= min(8, 100 // memory_mb) - alone <= 1
        if 100 // memory_mb > 2:
            assert slots.request("z", 100 // 8).done()

    asyncio.run(scene())


def test_what_is_held_back_for_others_goes_by_turns() -> None:
    async def scene() -> None:
        slots = StepSlots(3, 100)
        asked = {name: slots.request(name[0], 0) for name in ("a1", "a2", "a3", "b1")}
        assert _holders(asked) == {"a1", "a2", "b1"}
        asked["b2"] = slots.request("b", 0)
        slots.release("a", 0)
        assert _holders(asked) == {"a1", "a2", "b1"}, "the last slot is for a third key"
        slots.release("a", 0)
        assert _holders(asked) == {"a1", "a2", "b1", "a3"}, "of two free ones, the first goes to the key without any"

    asyncio.run(scene())


def test_a_request_that_needs_the_reservation_is_overtaken_by_keys_that_hold_none() -> None:
    async def scene() -> None:
        slots = StepSlots(8, 100)
        slots.request("a", 60)
        slots.request("b", 10)
        waits = slots.request("a", 32)
        assert not waits.done()
        slots.release("b", 10)
        assert not waits.done(), "it would leave 8 of the 12 that are reserved"
        assert slots.request("c", 12).done()
        slots.release("a", 60)
        assert waits.done()

    asyncio.run(scene())
