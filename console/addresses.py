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


def review_file_address(approval_id: str, output_id: str) -> str:
    """Returns the address below which a file of an approval is had: `/download`, `/picture` or `/pages/<number>`."""
    return f"{approval_address(approval_id)}/files/{quote(output_id, safe='')}"


def inbox_address(gate: str = "", at: str = "", cursor: str = "", show: str = "", *, opened: bool = False) -> str:
    """Returns the address of the inbox, limited to a gate or view, at an approval or a later page if given.

    With `opened` a narrow screen shows the approval in place of the list.
    """
    named = (("show", show), ("gate", gate), ("cursor", cursor), ("at", at), ("open", "yes" if opened else ""))
    given = {name: value for name, value in named if value}
    return f"{APPROVALS}?{urlencode(given)}" if given else APPROVALS
