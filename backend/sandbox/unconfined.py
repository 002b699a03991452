"""The layer that isolates nothing, for operators who said so."""

import shutil
from collections.abc import Sequence

from backend.sandbox import interpreter
from backend.sandbox.layer import Launch, Layer, Readable, scratch_layout
from backend.sandbox.limits import Limits


class Unconfined(Layer):
    """No isolation: for operators who said `none`. The limits of memory, processes and workspace hold, nothing else."""

    name = "none"
    guarded = None

    def __init__(self) -> None:
        setpriv = shutil.which("setpriv")
        self._wrapper = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []

    def launch(
        self,
        command: Sequence[str],
        limits: Limits,  # noqa: ARG002 - nothing here bounds a folder
        readable: Readable,
        fds: Sequence[int],  # noqa: ARG002 - the command itself inherits them
        link: int,  # noqa: ARG002 - nothing outlives the command to listen
    ) -> Launch:
        """Start `command` in a folder of its own, ended with the worker where `setpriv` is installed."""
        scratch, layout = scratch_layout(readable)
        return Launch(argv=[*self._wrapper, *command], environment=layout.environment(), layout=layout, scratch=scratch)

    def check(self) -> None:
        """See that there is an interpreter."""
        interpreter.executable()
