"""Isolates the code of a step from the host and from every other step (docs/sandbox.md).

`choose_sandbox` selects a layer at start-up; `Sandbox.start` returns a process that waits for the request of a step.
"""

from backend.isolation.sandbox.layer import Readable, SandboxUnavailableError
from backend.isolation.sandbox.limits import Limits, Network, StepPackages, StepRoot
from backend.isolation.sandbox.sandbox import Sandbox, choose_sandbox

__all__ = [
    "Limits",
    "Network",
    "Readable",
    "Sandbox",
    "SandboxUnavailableError",
    "StepPackages",
    "StepRoot",
    "choose_sandbox",
]
