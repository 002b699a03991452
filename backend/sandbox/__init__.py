"""Isolates the code of a step from the host and from every other step (docs/sandbox.md).

`choose_sandbox` selects a layer at start-up; `Sandbox.start` returns a process that waits for the request of a step.
"""

from backend.sandbox.choose import choose_sandbox
from backend.sandbox.layer import Readable, SandboxUnavailableError
from backend.sandbox.limits import Limits, Network, Packages
from backend.sandbox.sandbox import Sandbox

__all__ = ["Limits", "Network", "Packages", "Readable", "Sandbox", "SandboxUnavailableError", "choose_sandbox"]
