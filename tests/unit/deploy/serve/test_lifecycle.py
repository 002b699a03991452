import asyncio
import errno
import os
import resource
import signal
from pathlib import Path

import pytest

from deploy.config.addresses import Address
from deploy.serve.lifecycle import bind_failure, default_data, raise_open_files_limit, run_until_stopped


def test_the_data_folder_follows_xdg() -> None:
    assert default_data({"XDG_DATA_HOME": "/var/x"}, demo=False) == Path("/var/x/workflow-api")


def test_a_demonstration_has_a_data_folder_of_its_own() -> None:
    environment = {"XDG_DATA_HOME": "/var/x"}
    assert default_data(environment, demo=True) != default_data(environment, demo=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_process_in_order(number: signal.Signals) -> None:
    steps: list[str] = []

    async def serve(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), number)
        await stop.wait()
        steps.append("stopped")

    run_until_stopped(serve)
    assert steps == ["stopped"]


def test_an_address_in_use_is_one_sentence() -> None:
    failure = bind_failure(OSError(errno.EADDRINUSE, "in use"), Address("127.0.0.1", 8080))
    assert failure.message == "The HTTP address 127.0.0.1:8080 is in use by another process."


def test_an_address_of_another_machine_is_one_sentence() -> None:
    failure = bind_failure(OSError(errno.EADDRNOTAVAIL, "no"), Address("192.0.2.1", 80))
    assert failure.message == "The HTTP address 192.0.2.1:80 cannot be bound: Cannot assign requested address."


@pytest.mark.parametrize(
    ("limits", "raised", "connections"),
    [
        ((1_024, 524_288), (4_512, 524_288), 4_000),
        ((1_024, resource.RLIM_INFINITY), (4_512, resource.RLIM_INFINITY), 4_000),
        ((1_024, 2_048), (2_048, 2_048), 1_536),
        ((256, 256), (256, 256), 16),
        ((65_536, 65_536), None, 4_000),
    ],
)
def test_the_limit_of_open_files_is_raised_for_connections(
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    raised: tuple[int, int] | None,
    connections: int,
) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: given.append(new))
    assert raise_open_files_limit(4_000) == connections
    assert given == ([raised] if raised else [])
