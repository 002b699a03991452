"""Base exceptions of the client; the exceptions of error codes are in `generated/errors.py`."""

from typing import Any


class WorkflowApiError(Exception):
    """Base of all exceptions of the client."""


class ConfigurationError(WorkflowApiError, ValueError):
    """An address or a credential is missing or malformed. Never shows a credential."""


class ApiError(WorkflowApiError):
    """The service refused a call.

    Attributes:
        code: Stable error code, as `run_not_found`.
        message: Text for people.
        status: HTTP status.
        request_id: Id to quote in a report; None where the client itself raised the error.
        details: A list of problems or an object, depending on the code; None without details.
        retry_after: Seconds to wait before the next try, if the service gave them.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int,
        request_id: str | None,
        details: Any = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.request_id = request_id
        self.details = details
        self.retry_after = retry_after

    def __str__(self) -> str:
        """Returns code, message and details on one line."""
        text = f"{self.code}: {self.message}"
        if isinstance(self.details, list):
            text += "".join(f" {each.get('name')}: {each.get('reason')}." for each in self.details)
        elif self.details is not None:
            text += f" {self.details}"
        return text if self.request_id is None else f"{text} (status {self.status}, request {self.request_id})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Supports pickling, as process pools need it."""
        return (_rebuilt, (type(self), self.__dict__.copy()))


class UnexpectedAnswerError(WorkflowApiError):
    """The answer is not the API's, but from a proxy, a sign-in page or an incompatible release."""


class ConnectionFailedError(WorkflowApiError):
    """No answer came: the service cannot be reached, or the connection broke.

    `sent` is True if the service may have received the call.
    """

    def __init__(self, message: str, *, sent: bool, request_id: str | None = None) -> None:
        super().__init__(message)
        self.sent = sent
        self.request_id = request_id


class TimedOutError(WorkflowApiError, TimeoutError):
    """The given time has passed. The run itself goes on; `run_id` names it, if one was started or waited for."""

    def __init__(self, message: str, *, run_id: str | None = None) -> None:
        super().__init__(message)
        self.run_id = run_id


class CorruptDownloadError(WorkflowApiError):
    """The downloaded bytes differ from the digest or size that the service listed."""


class WebhookVerificationError(WorkflowApiError):
    """A message to a webhook is not the service's, or was recorded and sent again later."""


class RunNotFinishedError(WorkflowApiError):
    """The run has not ended as far as this process knows: `wait()` for it, or `refresh()`."""


class RunFailedError(WorkflowApiError):
    """The run has no result, because it failed or was cancelled.

    `code` is the run's failure code, as `node_failed`; `cancelled` for a cancelled run.
    """

    def __init__(self, code: str, message: str | None) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        """Supports pickling, as process pools need it."""
        return (type(self), (self.code, self.message))


def _rebuilt(kind: type[ApiError], values: dict[str, Any]) -> ApiError:
    return kind(**values)
