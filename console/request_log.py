"""The log line of each request to the console."""

from time import perf_counter

from aiohttp import web

from console.log_events import CONSOLE_REQUEST
from console.metrics import route_of
from contract.addresses import plain_address
from telemetry.log_events import DEBUG
from telemetry.request_labels import method_of
from telemetry.request_lines import CheckSampler, request_message


class ConsoleRequestLog:
    """Writes the lines of one console, those of `health` checks sampled."""

    def __init__(self, health: str) -> None:
        self._health = health
        self._checks = CheckSampler()

    def add(
        self, request: web.Request, request_id: str, began: float, response: web.StreamResponse | None, reason: str
    ) -> None:
        """Writes the line of a request that began at `began` by `perf_counter`; without a response it had none."""
        if not CONSOLE_REQUEST.enabled():
            return
        status = 0 if response is None else response.status
        checks = self._checks.checks(status) if request.path == self._health else None
        if checks == 0:
            return
        method, route = method_of(request.method), route_of(request)
        fields = {
            "method": method,
            "route": route,
            "status": status,
            "reason": reason,
            "request_id": request_id,
            "ms": round((perf_counter() - began) * 1000, 3),
            "bytes_in": request.content_length or 0,
            "bytes_out": _length(response),
            "checks": checks,
            "address": plain_address(request.remote or "") if CONSOLE_REQUEST.enabled(DEBUG) else "",
        }
        CONSOLE_REQUEST.write(request_message(method, route, status, reason), fields)


def _length(response: web.StreamResponse | None) -> int:
    """Returns the bytes of a response's body, as far as they are known."""
    if isinstance(response, web.Response) and isinstance(response.body, bytes | bytearray):
        return len(response.body)
    return 0 if response is None else response.body_length
