import asyncio
import errno
import os
import signal
from pathlib import Path

import pytest

from deploy.addresses import Address
from deploy.lifecycle import cannot_listen, default_data, run_until_stopped


def test_data_is_kept_where_the_system_says() -> None:
    assert default_data({"XDG_DATA_HOME": "/var/x"}, demo=False) == Path("/var/x/workflow-api")


def test_a_demonstration_keeps_its_data_apart() -> None:
    environment = {"XDG_DATA_HOME": "/var/x"}
    assert default_data(environment, demo=True) != default_data(environment, demo=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_in_order(number: signal.Signals) -> None:
    steps: list[str] = []

    async def serve(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), number)
        await stop.wait()
        steps.append("stopped")

    run_until_stopped(serve)
    assert steps == ["stopped"]


def test_an_address_in_use_is_one_sentence() -> None:
    failure = cannot_listen(OSError(errno.EADDRINUSE, "in use"), Address("127.0.0.1", 8080))
    assert failure.message == "The HTTP address 127.0.0.1:8080 is in use by another process."


def test_an_address_of_another_machine_is_one_sentence() -> None:
    failure = cannot_listen(OSError(errno.EADDRNOTAVAIL, "no"), Address("192.0.2.1", 80))
    assert failure.message == "The HTTP address 192.0.2.1:80 cannot be bound: Cannot assign requested address."
