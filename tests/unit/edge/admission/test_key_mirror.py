import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from google.protobuf.message import Message

from edge.admission.key_mirror import KeyMirrorFollower
from edge.admission.keyring import Keyring
from edge.settings import EdgeSettings
from tests.unit.edge.services import CREDENTIALS, EDGE, EXTERNAL_ID, MemoryChannel, mirror, mirrored_key
from tests.unit.edge.test_usage import until

BEARER = CREDENTIALS[0].partition(": ")[2]
NOW = 1_790_000_000_000
QUICK = {
    "mirror_first_seconds": 0.0,
    "mirror_retry_seconds": 0.01,
    "mirror_poll_seconds": 0.02,
    "mirror_heartbeat_seconds": 0.02,
}


def follow(channel_of: Callable[[], MemoryChannel], use: Callable[..., Awaitable[None]], **settings: float) -> None:
    async def run() -> None:
        channel = channel_of()
        keyring = Keyring(120)
        follower = KeyMirrorFollower(channel, keyring, EdgeSettings(**{**QUICK, **settings}))  # type: ignore[arg-type]
        await follower.start()
        try:
            await use(channel, keyring)
        finally:
            await follower.stop()

    asyncio.run(run())


def admits(keyring: Keyring) -> bool:
    return keyring.closed_reason() is None and keyring.identify([BEARER], [EXTERNAL_ID], NOW) is not None


def test_the_first_copy_is_there_when_the_start_is_over() -> None:
    async def use(_: MemoryChannel, keyring: Keyring) -> None:
        assert admits(keyring)

    follow(MemoryChannel, use, mirror_first_seconds=60.0)


def test_a_change_arrives_over_the_stream() -> None:
    async def use(channel: MemoryChannel, keyring: Keyring) -> None:
        await channel.change_keys(mirror(mirrored_key(revoked=True), revision=2))
        await until(lambda: not admits(keyring))

    follow(MemoryChannel, use, mirror_first_seconds=60.0)


def test_a_broken_stream_is_opened_again() -> None:
    async def use(channel: MemoryChannel, keyring: Keyring) -> None:
        channel.reachable = False
        await until(lambda: len(channel.closed_streams) > 2)
        channel.reachable = True
        await channel.change_keys(mirror(revision=2))
        await until(lambda: not admits(keyring))

    follow(MemoryChannel, use, mirror_first_seconds=60.0)


def test_a_living_stream_is_opened_anew_in_time() -> None:
    async def use(channel: MemoryChannel, keyring: Keyring) -> None:
        await until(lambda: len(channel.closed_streams) > 2)
        assert admits(keyring)
        assert channel.called(EDGE + "GetKeyMirror") == []

    follow(MemoryChannel, use, mirror_first_seconds=60.0, mirror_renewal_seconds=0.0, mirror_poll_seconds=5.0)


async def _broken(_: Any) -> AsyncIterator[Message]:
    raise ValueError
    yield mirror()


def test_without_a_stream_the_keys_are_polled() -> None:
    def channel_of() -> MemoryChannel:
        channel = MemoryChannel()
        channel.streams[EDGE + "WatchKeyMirror"] = _broken
        return channel

    async def use(channel: MemoryChannel, keyring: Keyring) -> None:
        await until(lambda: admits(keyring))
        await channel.change_keys(mirror(revision=2))
        await until(lambda: not admits(keyring))

    follow(channel_of, use)


def test_a_sign_of_life_of_an_unknown_copy_fetches_it() -> None:
    async def watch(_: Any) -> AsyncIterator[Message]:
        yield mirror(revision=7, unchanged=True)
        await asyncio.sleep(3600)

    def channel_of() -> MemoryChannel:
        channel = MemoryChannel(mirror(mirrored_key(), revision=7))
        channel.streams[EDGE + "WatchKeyMirror"] = watch
        return channel

    async def use(channel: MemoryChannel, keyring: Keyring) -> None:
        await until(lambda: admits(keyring))
        assert channel.called(EDGE + "GetKeyMirror")

    follow(channel_of, use, mirror_poll_seconds=3600.0, mirror_heartbeat_seconds=3600.0)
