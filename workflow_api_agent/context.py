"""Types of the argument of an agent's function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path


class Connector(Protocol):
    """A connector that the step declares."""

    name: str
    type: str
    bucket: str
    prefixes: list[str]


class Context(Protocol):
    """Argument of an agent's function: the step's inputs, folders for files, and reporting of progress."""

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""

    @property
    def run_id(self) -> str:
        """The id of the run."""

    @property
    def step(self) -> str:
        """The handle of the step."""

    @property
    def client_reference(self) -> str | None:
        """The caller's own reference of the run, or None."""

    @property
    def failure(self) -> dict[str, str | None] | None:
        """Step, code and message of the failure of the run, in a step of `on_failure` or `always`; else None."""

    @property
    def idempotency_key(self) -> str:
        """A key for calls to other services, equal in all attempts of this step, or of this item, of this run."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The run's parameters with their defaults."""

    @property
    def input_text(self) -> str | None:
        """The run's input text, or None."""

    @property
    def traceparent(self) -> str | None:
        """The span of this attempt as W3C Trace Context, where the deployment records it; also in `TRACEPARENT`."""

    @property
    def needs(self) -> dict[str, Any]:
        """The return values of the steps that this step needs, by step."""

    @property
    def item(self) -> Any:
        """The item of the step's `for_each` that this call is for; None where there is none."""

    @property
    def item_index(self) -> int | None:
        """The place of the item in its list, from 0; None where there is none."""

    @property
    def input(self) -> dict[str, Any] | None:
        """The arguments of this call where a model calls the agent as a tool, else None."""

    @property
    def inputs(self) -> Path:
        """A folder with one sub-folder for each `s3_prefix` parameter; read-only."""

    @property
    def files(self) -> Path:
        """A folder with one sub-folder for each needed step, with its outputs and its shared files; read-only."""

    @property
    def workspace(self) -> Path:
        """A working folder; deleted after the attempt."""

    @property
    def outputs(self) -> Path:
        """A folder whose plain files become outputs."""

    @property
    def shared(self) -> Path:
        """A folder whose plain files only later steps see, in addition to the outputs."""

    def progress(self, message: str, **data: Any) -> None:
        """Writes a `step.progress` event.

        Raises:
            ValueError: the message is too long, or the data is not JSON or nested too deep.
        """

    def connector(self, name: str) -> Connector:
        """Returns a connector that the step declares.

        Raises:
            LookupError: the step declares no connector of this name.
        """

    def secret(self, name: str) -> str:
        """Returns the value of a secret that the agent declares, as it was when this attempt began.

        Raises:
            LookupError: the agent declares no secret of this name.
        """
