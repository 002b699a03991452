import asyncio

from backend.runtime.slots import StepSlots


def _holders(asked: dict[str, asyncio.Future[None]]) -> set[str]:
    return {name for name, slot in asked.items() if slot.done() and not slot.cancelled()}


def test_no_more_slots_are_given_than_there_are() -> None:
    async def scene() -> None:
        slots = StepSlots(2)
        asked = {name: slots.ask("k") for name in "abc"}
        assert _holders(asked) == {"a", "b"}
        slots.release("k")
        assert _holders(asked) == {"a", "b", "c"}

    asyncio.run(scene())


def test_a_free_slot_goes_to_the_key_that_holds_the_fewest() -> None:
    async def scene() -> None:
        slots = StepSlots(2)
        asked = {name: slots.ask("busy") for name in ("b1", "b2", "b3", "b4")}
        asked["other"] = slots.ask("other")
        slots.release("busy")
        assert _holders(asked) == {"b1", "b2", "other"}

    asyncio.run(scene())


def test_keys_that_hold_as_many_take_turns() -> None:
    async def scene() -> None:
        slots = StepSlots(1)
        held = slots.ask("x")
        asked = {name: slots.ask(name[0]) for name in ("a1", "a2", "b1", "b2")}
        assert held.done()
        order: list[str] = []
        for key in ("x", "a", "b", "a"):
            slots.release(key)
            order.append((_holders(asked) - set(order)).pop())
        assert order == ["a1", "b1", "a2", "b2"]

    asyncio.run(scene())


def test_who_no_longer_waits_takes_no_slot() -> None:
    async def scene() -> None:
        slots = StepSlots(1)
        slots.ask("k")
        gone, next_one = slots.ask("k"), slots.ask("k")
        gone.cancel()
        slots.release("k")
        assert next_one.done()
        slots.release("k")
        assert slots.ask("z").done()

    asyncio.run(scene())
