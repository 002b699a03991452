"""The templates that steps are forked from, for tests that look at them."""

from pathlib import Path

from backend.isolation.sandbox import Sandbox
from backend.isolation.sandbox.limits import Limits
from backend.isolation.sandbox.template import Template
from tests.unit.backend.isolation.sandbox.layers import await_template
from tests.unit.backend.isolation.sandbox.steps import LIMITS

IDENTITY = "import os\ndef run(context): return 'asyncio' in __import__('sys').modules"
"""Only a template has imported asyncio for a step that does not."""


def serving(sandbox: Sandbox, limits: Limits = LIMITS) -> Template:
    await_template(sandbox, limits)
    template = sandbox.templates.serving(limits)
    assert template is not None
    return template


def process_of(found: Template) -> int:
    """Returns the template's own process, below those of bubblewrap and the one that mapped its users."""
    pid = found.pid
    for _ in range(3):
        pid = next(int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return pid
