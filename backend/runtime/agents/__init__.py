"""Runs the agent of one step and answers with its result (DECISIONS.md §9)."""

from backend.runtime.agents.base import AgentRunner, OnProgress, StepFailed, StepRequest, StepResult
from backend.runtime.agents.python_agent import run_python_step
from backend.runtime.agents.registry import run_step
from backend.runtime.sandbox import Limits

__all__ = [
    "AgentRunner",
    "Limits",
    "OnProgress",
    "StepFailed",
    "StepRequest",
    "StepResult",
    "run_python_step",
    "run_step",
]
