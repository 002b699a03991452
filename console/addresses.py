"""Paths of the console's pages for runs and approvals."""

from typing import Final
from urllib.parse import quote, urlencode

APPROVALS: Final = "/approvals"


def run_address(run_id: str) -> str:
    """Returns the address of a run's page."""
    return f"/runs/{quote(run_id, safe='')}"


def approval_address(approval_id: str) -> str:
    """Returns the address of an approval's page."""
    return f"{APPROVALS}/{quote(approval_id, safe='')}"


def inbox_address(gate: str = "", at: str = "", cursor: str = "") -> str:
    """Returns the address of the inbox, limited to a gate, opened at an approval or at a later page if given."""
    given = {name: value for name, value in (("gate", gate), ("cursor", cursor), ("at", at)) if value}
    return f"{APPROVALS}?{urlencode(given)}" if given else APPROVALS
