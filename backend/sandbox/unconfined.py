"""Layer without isolation, for operators who choose it."""

import shutil
from collections.abc import Sequence

from backend.sandbox import interpreter
from backend.sandbox.layer import Launch, Layer, Readable, scratch_layout
from backend.sandbox.limits import Limits


class Unconfined(Layer):
    """Layer of the setting `none`: it limits memory, processes and workspace, and isolates nothing."""

    name = "none"
    guarded = None

    def __init__(self) -> None:
        setpriv = shutil.which("setpriv")
        self._wrapper = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []

    def launch(
        self,
        command: Sequence[str],
        limits: Limits,
        readable: Readable,
        fds: Sequence[int],  # noqa: ARG002 - the command itself inherits them
        link: int,  # noqa: ARG002 - nothing outlives the command to listen
    ) -> Launch:
        """Wraps `command` to run in a folder of its own, and to end with the worker if `setpriv` is installed."""
        scratch, layout = scratch_layout(
            readable, packages=None if limits.packages is None else self.place_of(limits.packages)
        )
        return Launch(
            argv=[*self._wrapper, *command],
            environment=layout.environment(),
            layout=layout,
            scratch=scratch,
            view=readable.view,
        )

    def check(self) -> None:
        """Checks that there is an interpreter."""
        interpreter.executable()
