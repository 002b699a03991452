"""Addresses of the console's pages about one run or one approval."""

from typing import Final
from urllib.parse import quote, urlencode

APPROVALS: Final = "/approvals"


def run_address(run_id: str) -> str:
    """Returns the address of a run's page."""
    return f"/runs/{quote(run_id, safe='')}"


def approval_address(approval_id: str) -> str:
    """Returns the address of an approval's own page."""
    return f"{APPROVALS}/{quote(approval_id, safe='')}"


def inbox_address(gate: str = "", at: str = "", cursor: str = "") -> str:
    """Returns the address of the inbox: of one gate, with an approval opened, on a later page, as far as given."""
    given = {name: value for name, value in (("gate", gate), ("cursor", cursor), ("at", at)) if value}
    return f"{APPROVALS}?{urlencode(given)}" if given else APPROVALS
