"""Runs the agent of one step and returns its result (contract 25)."""

from backend.runtime.agents.base import AgentDeps, AgentRunner, OnProgress, StepFailed, StepRequest, StepResult
from backend.runtime.agents.llm_agent import run_llm_step
from backend.runtime.agents.python_agent import run_python_step
from backend.runtime.agents.registry import run_step
from backend.sandbox import Limits

__all__ = [
    "AgentDeps",
    "AgentRunner",
    "Limits",
    "OnProgress",
    "StepFailed",
    "StepRequest",
    "StepResult",
    "run_llm_step",
    "run_python_step",
    "run_step",
]
