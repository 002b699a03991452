"""Authenticated caller of an RPC, as the domain services see it."""

from typing import NamedTuple


class Principal(NamedTuple):
    """An API key that the edge admitted, or an internal service when `key_id` is None.

    Attributes:
        person: The person signed in to the console that calls, empty where nobody is; None for all other callers.
        workflow_ids: The workflows that the caller is limited to; None for all.
    """

    key_id: str | None
    actor: str
    request_id: str
    person: str | None = None
    workflow_ids: frozenset[str] | None = None

    @property
    def audit_name(self) -> str:
        """The caller as the audit trail names it."""
        return f"key:{self.key_id}" if self.key_id else self.actor
