"""Calls of the API's routes: requests, refusals and retries."""

import copy
import json
import logging
import random
import re
import uuid
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import quote, urlencode

from workflow_api_client.clock import Clock
from workflow_api_client.exchange import Answer, Open, Pause, Request, Send, Steps, TransportError
from workflow_api_client.failures import (
    ApiError,
    ConnectionFailedError,
    TimedOutError,
    UnexpectedAnswerError,
    WorkflowApiError,
)
from workflow_api_client.generated.errors import BY_CODE
from workflow_api_client.route import Route
from workflow_api_client.settings import Settings, changed
from workflow_api_client.version import __version__

USER_AGENT: Final = f"workflow-api-client/{__version__}"
MAX_BACK_OFF_SECONDS: Final = 8.0
MAX_RETRY_AFTER_DIGITS: Final = 9

RECEIVED: Final[ContextVar[Callable[[Answer], object]]] = ContextVar("RECEIVED", default=lambda _: None)
"""Called with each answer that does not refuse; see `raw_response.py`."""

_LOG: Final = logging.getLogger("workflow_api_client")
_SECONDS: Final = re.compile(rf"[0-9]{{1,{MAX_RETRY_AFTER_DIGITS}}}")
# Codes of refusals before any effect, after which every call may be sent again.
_NOT_BEGUN: Final = frozenset({"rate_limited", "quota_exceeded", "too_many_active_runs", "deployment_updating"})
# Codes of temporary refusals, if the service gives `Retry-After`.
_TEMPORARY: Final = frozenset({"idempotency_conflict", "redaction_pending"})
_NOT_MODIFIED: Final = 304
_REDIRECT: Final = 300
_TOO_MANY: Final = 429
_GATEWAY: Final = frozenset({502, 503, 504})


