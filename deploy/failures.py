"""The exception of the command line, and the failures of a backend that cannot be called."""

import json
from collections.abc import Mapping
from typing import Any


class CommandError(Exception):
    """Ends a command with exit code 1.

    `code`, `message` and `details` are those of the contract's error envelope. `details` is a list of `{name, reason}`
    problems, an object, or None. `request_id` is the id of the call that the backend refused. `options` maps fields of
    problems to the options that a person gave.
    """

    options: Mapping[str, str] = {}

    def __init__(
        self, message: str, *, code: str = "command_failed", details: Any = None, request_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.request_id = request_id

    def to_text(self) -> str:
        """Returns one line for each problem, or the message if there is no list of problems."""
        match self.details:
            case [_, *_] as problems:
                return "\n".join(f"{self._option(problem['name'])}: {problem['reason']}" for problem in problems)
            case {"reasons": [_, *_] as reasons}:
                return "\n".join([self.message, *reasons])
            case _:
                # The message of an internal error asks to quote the id.
                return f"{self.message} (request {self.request_id})" if self.code == "internal" else self.message

    def _option(self, name: str) -> str:
        """Returns the option that sets a field; a member has the option of its field."""
        if self.code == "invalid_parameters" and not name.startswith("-"):
            return f"--param {name}"
        whole = name.partition(".")[0].partition("[")[0]
        return self.options.get(whole, name)

    def to_json(self) -> str:
        """Returns the JSON object `{"error": {code, message, request_id?, details?}}`."""
        error: dict[str, object] = {"code": self.code, "message": self.message}
        if self.request_id is not None:
            error["request_id"] = self.request_id
        if self.details is not None:
            error["details"] = self.details
        return json.dumps({"error": error})


def unreachable(address: str, details: str = "") -> CommandError:
    """Returns the failure of a call that nothing answers; `details` are gRPC's, or empty."""
    message = f"No backend answers at {address}: is `workflow-api serve` running, and is that its gRPC address?"
    return CommandError(message + (f" gRPC says: {details}" if details else ""), code="runtime_unreachable")


def timed_out(address: str) -> CommandError:
    """Returns the failure of a call that was not answered in time."""
    return CommandError(f"The backend at {address} did not answer in time.", code="runtime_unreachable")
