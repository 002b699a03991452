"""Runs agents that call models against a provider of the tests' own."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from backend.common.secrets import Secrets
from backend.resources.models import Models
from backend.runtime.agents import AgentDeps, Limits, StepFailed, StepRequest, StepResult, run_llm_step
from backend.runtime.agents.base import AttachmentServices
from tests.support.answers import mismatch_of_answer, value_in_process
from tests.support.openai_server import OpenAIServer, Reply

KEY = "sk-planted-4f1d7c"


@dataclass
class ProviderFixture:
    """A provider, and the events of agents that call it."""

    server: OpenAIServer
    root: Path
    model: str = "openai:gpt-5"
    stream: bool = False
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    took: float = 0
    attachments: AttachmentServices | None = None

    @property
    def models(self) -> Models:
        return Models(Secrets({"key": "env:KEY"}, {"KEY": KEY}), {})

    @property
    def deps(self) -> AgentDeps | None:
        if self.attachments is None:
            return None
        # No tool of these agents runs in a sandbox.
        sandbox: Any = None
        return AgentDeps(sandbox, self.models, mismatch_of_answer, value_in_process, None, self.attachments)

    def request(self, agent: dict[str, Any], **fields: Any) -> StepRequest:
        declared = {
            "type": "llm",
            "model": self.model,
            "instructions": "Be brief.",
            "api_key": "key",
            "base_url": self.server.base_url,
            "stream": self.stream,
        }
        given: dict[str, Any] = {
            "step": "write",
            "agent": declared | agent,
            "parameters": {},
            "input_text": None,
            "needs": {},
            "inputs": None,
            "files": {},
            "outputs": self.root / "outputs",
            "connectors": {},
            "limits": Limits(memory_mb=1769, timeout_seconds=120, workspace_mb=512),
        }
        return StepRequest(**given | fields)

    def ask(self, *replies: Reply, agent: dict[str, Any] | None = None, **fields: Any) -> StepResult:
        """The result of a step whose requests are answered so."""
        self.server.will(*replies)
        request = self.request(agent or {}, **fields)
        claimed = time.monotonic()
        try:
            return asyncio.run(run_llm_step(self.models, mismatch_of_answer, request, self.on_progress(), self.deps))
        finally:
            self.took = time.monotonic() - claimed

    def failure(self, *replies: Reply, agent: dict[str, Any] | None = None, **fields: Any) -> StepFailed:
        with pytest.raises(StepFailed) as raised:
            self.ask(*replies, agent=agent, **fields)
        failed = raised.value
        assert not (self.root / "outputs").exists()
        assert KEY not in f"{failed.type} {failed.message} {failed.log!r} {self.events}"
        return failed

    def on_progress(self) -> Callable[[str, dict[str, Any]], None]:
        return lambda message, data: self.events.append((message, data))

    def sent(self, number: int = -1) -> Any:
        """The body of a request that the provider got."""
        return self.server.requests[number].body

    def prompt(self) -> str:
        """The first user prompt that the provider received."""
        body = self.sent(0)
        users = [one for one in body.get("input") or body["messages"] if one["role"] == "user"]
        content = users[0]["content"]
        return str(content if isinstance(content, str) else content[0]["text"])

    def tool_result(self) -> str:
        """The last result of a tool that the model received."""
        body = self.sent()
        if "messages" in body:
            return str([one["content"] for one in body["messages"] if one["role"] == "tool"][-1])
        return str([one["output"] for one in body["input"] if one.get("type") == "function_call_output"][-1])
