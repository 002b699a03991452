from collections.abc import Mapping

from backend.runtime.agents.base import AgentRunner, OnProgress, StepFailed, StepRequest, StepResult
from backend.runtime.agents.python_agent import run_python_step
from backend.runtime.sandbox import Sandbox

RUNNERS: Mapping[str, AgentRunner] = {"python": run_python_step}
"""Every agent type of this release with what runs it."""


async def run_step(agent_type: str, sandbox: Sandbox, request: StepRequest, on_progress: OnProgress) -> StepResult:
    """Run a step by the runner of its agent's type; raises StepFailed, also for a type that has none."""
    runner = RUNNERS.get(agent_type)
    if runner is None:
        raise StepFailed("AgentUnavailable", f"agents of type {agent_type} are not available in this release")
    return await runner(sandbox, request, on_progress)
