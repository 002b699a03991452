import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from backend.runtime.sandbox import interpreter
from backend.runtime.sandbox.layer import Launch, Layer, Layout
from backend.runtime.sandbox.limits import Limits


class Unconfined(Layer):
    """No isolation: for operators who said `none`. The resource limits of each process hold, and nothing else."""

    name = "none"
    namespaced = False

    def __init__(self) -> None:
        setpriv = shutil.which("setpriv")
        self._wrapper = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []

    def launch(self, command: Sequence[str], limits: Limits, inputs: Path | None, info_fd: int | None) -> Launch:  # noqa: ARG002 - nothing here can bound a folder or make a namespace
        """Start `command` in a folder of its own, ended with the worker where `setpriv` is installed."""
        scratch = Path(tempfile.mkdtemp(prefix="step-"))
        layout = Layout(
            workspace=str(scratch / "workspace"),
            outputs=str(scratch / "outputs"),
            inputs=str(inputs or scratch / "inputs"),
            temporary=str(scratch / "tmp"),
        )
        for folder in ("workspace", "outputs", "inputs", "tmp"):
            (scratch / folder).mkdir()
        return Launch(argv=[*self._wrapper, *command], environment=layout.environment(), layout=layout, scratch=scratch)

    def check(self) -> None:
        """See that there is an interpreter."""
        interpreter.executable()
