"""Client of the Programmatic Workflow API: starts runs, follows them, and fetches their results and outputs.

`Client` is for threads and `AsyncClient` for asyncio; both have the same methods. `records` has the dataclasses that
they return, `errors` the exceptions that they raise, and `testing` a fake service for tests.
"""

from workflow_api_client import errors
from workflow_api_client.async_client import AsyncClient
from workflow_api_client.async_run import AsyncOutputs, AsyncRun
from workflow_api_client.client import Client
from workflow_api_client.failures import (
    ApiError,
    ConfigurationError,
    ConnectionFailedError,
    CorruptDownloadError,
    RunFailedError,
    RunNotFinishedError,
    TimedOutError,
    UnexpectedAnswerError,
    WebhookVerificationError,
    WorkflowApiError,
)
from workflow_api_client.generated import records
from workflow_api_client.listings import AsyncListing, AsyncPage, Listing, Page
from workflow_api_client.operations.outputs import Progress
from workflow_api_client.raw_response import RawResponse
from workflow_api_client.run import Outputs, Run
from workflow_api_client.version import __version__
from workflow_api_client.webhooks import WebhookMessage, WebhookRun, WebhookSchedule, verify_webhook

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncListing",
    "AsyncOutputs",
    "AsyncPage",
    "AsyncRun",
    "Client",
    "ConfigurationError",
    "ConnectionFailedError",
    "CorruptDownloadError",
    "Listing",
    "Outputs",
    "Page",
    "Progress",
    "RawResponse",
    "Run",
    "RunFailedError",
    "RunNotFinishedError",
    "TimedOutError",
    "UnexpectedAnswerError",
    "WebhookMessage",
    "WebhookRun",
    "WebhookSchedule",
    "WebhookVerificationError",
    "WorkflowApiError",
    "__version__",
    "errors",
    "records",
    "verify_webhook",
]
