"""A started step as seen by the worker."""

import socket
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Literal

from backend.sandbox.layer import Launch
from backend.sandbox.log import StepLog

Excess = Literal["memory", "processes", "workspace"]


class Watched(ABC):
    """Processes whose resources are watched: those of a step, or of what steps are forked from."""

    wrapped: bool
    """Whether the process `pid` is the layer's."""

    def __init__(self, launch: Launch) -> None:
        self.layout = launch.layout
        self.scratch = launch.scratch
        self.exceeded: Excess | None = None
        """The resource that was exceeded, if it was killed for that."""
        self.root: Path | None = None
        """Path by which the worker opens the step's root folder, once its namespace is known."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """Id of the process that all others descend from."""

    @property
    def excluded_pids(self) -> frozenset[int]:
        """Descendants of that process that are not counted here, with theirs: each is watched on its own."""
        return frozenset()

    @abstractmethod
    def kill(self) -> None:
        """Kills all of the processes, without waiting for their end. On any thread."""


class StepProcess(Watched):
    """A started sandbox whose runner waits for its request on `channel`.

    `end` kills and reaps all processes that the step has started, on any thread; `close` closes the worker's
    descriptors, on the thread of the event loop that used them.
    """

    def __init__(self, launch: Launch, channel: socket.socket, log: StepLog, link: socket.socket) -> None:
        super().__init__(launch)
        self.processes = launch.processes
        self.channel = channel
        self.log = log
        self._link = link

    @property
    def death(self) -> int | None:
        """A descriptor that is readable once all of the step's processes are dead; None where `end` must find out."""
        return None

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Returns whether the process `pid` still runs."""

    @abstractmethod
    def confirm(self) -> None:
        """Looks at the namespace that the step is in, once its runner is ready; raises OSError if it is in none."""

    @abstractmethod
    def exit_status(self, wait_seconds: float) -> int | None:
        """Returns the exit status, negative for a signal; None if it still runs after that time. Does not reap it."""

    @abstractmethod
    def end(self) -> None:
        """Kills and reaps all processes of the step, and removes its files from the host."""

    def close(self) -> None:
        """Closes the worker's ends of socket, log and link."""
        self.channel.close()
        self.log.close()
        self._link.close()
