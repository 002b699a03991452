"""The fake service: scripted workflows, and an httpx transport that answers like the real service."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import httpx

from workflow_api_client.async_client import AsyncClient
from workflow_api_client.client import Client
from workflow_api_client.generated.errors import STATUSES
from workflow_api_client.settings import BASE
from workflow_api_client.testing.answers import Refused
from workflow_api_client.testing.calls import EXTERNAL_ID, KEY, Call
from workflow_api_client.testing.checks import PARAMETER_TYPES
from workflow_api_client.testing.fake_clock import FakeClock
from workflow_api_client.testing.fake_run import FakeRun
from workflow_api_client.testing.script import Moment, complete
from workflow_api_client.testing.state import FakeRequest, State

URL: Final = "http://fake.invalid"


class FakeApi:
    """Fake service with scripted runs.

    With `waits` the fake holds answers as `wait_seconds` asks, and with `streams` it sends live events; an older
    service does neither.

    Attributes:
        requests: Received requests, in order.
    """

    def __init__(self, *, waits: bool = True, streams: bool = True) -> None:
        self.requests: list[FakeRequest] = []
        self._state = State(waits, streams)
        self._faults: list[Callable[[], None]] = []

    @property
    def clock(self) -> FakeClock:
        """Clock of the service and of the clients that it makes."""
        return self._state.clock

    @property
    def runs(self) -> Mapping[str, FakeRun]:
        """Runs by id."""
        return self._state.runs

    def workflow(
        self,
        name: str,
        *,
        script: Sequence[Moment] = (),
        parameters: Sequence[Mapping[str, Any]] | None = None,
        description: str = "",
    ) -> str:
        """Adds a workflow whose runs follow a script, by default to complete at once; returns the workflow's id.

        `parameters` are declarations as the API shows them; a `name` is enough. Starts are checked against the
        declarations; without `parameters` a start may give any.

        Raises:
            ValueError: a parameter has no name, or a type that the service does not know.
        """
        for declared in parameters or ():
            if not declared.get("name") or declared.get("type", "string") not in PARAMETER_TYPES:
                kinds = ", ".join(PARAMETER_TYPES)
                raise ValueError(f"A parameter needs a name and one of the types {kinds}, not {dict(declared)!r}.")
        workflow_id = f"wf_{next(self._state.numbers):026}"
        now = self.clock.text()
        self._state.workflows[workflow_id] = {
            "workflow_id": workflow_id,
            "name": name,
            "description": description,
            "status": "active",
            "version": 1,
            "readiness": {"ready": True, "reasons": []},
            "max_run_hours": None,
            "parallel_steps": 1,
            "pii_policy": FakeRun("", ("", ""), {}, self.clock).detail()["pii_policy"],
            "result_schema_version": None,
            "created_at": now,
            "updated_at": now,
            "links": {
                "self": f"{BASE}/workflows/{workflow_id}",
                "parameters": f"{BASE}/workflows/{workflow_id}/parameters",
                "runs": f"{BASE}/workflows/{workflow_id}/runs",
            },
        }
        self._state.scripts[workflow_id] = tuple(script) or (complete(),)
        blank = {"type": "string", "description": None, "required": False, "default": None}
        if parameters is not None:
            self._state.parameters[workflow_id] = [{**blank, **declared} for declared in parameters]
        return workflow_id

    def remove_workflow(self, workflow_id: str) -> None:
        """Removes a workflow from the key's reach; its runs stay."""
        del self._state.workflows[workflow_id]

    def client(self, **options: Any) -> Client:
        """Returns a client of this service, on its clock."""
        return Client(URL, **self._options(options))

    def async_client(self, **options: Any) -> AsyncClient:
        """Returns an async client of this service, on its clock."""
        return AsyncClient(URL, **self._options(options))

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Returns options of a client of this service; an `http_client` has its transport already."""
        transport = {} if "http_client" in options else {"transport": self.transport()}
        return {"key": KEY, "external_id": EXTERNAL_ID, "clock": self.clock, **transport, **options}

    def transport(self) -> "FakeTransport":
        """Returns a transport for httpx that sends requests to this service."""
        return FakeTransport(self)

    def refuse(
        self,
        code: str,
        *,
        message: str = "",
        details: Any = None,
        retry_after: int | None = None,
        times: int = 1,
        status: int | None = None,
    ) -> None:
        """Refuses the next requests, before any effect.

        A code that this release does not know needs a `status`.

        Raises:
            ValueError: the code is unknown and has no `status`.
        """
        if code not in STATUSES and status is None:
            raise ValueError(f"The code must be one of: {', '.join(STATUSES)}; {code!r} is none.")

        def fault() -> None:
            raise Refused(code, message, details, retry_after, status)

        self._faults += [fault] * times

    def break_connection(self, *, sent: bool = True, times: int = 1) -> None:
        """Ends the next requests without an answer; with `sent` the service may have received them."""

        def fault() -> None:
            raise httpx.ReadError("broken by the script") if sent else httpx.ConnectError("refused by the script")

        self._faults += [fault] * times

    def cut(self, after_bytes: int, *, cleanly: bool = False) -> None:
        """Breaks the next download or event stream off after some bytes; with `cleanly` it ends there as if whole."""
        self._state.cuts.append((after_bytes, cleanly))

    def handle(self, request: httpx.Request, content: bytes) -> httpx.Response:
        """Answers a request."""
        request_id = request.headers.get("X-Request-Id", "fake")
        path = request.url.raw_path.decode().partition("?")[0].removeprefix(BASE)
        received = FakeRequest(
            request.method,
            path,
            dict(request.url.params),
            dict(request.headers),
            json.loads(content) if content else None,
            self.clock.now(),
        )
        self.requests.append(received)
        try:
            if self._faults:
                self._faults.pop(0)()
            self._state.catch_up()
            answer = Call(self._state, received).answer()
        except Refused as refused:
            answer = refused.answer(request_id)
        answer.headers["X-Request-Id"] = request_id
        return answer


class FakeTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Transport of sync and async clients to a fake service."""

    def __init__(self, api: FakeApi) -> None:
        self._api = api

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Returns the answer."""
        return self._api.handle(request, request.read())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Returns the answer."""
        return self._api.handle(request, await request.aread())
