"""Carries out one agent step: runs its agent in the sandbox and makes what it leaves durable."""

import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend import json_text
from backend.outputs.objects import object_key
from backend.outputs.store import NewOutput
from backend.runs.lifecycle import SegmentEndedError, append_event
from backend.runtime.agents import StepFailed, StepRequest, run_step
from backend.runtime.definition import StepDefinition
from backend.runtime.means import Means
from backend.runtime.promotion import store_outputs
from backend.runtime.resources import Resources

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Completed:
    """The return value as JSON text, and outputs whose bytes are stored."""

    value: str
    outputs: list[NewOutput]


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a step came to nothing; `message` is for the caller."""

    type: str
    message: str


@dataclass(frozen=True, slots=True)
class StepWork:
    """One attempt of one step; `inputs` is None where the workflow declares none."""

    means: Means
    run_id: str
    segment_id: str
    step: StepDefinition
    attempt: int
    resources: Resources
    parameters: Mapping[str, Any]
    input_text: str | None
    needs: Mapping[str, Any]
    inputs: Path | None

    async def carry_out(self) -> Completed | Failed:
        """Runs the step to its end; on return, and when cancelled, none of its processes is left.

        Raises:
            SegmentEndedError: the run was closed meanwhile.
        """
        try:
            return await self._run()
        except StepFailed as failure:
            await self._keep_log(failure.log)
            return Failed(failure.type, failure.message)
        except SegmentEndedError:
            raise
        except Exception:  # noqa: BLE001 - whatever it was, only this step fails
            _LOG.exception("Step %s of run %s could not be carried out", self.step.step, self.run_id)
            return Failed("InternalError", "the runtime could not carry out the step")

    async def _run(self) -> Completed:
        name = self.step.agent
        agent = self.resources.agents.get(name or "")
        if agent is None:
            missing = f"there is no agent named '{name}'" if name else "the step has no agent"
            raise StepFailed("AgentUnavailable", missing)
        folder = self.means.folder_of_run(self.run_id) / f"{self.step.step}-outputs"
        request = StepRequest(
            step=self.step.step,
            code=agent.get("code", ""),
            parameters=self.parameters,
            input_text=self.input_text,
            needs=self.needs,
            inputs=self.inputs,
            outputs=folder,
            connectors=self.resources.connectors_of(self.step),
            limits=self.resources.limits_of(self.step),
        )
        result = await run_step(agent["type"], self.means.sandbox, request, self._on_progress)
        await self._keep_log(result.log)
        outputs: list[NewOutput] = []
        if folder.exists():
            outputs = await self.means.in_thread(lambda: self._store_outputs(folder))
        return Completed(json_text.write(result.value), outputs)

    async def _on_progress(self, message: str, data: dict[str, Any]) -> None:
        at = self.means.clock()
        data = data | {"message": message}
        step = self.step.step
        await self.means.in_thread(
            lambda: self.means.database.write(
                lambda tx: append_event(tx, self.segment_id, "step.progress", at, step=step, data=data)
            )
        )

    def _store_outputs(self, folder: Path) -> list[NewOutput]:
        outputs = store_outputs(self.means.objects, self.run_id, self.step.step, folder)
        shutil.rmtree(folder)
        return outputs

    async def _keep_log(self, log: bytes) -> None:
        """The step's log is an object of the run that no output names, and is erased with it."""
        if not log:
            return
        key = object_key(self.run_id, f"logs/{self.step.step}-{self.attempt}")
        try:
            await self.means.in_thread(lambda: self.means.objects.put_bytes(key, log))
        except OSError:
            _LOG.exception("The log of step %s of run %s could not be kept", self.step.step, self.run_id)
