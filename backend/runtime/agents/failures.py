"""Makes the failures of steps in a sandbox, with messages for the caller."""

import json
import signal
from collections.abc import Mapping
from typing import Any, Final

from backend.isolation.sandbox import Limits
from backend.isolation.sandbox.inside.channel import MAX_MESSAGE_CHARACTERS
from backend.isolation.sandbox.limits import PROCESSES
from backend.isolation.sandbox.process import Excess
from backend.runtime.agents.base import StepFailed

_REMEDIES: Final[Mapping[str, str]] = {
    "module": "name its package in python.packages of the environment, or bring the module with the agent",
    "network": "the step has no network: give its environment network: full",
    "variable": "steps have no variables of the service: give the environment variables, "
    "or name a secret in secrets of the agent for context.secret()",
    "place": "steps write to context.outputs, context.shared or context.workspace alone",
}
"""Remedies of failures, by the symptom that the runner names."""

PROTOCOL_MESSAGE = "the step's process sent something other than a result"


def plain(text: Any, most: int = MAX_MESSAGE_CHARACTERS) -> str:
    """Returns text from a step as storable text: no lone surrogates, no NUL, at most `most` characters."""
    return str(text)[:most].encode(errors="replace").decode().replace("\0", "\ufffd")


def memory_limit(limits: Limits) -> StepFailed:
    """Returns the failure of a step that needed more memory than it may have."""
    return StepFailed(
        "MemoryLimit", f"the step needs more memory than its environment's memory_mb of {limits.memory_mb}"
    )


def time_limit(limits: Limits) -> StepFailed:
    """Returns the failure of a step that ran longer than it may."""
    return StepFailed("TimeLimit", f"the step ran longer than its {limits.timeout_seconds:g} seconds")


def workspace_limit(limits: Limits) -> StepFailed:
    """Returns the failure of a step that filled its workspace."""
    return StepFailed(
        "WorkspaceLimit",
        f"the step's workspace is full: its environment's workspace_mb is {limits.workspace_mb}, outputs included",
    )


def protocol_failure(reason: object) -> StepFailed:
    """Returns the failure of a step that broke the runner's protocol; the reason is for the log."""
    return StepFailed("ProtocolError", PROTOCOL_MESSAGE, f"{plain(reason)}\n".encode())


def reported(payload: bytes, limits: Limits) -> StepFailed:
    """Returns the failure that the runner reported: `{kind, type, message, traceback, symptom}`."""
    try:
        report = json.loads(payload)
        kind, name, message = str(report["kind"]), plain(report["type"]), plain(report["message"])
        trace = plain(report["traceback"], len(payload)).encode()
        message += _remedy(str(report["symptom"]), limits)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        return protocol_failure(error)
    by_kind = {
        "exception": lambda: StepFailed(name, f"{name}: {message}" if message else name, by_the_agent=True),
        "memory": lambda: memory_limit(limits),
        "workspace": lambda: workspace_limit(limits),
        "not_json": lambda: StepFailed("InvalidResult", message),
        "no_run": lambda: StepFailed("InvalidAgent", message),
        "outputs": lambda: StepFailed("InvalidOutputs", message),
    }
    if kind not in by_kind:
        return protocol_failure(f"unknown kind of failure {kind!r}")
    failure = by_kind[kind]()
    failure.log = trace
    return failure


def _remedy(symptom: str, limits: Limits) -> str:
    if symptom == "network" and limits.network == "full":
        return ""
    return f" ({_REMEDIES[symptom]})" if symptom in _REMEDIES else ""


def process_limit() -> StepFailed:
    """Returns the failure of a step that started too many processes and threads."""
    return StepFailed("ProcessLimit", f"the step has more than {PROCESSES} processes and threads at once")


def died(status: int | None, limits: Limits, exceeded: Excess | None = None) -> StepFailed:
    """Returns the failure of a step whose process ended before its result.

    `status` is its exit status, negative for a signal, None if it still runs.
    """
    match exceeded:
        case "memory":
            return memory_limit(limits)
        case "workspace":
            return workspace_limit(limits)
        case "processes":
            return process_limit()
    if status == -signal.SIGKILL:
        return StepFailed(
            "ProcessDied",
            f"the step's process was killed, most likely for want of memory (memory_mb is {limits.memory_mb})",
        )
    if status == -signal.SIGXCPU:
        return time_limit(limits)
    if status is not None and status < 0:
        return StepFailed(
            "ProcessDied", f"the step's process died of {_signal_name(-status)} before run(context) returned"
        )
    how = "closed its connection" if status is None else f"ended with exit status {status}"
    return StepFailed("ProcessDied", f"the step's process {how} before run(context) returned")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
