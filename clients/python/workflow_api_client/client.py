"""`Client`, with workflows and runs, for threads; the twin of `async_client.AsyncClient`."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from ssl import SSLContext
from types import TracebackType
from typing import Any

import httpx

from workflow_api_client.clock import Clock, SystemClock
from workflow_api_client.core import Core
from workflow_api_client.drivers import SyncDriver
from workflow_api_client.generated import records, routes
from workflow_api_client.operations.reading import PAGE, get, items, page_of, run_filters
from workflow_api_client.operations.starting import find, parameters, start
from workflow_api_client.run import Run
from workflow_api_client.settings import checked, from_environment

Parameters = list[records.Parameter]


class Client:
    """Client that calls the service with one key.

    `url` is the service's address, with or without `/api/v1`. `timeout` bounds one request, in seconds, and
    `retry_seconds` the retries of a temporary refusal, such as `rate_limited`. `headers` are sent with every request in
    addition to the client's own; `proxy` is a proxy's address, in place of the environment's. The `timeout` of a call
    bounds the call with its retries, in seconds, and replaces the client's; beyond it the call raises `TimedOutError`.

    Raises:
        ConfigurationError: a value is not valid.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str,
        external_id: str,
        timeout: float = 30.0,
        retry_seconds: float = 90.0,
        verify: SSLContext | bool = True,
        headers: Mapping[str, str] | None = None,
        proxy: str | httpx.Proxy | None = None,
        transport: httpx.BaseTransport | None = None,
        clock: Clock | None = None,
    ) -> None:
        settings = checked(url, key, external_id, timeout=timeout, retry_seconds=retry_seconds, headers=headers)
        clock = clock or SystemClock()
        self._address = settings.url
        self._http = httpx.Client(verify=verify, proxy=proxy, transport=transport, follow_redirects=False)
        self._core = Core(settings, clock)
        self._driver = SyncDriver(self._http, clock)
        self.workflows = Workflows(self._core, self._driver)
        self.runs = Runs(self._core, self._driver)

    @classmethod
    def from_env(cls, **options: Any) -> "Client":
        """Returns a client for WORKFLOW_API_URL, WORKFLOW_API_KEY and WORKFLOW_API_EXTERNAL_ID of the environment.

        Raises:
            ConfigurationError: a variable is missing or not valid.
        """
        url, key, external_id = from_environment()
        return cls(url, key=key, external_id=external_id, **options)

    def me(self, *, timeout: float | None = None) -> records.ApiKey:
        """Returns the calling key and its limits."""
        return self._driver.run(get(self._core.within(timeout), records.ApiKey, routes.GET_ME))

    def health(self, *, timeout: float | None = None) -> records.Health:
        """Returns whether the API accepts keys."""
        return self._driver.run(get(self._core.within(timeout), records.Health, routes.GET_HEALTH))

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> "Client":  # noqa: PYI034 # `Self` is newer than Python 3.10
        """Returns the client, which is closed at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the connections."""
        self.close()

    def __repr__(self) -> str:
        """Returns the address, without credentials."""
        return f"<Client of {self._address}>"


class Workflows:
    """The workflows within the key's reach."""

    def __init__(self, core: Core, driver: SyncDriver) -> None:
        self._core = core
        self._driver = driver

    def list(self, q: str | None = None) -> Iterator[records.Workflow]:
        """Yields the active workflows by name; with `q` only names that begin with this text."""
        listing = items(self._core, records.ListWorkflowsResponse, routes.LIST_WORKFLOWS, {"q": q})
        return self._driver.iterate(listing)

    def get(self, workflow: str, *, timeout: float | None = None) -> records.Workflow:
        """Returns a workflow by name or id.

        Raises:
            WorkflowNotFoundError: no workflow within the key's reach has this name or id.
        """
        return self._driver.run(find(self._core.within(timeout), workflow))

    def parameters(self, workflow: str, *, timeout: float | None = None) -> Parameters:
        """Returns the parameters of a workflow, by name or id."""
        return self._driver.run(parameters(self._core.within(timeout), workflow))


class Runs:
    """The key's runs."""

    def __init__(self, core: Core, driver: SyncDriver) -> None:
        self._core = core
        self._driver = driver

    def start(
        self,
        workflow: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        input_text: str | None = None,
        client_reference: str | None = None,
        labels: Mapping[str, str] | None = None,
        pii_policy_override: Mapping[str, Any] | None = None,
        version: int | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Run:
        """Starts a run of a workflow by name or id.

        All calls with one `idempotency_key` within 24 hours start one run, also from several programs. Without a key,
        only the retries of this call do.

        Raises:
            ApiError: the service refused the start; the class, one of `errors`, names the reason.
        """
        fields = {
            "parameters": None if parameters is None else dict(parameters),
            "input_text": input_text,
            "client_reference": client_reference,
            "labels": None if labels is None else dict(labels),
            "pii_policy_override": None if pii_policy_override is None else dict(pii_policy_override),
            "version": version,
        }
        operation = start(self._core.within(timeout), workflow, fields, idempotency_key=idempotency_key)
        return Run(self._core, self._driver, self._driver.run(operation))

    def get(self, run_id: str, *, timeout: float | None = None) -> Run:
        """Returns a run of this key.

        Raises:
            RunNotFoundError: the key has no run with this id.
        """
        operation = get(self._core.within(timeout), records.Run, routes.GET_RUN, {"run_id": run_id})
        return Run(self._core, self._driver, self._driver.run(operation))

    def list(
        self,
        *,
        status: str | Iterable[str] | None = None,
        workflow_id: str | None = None,
        client_reference: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
    ) -> Iterator[records.RunSummary]:
        """Yields the key's runs that match all filters, newest first. Times without a zone are UTC."""
        query = run_filters(status, workflow_id, client_reference, created_after, created_before)
        return self._driver.iterate(items(self._core, records.ListRunsResponse, routes.LIST_RUNS, query))

    def page(
        self,
        *,
        status: str | Iterable[str] | None = None,
        workflow_id: str | None = None,
        client_reference: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        limit: int = PAGE,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> records.ListRunsResponse:
        """Returns a page of at most `limit` runs (1 to 100); `cursor` is the `next_cursor` of the page before.

        Raises:
            InvalidCursorError: the cursor is of another list or key.
        """
        query = {
            **run_filters(status, workflow_id, client_reference, created_after, created_before),
            "limit": limit,
        }
        operation = page_of(self._core.within(timeout), records.ListRunsResponse, routes.LIST_RUNS, query, cursor)
        return self._driver.run(operation)
