"""Runs the agent of one step attempt: `StepRequest` in, `StepResult` or `StepFailed` out (contract 25)."""

from collections.abc import Mapping

from backend.isolation.sandbox import Limits
from backend.runtime.agents.base import AgentDeps, AgentRunner, OnProgress, StepFailed, StepRequest, StepResult
from backend.runtime.agents.llm_agent import run_llm_step
from backend.runtime.agents.python_agent import run_python_step

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

RUNNERS: Mapping[str, AgentRunner] = {
    "python": lambda deps, request, on_progress: run_python_step(deps.sandbox, request, on_progress, deps.read_value),
    "llm": lambda deps, request, on_progress: run_llm_step(deps.models, deps.check_answer, request, on_progress, deps),
}
"""The agent types of this release."""


async def run_step(deps: AgentDeps, request: StepRequest, on_progress: OnProgress) -> StepResult:
    """Runs a step by the runner of its agent's type; raises StepFailed, also for a type without a runner."""
    agent_type = request.agent["type"]
    runner = RUNNERS.get(agent_type)
    if runner is None:
        raise StepFailed(
            "AgentUnavailable", f"agents of type {agent_type} are not available in this release", final=True
        )
    return await runner(deps, request, on_progress)