class Core:
    """Caller of the API with one key.

    Attributes:
        clock: The clock.
        streams: Whether the service streams events, as far as known.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self.clock = clock
        self.streams = True
        self._deadline: float | None = None

    def within(self, seconds: float | None) -> "Core":
        """Returns a core whose calls, retries and downloads end within `seconds` in all; None for no bound.

        Raises:
            ValueError: `seconds` is no valid number.
        """
        if seconds is None:
            return self
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"`timeout` must be a number of seconds, which {seconds!r} is not.")
        bounded = copy.copy(self)
        bounded._deadline = self.clock.now() + seconds  # noqa: SLF001 # its own class
        return bounded

    def with_options(
        self, *, timeout: float | None, retry_seconds: float | None, headers: Mapping[str, str] | None
    ) -> "Core":
        """Returns a core with the options that are given.

        Raises:
            ConfigurationError: a value is not valid.
        """
        made = copy.copy(self)
        made._settings = changed(self._settings, timeout, retry_seconds, headers)  # noqa: SLF001 # its own class
        return made

    def check_time(self) -> None:
        """Raises TimedOutError once the time given to `within` has passed."""
        if self._deadline is not None and self.clock.now() >= self._deadline:
            raise TimedOutError("The time given has passed.")

    @property
    def retry_seconds(self) -> float:
        """Seconds for which temporary refusals are retried."""
        return self._settings.retry_seconds

    def call(
        self,
        route: Route,
        path: Mapping[str, str] | None = None,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        deadline: float | None = None,
        held: float = 0.0,
        idle: float | None = None,
    ) -> Steps[Answer]:
        """Returns the answer of a call; retries while a retry is safe and may help.

        `deadline` is a time of the clock, `held` the seconds for which the service may hold the answer. With `idle` the
        body is left to be read, with at most `idle` seconds between two reads.

        Raises:
            ApiError: the service refused the call.
            ConnectionFailedError: no answer came.
            TimedOutError: the deadline passed.
            UnexpectedAnswerError: the answer is not the API's.
        """
        settings, clock = self._settings, self.clock
        longest = settings.timeout + held
        if self._deadline is not None:
            # A deadline for the call replaces the client's `timeout`, also with a longer time.
            longest = float("inf")
            deadline = self._deadline if deadline is None else min(deadline, self._deadline)
        last_try: float | None = None
        tries = 0
        while True:
            begun, request_id = clock.now(), uuid.uuid4().hex
            within = longest
            if deadline is not None:
                if begun >= deadline:
                    raise TimedOutError("The time given has passed.")
                within = min(within, deadline - begun)
            request = self._request(
                route, path or {}, query or {}, body, {**(headers or {}), "X-Request-Id": request_id}
            )
            request = Request(**{**request.__dict__, "within": within, "idle": idle or within})
            tries += 1
            try:
                answer: Answer = yield Send(request) if idle is None else Open(request)
            except TransportError as error:
                failure: WorkflowApiError = ConnectionFailedError(
                    f"{settings.url}: {error}", sent=error.sent, request_id=request_id
                )
                pause = _back_off(tries) if route.repeatable or not error.sent else None
                _LOG.debug("%s %s: %s, request %s", route.method, route.path, error, request_id)
            else:
                spent = (clock.now() - begun) * 1000
                _LOG.debug(
                    "%s %s: %d in %.0f ms, request %s", route.method, route.path, answer.status, spent, request_id
                )
                # Redirects are not followed, so that credentials go to no other server.
                if answer.status < _REDIRECT or answer.status == _NOT_MODIFIED:
                    RECEIVED.get()(answer)
                    return answer
                failure = refusal(answer, request_id)
                pause = _pause_after(failure, answer, route, tries)
            if pause is None:
                raise failure
            now = clock.now()
            last_try = now + settings.retry_seconds if last_try is None else last_try
            if deadline is not None and now + pause >= deadline and deadline <= last_try:
                yield Pause(max(0.0, deadline - now))
                raise TimedOutError("The time given has passed.") from failure
            if now + pause > last_try:
                raise failure
            _LOG.info("%s %s: retrying in %.1f s after %s", route.method, route.path, pause, _short(failure))
            yield Pause(pause)

    def _request(
        self,
        route: Route,
        path: Mapping[str, str],
        query: Mapping[str, object],
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
    ) -> Request:
        filled = route.path.format(**{name: quote(value, safe="") for name, value in path.items()})
        asked = urlencode({name: value for name, value in query.items() if value is not None})
        content = json.dumps(dict(body or {})).encode() if route.takes_body else None
        own = {
            "Authorization": f"Bearer {self._settings.key}",
            "X-Service-Key-External-Id": self._settings.external_id,
            # No compression, because ranges and digests are of the stored bytes.
            "Accept-Encoding": "identity",
            **({"Content-Type": "application/json"} if content is not None else {}),
        }
        url = f"{self._settings.url}{filled}{'?' if asked else ''}{asked}"
        return Request(
            route.method, url, {"User-Agent": USER_AGENT, **self._settings.headers, **own, **headers}, content
        )


def refusal(answer: Answer, sent_id: str) -> WorkflowApiError:
    """Returns the exception for an answer that refuses a call."""
    request_id = answer.headers.get("x-request-id", sent_id)
    try:
        error = answer.json()["error"]
        code, message = str(error["code"]), str(error["message"])
        details = error.get("details")
    except (ValueError, LookupError, TypeError, AttributeError):
        return UnexpectedAnswerError(
            f"Status {answer.status} without the API's envelope: is this the service's address? (request {request_id})"
        )
    return BY_CODE.get(code, ApiError)(
        message,
        code=code,
        status=answer.status,
        request_id=str(error.get("request_id") or request_id),
        details=details,
        retry_after=retry_after(answer),
    )


def retry_after(answer: Answer) -> float | None:
    """Returns the seconds of `Retry-After`; None without the header or for a date."""
    value = answer.headers.get("retry-after", "").strip()
    return float(value) if _SECONDS.fullmatch(value) else None


def _pause_after(failure: WorkflowApiError, answer: Answer, route: Route, tries: int) -> float | None:
    """Returns the seconds after which a refused call is sent again; None if it must not be."""
    given = retry_after(answer)
    code = failure.code if isinstance(failure, ApiError) else ""
    if code in _NOT_BEGUN or answer.status == _TOO_MANY:
        return _back_off(tries) if given is None else given
    if code in _TEMPORARY:
        return given
    if answer.status in _GATEWAY and route.repeatable:
        return _back_off(tries) if given is None else given
    return None


def _back_off(tries: int) -> float:
    longest = min(MAX_BACK_OFF_SECONDS, 0.5 * 2.0 ** min(tries - 1, 10))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 # spreads callers, no secret


def _short(failure: WorkflowApiError) -> str:
    return failure.code if isinstance(failure, ApiError) else type(failure).__name__
