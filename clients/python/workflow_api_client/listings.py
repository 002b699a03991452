"""Lists and their pages: `Listing` for threads, and its twin `AsyncListing` for asyncio."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from workflow_api_client.core import Core
from workflow_api_client.drivers import AsyncDriver, SyncDriver
from workflow_api_client.operations.reading import PAGE, items, page_of
from workflow_api_client.route import Route

T = TypeVar("T")


class Listed(NamedTuple):
    """A list of the API: record of its pages, route and filters."""

    kind: type[Any]
    route: Route
    query: Mapping[str, object]


class Page(Generic[T]):
    """One page of a list.

    Attributes:
        items: Records of the page.
        next_cursor: Cursor of the page that follows, as for another program; None on the last page.
    """

    def __init__(self, listing: "Listing[T]", limit: int, items: list[T], next_cursor: str | None) -> None:
        self._listing = listing
        self._limit = limit
        self.items = items
        self.next_cursor = next_cursor

    def next_page(self, *, timeout: float | None = None) -> "Page[T] | None":
        """Returns the page that follows, read now; None after the last page."""
        if self.next_cursor is None:
            return None
        return self._listing.page(limit=self._limit, cursor=self.next_cursor, timeout=timeout)


class Listing(Iterator[T]):
    """All items of a list, whose pages are read as they are needed."""

    def __init__(self, core: Core, driver: SyncDriver, listed: Listed) -> None:
        self._core = core
        self._driver = driver
        self._listed = listed
        self._items = driver.iterate(items(core, *listed))

    def __next__(self) -> T:
        """Returns the next item."""
        item: T = next(self._items)
        return item

    def pages(self, *, limit: int = PAGE) -> Iterator[Page[T]]:
        """Yields the pages from the first, of at most `limit` items (1 to 100)."""
        page: Page[T] | None = self.page(limit=limit)
        while page is not None:
            yield page
            page = page.next_page()

    def page(self, *, limit: int = PAGE, cursor: str | None = None, timeout: float | None = None) -> Page[T]:
        """Returns the first page, or the page at a `next_cursor`, of at most `limit` items (1 to 100)."""
        kind, route, query = self._listed
        asked = page_of(self._core.within(timeout), kind, route, {**query, "limit": limit}, cursor)
        record = self._driver.run(asked)
        return Page(self, limit, record.items, record.next_cursor or None)


class AsyncPage(Generic[T]):
    """One page of a list.

    Attributes:
        items: Records of the page.
        next_cursor: Cursor of the page that follows, as for another program; None on the last page.
    """

    def __init__(self, listing: "AsyncListing[T]", limit: int, items: list[T], next_cursor: str | None) -> None:
        self._listing = listing
        self._limit = limit
        self.items = items
        self.next_cursor = next_cursor

    async def next_page(self, *, timeout: float | None = None) -> "AsyncPage[T] | None":
        """Returns the page that follows, read now; None after the last page."""
        if self.next_cursor is None:
            return None
        return await self._listing.page(limit=self._limit, cursor=self.next_cursor, timeout=timeout)


class AsyncListing(AsyncIterator[T]):
    """All items of a list, whose pages are read as they are needed."""

    def __init__(self, core: Core, driver: AsyncDriver, listed: Listed) -> None:
        self._core = core
        self._driver = driver
        self._listed = listed
        self._items = driver.iterate(items(core, *listed))

    async def __anext__(self) -> T:
        """Returns the next item."""
        item: T = await anext(self._items)
        return item

    async def pages(self, *, limit: int = PAGE) -> AsyncIterator[AsyncPage[T]]:
        """Yields the pages from the first, of at most `limit` items (1 to 100)."""
        page: AsyncPage[T] | None = await self.page(limit=limit)
        while page is not None:
            yield page
            page = await page.next_page()

    async def page(self, *, limit: int = PAGE, cursor: str | None = None, timeout: float | None = None) -> AsyncPage[T]:
        """Returns the first page, or the page at a `next_cursor`, of at most `limit` items (1 to 100)."""
        kind, route, query = self._listed
        asked = page_of(self._core.within(timeout), kind, route, {**query, "limit": limit}, cursor)
        record = await self._driver.run(asked)
        return AsyncPage(self, limit, record.items, record.next_cursor or None)
