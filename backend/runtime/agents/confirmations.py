"""Asks for the approval of calls of tools, and goes on with a conversation whose calls were decided.

Import it only where a model is called, because the import takes long.
"""

import dataclasses
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from pydantic_ai import RunContext, ToolApproved, ToolDenied
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.tools import DeferredToolResults
from pydantic_ai.usage import RunUsage

from backend.common import json_text
from backend.runtime.agents.agent_tools import INVALID_INPUT, model_error
from backend.runtime.agents.base import StepFailed
from backend.runtime.agents.pauses import LARGEST_SHOWN_BYTES, MOST_AT_ONCE, AskedCall, PausedConversation
from backend.runtime.agents.tools import ToolResult

LARGEST_STATE_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of the messages of a conversation that waits."""
_USAGE: Final = ("requests", "tool_calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class Confirmations:
    """The calls of one attempt that need approval, and the approvals of the attempt before."""

    def __init__(self, functions: AbstractSet[str], *, may_ask: bool, resumed: PausedConversation | None) -> None:
        self._functions = functions
        self._may_ask = may_ask
        decisions = {} if resumed is None else resumed.decisions
        self._approved = {call_id: each.digest for call_id, each in decisions.items() if each.approved}
        self.asked: dict[str, AskedCall] = {}

    def failure_of(self, ctx: RunContext[object], function: str, given: Mapping[str, Any]) -> ToolResult | None:
        """Returns the failure of a call that no person can be asked about; None for a call that may be made now.

        Raises:
            ApprovalRequired: a person must approve the call first.
            StepFailed: an approved call does not have the approved arguments.
        """
        if function not in self._functions:
            return None
        call = AskedCall(ctx.tool_call_id or "", function, json_text.canonical(given))
        if ctx.tool_call_approved:
            # Removed, so that an approval permits one call.
            if self._approved.pop(call.call_id, None) != call.digest:
                raise StepFailed("InternalError", "a call differs from the one that was approved", final=True)
            return None
        if not self._may_ask:
            return model_error("NobodyToAsk", "This tool needs the approval of a person, whom this step cannot ask.")
        size = len(call.arguments.encode())
        if size > LARGEST_SHOWN_BYTES:
            most = f"{LARGEST_SHOWN_BYTES:,}"
            return model_error(INVALID_INPUT, f"The arguments have {size:,} bytes of JSON; a person is shown {most}.")
        if len(self.asked) >= MOST_AT_ONCE:
            return model_error("TooManyCalls", f"At most {MOST_AT_ONCE} calls can wait for approval at once.")
        self.asked[call.call_id] = call
        raise ApprovalRequired


def save_messages(messages: list[ModelMessage]) -> str:
    """Returns the messages of a conversation as JSON text.

    Raises:
        StepFailed: they are too large, or hold text that cannot be stored.
    """
    try:
        text = ModelMessagesTypeAdapter.dump_json(messages).decode()
    except ValueError as error:
        raise StepFailed("InvalidAnswer", "the model's messages cannot be stored while a call waits") from error
    if len(text) > LARGEST_STATE_BYTES:
        most = f"{LARGEST_STATE_BYTES:,}"
        raise StepFailed(
            "ConversationTooLarge", f"a call must wait for a person, and the messages have more than {most} bytes"
        )
    return text


def load_messages(resumed: PausedConversation) -> list[ModelMessage]:
    """Returns the messages of a conversation that goes on."""
    return ModelMessagesTypeAdapter.validate_json(resumed.state["messages"])


def save_usage(usage: RunUsage) -> dict[str, int]:
    """Returns the counters of a conversation."""
    return {name: getattr(usage, name) for name in _USAGE}


def load_usage(resumed: PausedConversation | None) -> RunUsage:
    """Returns the counters with which a conversation begins or goes on; rejected calls count as calls of tools."""
    if resumed is None:
        return RunUsage()
    rejected = sum(not each.approved for each in resumed.decisions.values())
    usage = RunUsage(**resumed.state["usage"])
    return dataclasses.replace(usage, tool_calls=usage.tool_calls + rejected)


def tool_results(resumed: PausedConversation) -> DeferredToolResults:
    """Returns the decisions on calls in the library's form."""
    return DeferredToolResults(
        approvals={
            call_id: ToolApproved() if each.approved else ToolDenied(json_text.write(each.refusal()))
            for call_id, each in resumed.decisions.items()
        }
    )
