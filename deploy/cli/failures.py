"""How a command fails: one line a problem for people, the error envelope's fields for machines."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import grpc


class CommandFailed(Exception):  # noqa: N818 - it ends the command as `typer.Exit` does; the command was right
    """Ends a command with exit code 1.

    `code`, `message` and `details` are those of SPEC.md's error envelope. `details` may be a list of
    `{name, reason}` problems, or an object; `None` for nothing. `request_id` is the id of the call that the
    backend refused.
    """

    def __init__(
        self, message: str, *, code: str = "command_failed", details: Any = None, request_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.request_id = request_id

    def for_people(self) -> str:
        """One line a problem; without a list of problems the message alone."""
        match self.details:
            case [_, *_] as problems:
                return "\n".join(f"{problem['name']}: {problem['reason']}" for problem in problems)
            case {"reasons": [_, *_] as reasons}:
                return "\n".join([self.message, *reasons])
            case _:
                # Its message asks to quote the id.
                return f"{self.message} (request {self.request_id})" if self.code == "internal" else self.message

    def for_machines(self) -> str:
        """The JSON object `{"error": {code, message, request_id?, details?}}`."""
        error: dict[str, object] = {"code": self.code, "message": self.message}
        if self.request_id is not None:
            error["request_id"] = self.request_id
        if self.details is not None:
            error["details"] = self.details
        return json.dumps({"error": error})


def failure_of(error: "grpc.RpcError", address: str, request_id: str, *, secure: bool = False) -> CommandFailed:
    """Return what a failed call of the backend at `address` means for the person who made it by this request id.

    Over a secure channel, gRPC's own words tell a certificate that does not fit from a backend that is away.
    """
    import grpc
    from grpc_status import rpc_status

    from edge.errors import refusal_from_status

    try:
        status = rpc_status.from_call(error)
    except ValueError:
        status = None
    if status is None and error.code() is grpc.StatusCode.UNAVAILABLE:
        return CommandFailed(
            f"No backend answers at {address}: is `workflow-api serve` running, and is that its gRPC address?"
            + (f" gRPC says: {error.details()}" if secure else ""),
            code="runtime_unreachable",
        )
    if status is None and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return CommandFailed(f"The backend at {address} did not answer in time.", code="runtime_unreachable")
    if status is None:
        return CommandFailed(
            f"The backend answered {error.code().name}: {error.details()}", code="runtime_error", request_id=request_id
        )
    refusal = refusal_from_status(status)
    return CommandFailed(refusal.message, code=refusal.code, details=refusal.details, request_id=request_id)
