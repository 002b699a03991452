"""`Client`, with workflows and runs, for threads; the twin of `async_client.AsyncClient`."""

import copy
from collections.abc import Iterable, Mapping
from datetime import datetime
from ssl import SSLContext
from types import TracebackType
from typing import Any

import httpx

from workflow_api_client.clock import Clock, SystemClock
from workflow_api_client.core import Core
from workflow_api_client.drivers import SyncDriver
from workflow_api_client.failures import ConfigurationError
from workflow_api_client.generated import records, routes
from workflow_api_client.listings import Listed, Listing, Page
from workflow_api_client.operations.reading import PAGE, get, run_filters
from workflow_api_client.operations.starting import find, parameters, start
from workflow_api_client.raw_response import RawClient
from workflow_api_client.run import Run
from workflow_api_client.settings import checked, from_environment

Parameters = list[records.Parameter]


class Client:
    """Client that calls the service with one key.

    `url` is the service's address, with or without `/api/v1`. `timeout` bounds one request, in seconds, and
    `retry_seconds` the retries of a temporary refusal, such as `rate_limited`. `headers` are sent with every request in
    addition to the client's own; `proxy` is a proxy's address, in place of the environment's. An `http_client` of your
    own is used in place of a new one, and you close it. The `timeout` of a call bounds the call with its retries, in
    seconds, and replaces the client's; beyond it the call raises `TimedOutError`.

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
        http_client: httpx.Client | None = None,
        clock: Clock | None = None,
    ) -> None:
        settings = checked(url, key, external_id, timeout=timeout, retry_seconds=retry_seconds, headers=headers)
        clock = clock or SystemClock()
        self._address = settings.url
        if http_client is not None and (verify is not True or proxy is not None or transport is not None):
            raise ConfigurationError("With `http_client`, give it `verify`, `proxy` and `transport` yourself.")
        self._owns_http = http_client is None
        self._http = http_client or httpx.Client(verify=verify, proxy=proxy, transport=transport)
        self._driver = SyncDriver(self._http, clock)
        self._use(Core(settings, clock))

    def _use(self, core: Core) -> None:
        self._core = core
        self.workflows = Workflows(core, self._driver)
        self.runs = Runs(core, self._driver)

    @classmethod
    def from_env(cls, **options: Any) -> "Client":
        """Returns a client for WORKFLOW_API_URL, WORKFLOW_API_KEY and WORKFLOW_API_EXTERNAL_ID of the environment.

        Raises:
            ConfigurationError: a variable is missing or not valid.
        """
        url, key, external_id = from_environment()
        return cls(url, key=key, external_id=external_id, **options)

    def with_options(
        self,
        *,
        timeout: float | None = None,
        retry_seconds: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> "Client":
        """Returns a client with other options, as for one call; `headers` are added to this client's.

        It shares this client's connections, which are closed with this client alone.

        Raises:
            ConfigurationError: a value is not valid.
        """
        made = copy.copy(self)
        made._owns_http = False  # noqa: SLF001 # its own class
        made._use(self._core.with_options(timeout=timeout, retry_seconds=retry_seconds, headers=headers))  # noqa: SLF001
        return made

    @property
    def with_raw_response(self) -> RawClient:
        """The client's methods that return a `RawResponse`: status, headers, body and the parsed value."""
        return RawClient(self)

    def me(self, *, timeout: float | None = None) -> records.ApiKey:
        """Returns the calling key and its limits."""
        return self._driver.run(get(self._core.within(timeout), records.ApiKey, routes.GET_ME))

    def health(self, *, timeout: float | None = None) -> records.Health:
        """Returns whether the API accepts keys."""
        return self._driver.run(get(self._core.within(timeout), records.Health, routes.GET_HEALTH))

    def close(self) -> None:
        """Closes the connections, if this client opened them."""
        if self._owns_http:
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

    def list(self, q: str | None = None) -> Listing[records.Workflow]:
        """Returns the active workflows by name; with `q` only names that begin with this text."""
        listed = Listed(records.ListWorkflowsResponse, routes.LIST_WORKFLOWS, {"q": q})
        return Listing(self._core, self._driver, listed)

    def page(
        self, q: str | None = None, *, limit: int = PAGE, cursor: str | None = None, timeout: float | None = None
    ) -> Page[records.Workflow]:
        """Returns a page of at most `limit` workflows (1 to 100); `cursor` is the `next_cursor` of the page before.

        Raises:
            InvalidCursorError: the cursor is of another list or key.
        """
        return self.list(q).page(limit=limit, cursor=cursor, timeout=timeout)

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
        wait: bool = False,
        timeout: float | None = None,
    ) -> Run:
        """Starts a run of a workflow by name or id.

        All calls with one `idempotency_key` within 24 hours start one run, also from several programs. Without a key,
        only the retries of this call do. With `wait` the run is returned once it has ended, also if it failed; the
        `timeout` bounds start and wait together.

        Raises:
            ApiError: the service refused the start; the class, one of `errors`, names the reason.
            TimedOutError: `timeout` seconds passed; a run that began goes on, and is the error's `run_id`.
        """
        fields = {
            "parameters": None if parameters is None else dict(parameters),
            "input_text": input_text,
            "client_reference": client_reference,
            "labels": None if labels is None else dict(labels),
            "pii_policy_override": None if pii_policy_override is None else dict(pii_policy_override),
            "version": version,
        }
        operation = start(self._core, workflow, fields, idempotency_key=idempotency_key, wait=wait, timeout=timeout)
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
    ) -> Listing[records.RunSummary]:
        """Returns the key's runs that match all filters, newest first. Times without a zone are UTC."""
        query = run_filters(status, workflow_id, client_reference, created_after, created_before)
        return Listing(self._core, self._driver, Listed(records.ListRunsResponse, routes.LIST_RUNS, query))

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
    ) -> Page[records.RunSummary]:
        """Returns a page of at most `limit` runs (1 to 100); `cursor` is the `next_cursor` of the page before.

        Raises:
            InvalidCursorError: the cursor is of another list or key.
        """
        listing = self.list(
            status=status,
            workflow_id=workflow_id,
            client_reference=client_reference,
            created_after=created_after,
            created_before=created_before,
        )
        return listing.page(limit=limit, cursor=cursor, timeout=timeout)
