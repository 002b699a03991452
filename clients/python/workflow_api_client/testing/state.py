"""State of the fake service, and its received requests."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from workflow_api_client.testing.fake_clock import FakeClock
from workflow_api_client.testing.fake_run import FakeRun
from workflow_api_client.testing.script import Moment


@dataclass(frozen=True)
class FakeRequest:
    """A request that the fake service received. Names of headers are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    at: float


@dataclass
class State:
    """State of the fake service: clock, workflows with scripts, and runs."""

    waits: bool
    streams: bool
    clock: FakeClock = field(default_factory=FakeClock)
    runs: dict[str, FakeRun] = field(default_factory=dict)
    workflows: dict[str, dict[str, Any]] = field(default_factory=dict)
    scripts: dict[str, tuple[Moment, ...]] = field(default_factory=dict)
    parameters: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    keys: dict[str, tuple[str, str]] = field(default_factory=dict)
    cuts: list[tuple[int, bool]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def catch_up(self) -> None:
        """Applies the due events of every run's script."""
        for run in self.runs.values():
            run.catch_up()
