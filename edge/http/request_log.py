"""Writes the log line of each request that was answered, or whose caller disconnected."""

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter, time
from typing import Final

from contract.addresses import plain_address
from contract.routes import HEALTH
from edge.http.request import HttpRequest, Outcome
from telemetry.log_events import DEBUG
from telemetry.log_output import LogOutput, output
from telemetry.requests import OTHER, REQUEST, CheckSampler, method_of, request_message

_Kind = tuple[str, str, int, str]


RefusedKey = Callable[[HttpRequest], tuple[str, str]]
"""Returns the id of the key that refused credentials name, and why they were refused; empty for no known key."""

_UNAUTHORIZED: Final = 401
_UNKNOWN: Final[Outcome] = ("", "", "", "", 0.0, "")


class RequestLog:
    """Writes the request lines of one server.

    Lines of JSON begin with a cached part for each method, route, status and reason, which are few: at tens of
    thousands of requests a second each microsecond counts.
    """

    def __init__(self, refused_key: RefusedKey | None = None) -> None:
        self._refused_key = refused_key
        self._starts: dict[_Kind, str] = {}
        self._checks = CheckSampler()
        self._version = -1
        self._enabled = self._plain = False

    def add(self, request: HttpRequest, status: int, sent: int, cut: str) -> None:
        """Writes the line of a request; `cut` says why its answer was not sent whole."""
        out = output()
        if out is None:
            return
        if out.version != self._version:
            self._configure(out)
        if not self._enabled:
            return
        outcome = request.outcome or _UNKNOWN
        route, key_id, reason, run_id, waited, _ = outcome
        kind = (request.method, route, status, cut or reason)
        milliseconds = (perf_counter() - request.began) * 1000
        if status == _UNAUTHORIZED and self._refused_key is not None:
            # Looked up after the answer is sent: the time of an answer must not depend on the credentials.
            write = partial(self._write_refused, self._refused_key, out, request, outcome, kind, (milliseconds, sent))
            asyncio.get_running_loop().call_soon(write)
            return
        start = self._starts.get(kind)
        if start is None or waited:
            self._write_any(out, request, outcome, kind, (milliseconds, sent))
            return
        key = f'","key_id":"{key_id}' if key_id else ""
        run = f'","run_id":"{run_id}' if run_id else ""
        line = (
            f'{{"timestamp":"{out.timestamp(time())}{start}{request.request_id}{key}{run}","ms":{milliseconds:.3f}'
            f',"bytes_in":{request.content.total_bytes},"bytes_out":{sent}}}\n'
        )
        out.write_soon(line.encode())

    def _configure(self, out: LogOutput) -> None:
        self._version = out.version
        self._enabled = REQUEST.enabled()
        self._plain = out.as_json and out.trace_id is None and not REQUEST.enabled(DEBUG)
        self._starts = {}

    def _write_refused(
        self,
        refused_key: RefusedKey,
        out: LogOutput,
        request: HttpRequest,
        outcome: Outcome,
        kind: _Kind,
        sizes: tuple[float, int],
    ) -> None:
        key_id, cause = refused_key(request)
        self._write_any(out, request, (outcome[0], key_id, *outcome[2:]), kind, sizes, cause)

    def _write_any(
        self,
        out: LogOutput,
        request: HttpRequest,
        outcome: Outcome,
        kind: _Kind,
        sizes: tuple[float, int],
        cause: str = "",
    ) -> None:
        """Writes a line of any kind, and caches the beginning that lines of this kind share."""
        method, route, status, reason = kind = (method_of(kind[0]), kind[1] or OTHER, *kind[2:])
        milliseconds, sent = sizes
        # Lines of this kind are sampled.
        checks = self._checks.checks(status) if route == HEALTH else None
        if checks == 0:
            return
        if self._plain and checks is None and method == request.method:
            self._starts[(method, outcome[0], status, reason)] = _start(out, kind)
        *_, key_id, _, run_id, waited, address = outcome
        fields = {
            "method": method,
            "route": route,
            "status": status,
            "reason": reason,
            "request_id": request.request_id,
            "key_id": key_id,
            "cause": cause,
            "run_id": run_id,
            "ms": round(milliseconds, 3),
            "waited_ms": round(waited * 1000, 3) or None,
            "bytes_in": request.content.total_bytes,
            "bytes_out": sent,
            "checks": checks,
            "address": plain_address(address) if REQUEST.enabled(DEBUG) else "",
        }
        out.write_soon(out.line("info", REQUEST.logger, REQUEST.event, request_message(*kind), fields))


def _start(out: LogOutput, kind: _Kind) -> str:
    """Returns the part of a kind's lines between time and request id; no character of the part needs an escape."""
    method, route, status, reason = kind
    said = f'"reason":"{reason}",' if reason else ""
    return (
        f'{out.head("info", REQUEST.logger, REQUEST.event)}{request_message(*kind)}","method":"{method}",'
        f'"route":"{route}","status":{status},{said}"request_id":"'
    )
