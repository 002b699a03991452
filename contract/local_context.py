"""gRPC context and cached answer of a call within one process."""

import threading
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, NoReturn, Protocol

import grpc
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status

from contract.refusals import Refusal

Encoded = tuple[int, bytes, Iterable[tuple[str, str]]]
"""An answer as HTTP sends it: status, body, and header lines of its own."""


class CachedAnswer:
    """An immutable message, with its encoded form once the edge has made it."""

    __slots__ = ("encoded", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self.encoded: Encoded | None = None


class RefusedCall(Protocol):
    """An error that a servicer refused a call with."""

    def to_refusal(self) -> Refusal:
        """Returns the error for callers in this process."""
        ...

    def to_status(self) -> Status:
        """Returns the error as a gRPC status."""
        ...


class LocalContext(grpc.ServicerContext):
    """Context that keeps a servicer's status and trailers, and notifies the servicer when the caller stops waiting."""

    error: RefusedCall | None
    """Error of the servicer, which callers in this process get without a gRPC status."""

    def __init__(self, metadata: Iterable[tuple[str, str]], seconds: float = float("inf")) -> None:
        self.cached: CachedAnswer | None = None
        """The answer from the answer cache, if cached."""
        self._metadata = tuple(metadata)
        self._seconds = seconds
        self._began = monotonic()
        self.error = None
        self._code: Any = None
        self._details = ""
        self._trailers: Iterable[tuple[str, str | bytes]] = ()
        self._active = True
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def refusal(self) -> Refusal | None:
        """Returns the servicer's refusal, `runtime_error` for a foreign status; None where the call succeeded."""
        if self.error is not None:
            try:
                return self.error.to_refusal()
            except KeyError:
                return Refusal("runtime_error")
        return None if self._code in {None, grpc.StatusCode.OK} else Refusal("runtime_error")

    def invocation_metadata(self) -> Any:
        """Returns the call's metadata."""
        return self._metadata

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        """Keeps the trailers."""
        self._trailers = trailing_metadata

    def set_code(self, code: Any) -> None:
        """Keeps the status code."""
        self._code = code

    def set_details(self, details: str) -> None:
        """Keeps the status message."""
        self._details = details

    def code(self) -> Any:
        """Returns the status code; None while none is set."""
        return self._code

    def details(self) -> Any:
        """Returns the status message."""
        return self._details

    def trailing_metadata(self) -> Any:
        """Returns the trailers."""
        return self._trailers

    def is_active(self) -> bool:
        """Returns whether the caller still waits for the answer."""
        return self._active

    def time_remaining(self) -> float:
        """Returns the seconds left until the deadline."""
        return max(0.0, self._seconds - (monotonic() - self._began))

    def cancel(self) -> bool:
        """Ends the call and runs the servicer's callbacks, once."""
        with self._lock:
            was_active, self._active = self._active, False
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        return was_active

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Registers a callback for the end of the call; returns False if the call has ended already."""
        with self._lock:
            if self._active:
                self._callbacks.append(callback)
            return self._active

    def abort(self, code: Any, details: str) -> NoReturn:
        """Ends the call with a status."""
        self._code, self._details = code, details
        raise AbortError

    def abort_with_status(self, status: Any) -> NoReturn:
        """Ends the call with a whole status."""
        self._trailers = status.trailing_metadata or ()
        self.abort(status.code, status.details)

    def peer(self) -> str:
        """Returns a name for the caller's transport."""
        return "in-process"

    def peer_identities(self) -> Any:
        """Returns nothing: there is no transport to identify."""
        return None

    def peer_identity_key(self) -> Any:
        """Returns nothing: there is no transport to identify."""
        return None

    def auth_context(self) -> Any:
        """Returns nothing: there is no transport to authenticate."""
        return {}

    def send_initial_metadata(self, initial_metadata: Any) -> None:
        """Ignores the headers: nobody reads them."""

    def set_compression(self, compression: Any) -> None:
        """Ignores the setting: nothing is sent over a wire."""

    def disable_next_message_compression(self) -> None:
        """Ignores the setting: nothing is sent over a wire."""


class AbortError(Exception):
    """Raised to end a servicer's method that aborted; the context holds the status."""
