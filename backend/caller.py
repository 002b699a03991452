"""Who makes a call, as the domain services see it."""

from typing import NamedTuple


class Caller(NamedTuple):
    """An API key that the edge admitted, or an internal service when `key_id` is None."""

    key_id: str | None
    actor: str
    request_id: str

    @property
    def audit_name(self) -> str:
        """The caller as the audit trail names it."""
        return f"key:{self.key_id}" if self.key_id else self.actor
