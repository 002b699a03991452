"""Test doubles of the gRPC services for tests of callers: the whole backend in memory, or scripted servicers.

`FakeBackend` needs the generated code and gRPC alone. `test_backend` needs the service, with its extra `testing`.
"""

from typing import TYPE_CHECKING, Any

from workflow_api_testing.calls import Refusal, RefusedError, method_named, refusal_of, response_of, responses_of
from workflow_api_testing.fake import FakeBackend, RecordedCall

if TYPE_CHECKING:
    from workflow_api_testing.backend import Key, ScriptError, SteppedClock, TestBackend, test_backend

__all__ = [
    "FakeBackend",
    "Key",
    "RecordedCall",
    "Refusal",
    "RefusedError",
    "ScriptError",
    "SteppedClock",
    "TestBackend",
    "method_named",
    "refusal_of",
    "response_of",
    "responses_of",
    "test_backend",
]


def __getattr__(name: str) -> Any:
    """Imports the backend at first use, because callers' environments may have only the generated code."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from workflow_api_testing import backend
    except ImportError as error:
        raise ImportError(f"{name} needs the service in this environment: workflow-api[testing]") from error
    return getattr(backend, name)
