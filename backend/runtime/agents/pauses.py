"""Calls of a model's tools that wait for a person: the calls, the conversation to go on with, and the decisions."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from backend.common import json_text
from backend.common.json_text import JsonMapping

REFUSED: Final = "Refused"
"""Type of the failure that a model gets for a call that a person rejected."""
LARGEST_SHOWN_BYTES: Final = 8 * 1024
"""Most bytes of the arguments of a call that waits for a person, who must see all of them."""
MOST_AT_ONCE: Final = 10
"""Most calls of one answer of a model that wait for a person."""


class AskedCall(NamedTuple):
    """A call that waits for a person; `arguments` are canonical JSON text."""

    call_id: str
    tool: str
    arguments: str

    @property
    def digest(self) -> str:
        """Digest of tool and arguments, to which an approval is bound."""
        return hashlib.sha256(f"{self.tool}\n{self.arguments}".encode()).hexdigest()


class CallDecision(NamedTuple):
    """A decision on a call with the given digest; `comment` is swept, and None where the deadline decided."""

    digest: str
    approved: bool
    comment: str | None = None
    by_deadline: bool = False

    def refusal(self) -> JsonMapping:
        """Returns the result of a rejected call, for the model."""
        if self.by_deadline:
            message = "Nobody approved this call in time, so it was not made."
        else:
            message = "A person rejected this call, so it was not made."
        if self.comment and not self.by_deadline:
            message += f" Their comment: {self.comment}"
        return {"error": {"type": REFUSED, "message": message}}


@dataclass(frozen=True, slots=True)
class PausedConversation:
    """The state of a conversation whose calls have been decided, by the calls' ids."""

    state: JsonMapping
    decisions: Mapping[str, CallDecision]


class StepPaused(Exception):  # noqa: N818 - no error
    """The attempt ended with calls of tools that a person must approve before the next attempt goes on.

    `state` is the conversation so far; `shared` is as in `StepResult`.
    """

    def __init__(
        self,
        calls: Sequence[AskedCall],
        state: JsonMapping,
        shared: set[str],
    ) -> None:
        super().__init__("the step waits for a person")
        self.calls = calls
        self.state: Mapping[str, Any] = state
        self.shared = shared
        self.log = b""


def call_text(call: AskedCall, arguments: Any) -> str:
    """Returns the JSON text that an approval has of a call, with its arguments as a person may see them."""
    return json_text.write({"tool": call.tool, "arguments": arguments})
