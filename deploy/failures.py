"""The one exception of the command line."""

import json
from typing import Any


class CommandFailed(Exception):  # noqa: N818 - it ends the command as `typer.Exit` does; the command was right
    """Ends a command with exit code 1.

    `code`, `message` and `details` are those of the contract's error envelope. `details` is a list of `{name, reason}`
    problems, an object, or None. `request_id` is the id of the call that the backend refused.
    """

    def __init__(
        self, message: str, *, code: str = "command_failed", details: Any = None, request_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.request_id = request_id

    def to_text(self) -> str:
        """Returns one line for each problem, or the message where there is no list of problems."""
        match self.details:
            case [_, *_] as problems:
                return "\n".join(f"{problem['name']}: {problem['reason']}" for problem in problems)
            case {"reasons": [_, *_] as reasons}:
                return "\n".join([self.message, *reasons])
            case _:
                # Its message asks to quote the id.
                return f"{self.message} (request {self.request_id})" if self.code == "internal" else self.message

    def to_json(self) -> str:
        """Returns the JSON object `{"error": {code, message, request_id?, details?}}`."""
        error: dict[str, object] = {"code": self.code, "message": self.message}
        if self.request_id is not None:
            error["request_id"] = self.request_id
        if self.details is not None:
            error["details"] = self.details
        return json.dumps({"error": error})
