"""The argument of the function `run` of a Python agent."""

from __future__ import annotations

import os
import types

from backend.isolation.sandbox.inside.channel import MAX_MESSAGE_CHARACTERS
from backend.isolation.sandbox.inside.plain_json import deeper_than, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from backend.isolation.sandbox.inside.channel import EventReporter


class Connector(types.SimpleNamespace):
    """A connector of this step as the workflow declares it."""

    name: str
    type: str
    bucket: str
    prefixes: list[str]


class Context:
    """The argument of an agent's `run(context)` (contract 25)."""

    def __init__(self, events: EventReporter, request: dict[str, Any]) -> None:
        self.attempt: int = request["attempt"]
        self.run_id: str = request["run_id"]
        self.step: str = request["step"]
        self.client_reference: str | None = request["client_reference"]
        self.failure: dict[str, str | None] | None = request["failure"]
        self.parameters: dict[str, Any] = request["parameters"]
        self.input_text: str | None = request["input_text"]
        self.traceparent: str | None = request["trace"].get("traceparent")
        self._needs: dict[str, Any] = request["needs"]
        self._large_needs: dict[str, str] = request["large_needs"]
        self.item_index: int | None = request["item_index"]
        self.input: dict[str, Any] | None = request["input"]
        self._item: Any = request["item"]
        self._large_item: str | None = request["large_item"]
        self._call: str | None = request["call"]
        self._folders: dict[str, str] = request["folders"]
        for need in (*self._needs, *self._large_needs):
            # The sandbox has no folder for a step without files.
            os.makedirs(f"{self._folders['files']}/{need}", exist_ok=True)  # noqa: PTH103 - pathlib takes long to import
        self._connectors: dict[str, dict[str, Any]] = request["connectors"]
        self._secrets: dict[str, str] = request["secrets"]
        self._events = events
        self._json_levels: int = request["data_limits"]["json_levels"]
        self._process = os.getpid()

    @property
    def needs(self) -> dict[str, Any]:
        """Returns values of the steps that this one needs, by step."""
        if self._large_needs:
            import json

            self._needs |= {name: json.loads(text) for name, text in self._large_needs.items()}
            self._large_needs = {}
        return self._needs

    @property
    def item(self) -> Any:
        """Returns the item of a fan-out; None where there is none."""
        if self._large_item is not None:
            import json

            self._item, self._large_item = json.loads(self._large_item), None
        return self._item

    @property
    def idempotency_key(self) -> str:
        """A key for calls to other services, equal in all attempts of this step, or of this item, of this run.

        Two calls of a tool with equal arguments get the same key.
        """
        parts = (self.run_id, self.step, self.item_index, self._call)
        return "/".join(str(part) for part in parts if part is not None)

    @property
    def inputs(self) -> Path:
        """The folder with a folder for each `s3_prefix` parameter, and `uploads` for files of a person."""
        return _path(self._folders["inputs"])

    @property
    def files(self) -> Path:
        """The folder with a folder for each needed step, which holds its outputs and its shared files."""
        return _path(self._folders["files"])

    @property
    def workspace(self) -> Path:
        """The working folder of the step."""
        return _path(self._folders["workspace"])

    @property
    def outputs(self) -> Path:
        """The folder whose files become outputs."""
        return _path(self._folders["outputs"])

    @property
    def shared(self) -> Path:
        """The folder whose files only later steps see."""
        return _path(self._folders["shared"])

    def progress(self, message: Any, **data: Any) -> None:
        """Reports progress as an event of the run; events beyond the deployment's limits are dropped and counted.

        Raises:
            ValueError: the message is no string or too long, or the data is not JSON or nested too deep.
        """
        if os.getpid() != self._process:
            raise RuntimeError("only the step's first process can report progress")
        if not isinstance(message, str) or len(message) > MAX_MESSAGE_CHARACTERS:
            raise ValueError(f"a progress message is a string of at most {MAX_MESSAGE_CHARACTERS} characters")
        too_deep = f"a progress event is nested more than {self._json_levels} levels deep"
        try:
            payload = encode({"message": message, "data": data})
        except RecursionError:
            raise ValueError(too_deep) from None
        except (ValueError, TypeError) as error:
            raise ValueError(f"progress data must be JSON: {error}") from error
        # The event has the data one level up, beside the message.
        if deeper_than(payload, self._json_levels + 1):
            raise ValueError(too_deep)
        self._events.send(payload)

    def connector(self, name: str) -> Connector:
        """Returns a connector that the step declares."""
        if name not in self._connectors:
            declared = ", ".join(sorted(self._connectors)) or "none"
            raise LookupError(f"the step declares no connector {name!r} (declared: {declared})")
        found = self._connectors[name]
        prefixes = list(found.get("prefixes") or [])
        return Connector(name=name, type=found.get("type"), bucket=found.get("bucket"), prefixes=prefixes)

    def secret(self, name: str) -> str:
        """Returns the value of a secret that the agent declares, as it was when this attempt began."""
        if name not in self._secrets:
            declared = ", ".join(sorted(self._secrets)) or "none"
            raise LookupError(f"the agent declares no secret {name!r} (declared: {declared})")
        return self._secrets[name]


def _path(folder: str) -> Path:
    from pathlib import Path

    return Path(folder)
