"""Runs one step's code apart from the host and from every other step (DESIGN.md §6 and §7).

`choose_sandbox` picks a layer at start-up; `Sandbox.start` gives a started process that waits for its
one request.
"""

from backend.sandbox.choose import choose_sandbox
from backend.sandbox.layer import Readable, SandboxUnavailableError
from backend.sandbox.limits import Limits, Network
from backend.sandbox.sandbox import Sandbox

__all__ = ["Limits", "Network", "Readable", "Sandbox", "SandboxUnavailableError", "choose_sandbox"]
