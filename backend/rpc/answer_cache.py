"""The answer cache: answers of reads, each valid until the data it shows change.

It is used where this process alone commits: a cached answer costs a quarter to three fifths of a read. (`python -m
benchmarks`)

An answer depends on its request and key, on rows that are read again once a commit may have changed them, and on the
UTC day if it has counters of a day. The cache is exact: no answer outlives the beginning of a commit that may change it
(`backend.storage.commits`), which precedes the answer to the caller of that change.
"""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeVar

import grpc
from google.protobuf.message import Message

from backend.common import metrics
from backend.common.caches import RecentValues
from backend.common.clock import Clock, utc_day
from backend.rpc.callers import principal_of
from backend.storage.commits import CommitMarks
from contract.local_context import CachedAnswer, LocalContext
from contract.metadata import KEY_ID, PERSON

M = TypeVar("M", bound=Callable[..., Any])

Metadata = Iterable[tuple[str, str]]
CacheLookup = Callable[[Message, Metadata], CachedAnswer | None]
Read = Callable[[Any, grpc.ServicerContext], Message]

_Key = tuple[str, str, bytes]
"""A method, the id of a key, and the serialised request."""

_MARK: Final = "_cacheable"
_MOST_BYTES: Final = 32_000_000


class Dependence(NamedTuple):
    """Dependences of a method's answers besides request and key."""

    of_run: bool
    """True: the run that the request names, with all its data. False: the calling key and all of its runs."""
    of_day: bool = False
    """True if answers depend on the UTC day."""


def cacheable(depends: Dependence) -> Callable[[M], M]:
    """Marks a unary method whose answer depends on its request, its key and `depends` alone."""

    def marked(method: M) -> M:
        setattr(method, _MARK, depends)
        return method

    return marked


def dependence_of(method: object) -> Dependence | None:
    """Returns the `cacheable` mark of a method; None if its answers are not cached."""
    return getattr(method, _MARK, None)


class _CacheEntry(CachedAnswer):
    """An answer that was read once the commit of the number `since` had ended."""

    __slots__ = ("day", "of", "since")

    def __init__(self, message: Message, of: str, since: int, day: int | None) -> None:
        self.message, self.encoded = message, None
        self.of = of
        self.since = since
        self.day = day


class AnswerCache:
    """Cache of the latest answers to keys, which are immutable. Thread-safe."""

    def __init__(self, marks: CommitMarks, clock: Clock) -> None:
        self._marks = marks
        self._clock = clock
        self._answers = RecentValues[_Key, _CacheEntry](_size, _MOST_BYTES)

    def get(self, method: str, key_id: str, request: Message) -> CachedAnswer | None:
        """Returns the cached answer to a request if it is still valid."""
        key = method, key_id, request.SerializeToString()
        entry = self._answers.get(key)
        if entry is None:
            return None
        day = entry.day
        if self._marks.unchanged(entry.of, entry.since) and (day is None or day == utc_day(self._clock())):
            return entry
        # An outdated answer may hold erased data, and each request for it would keep it longer.
        self._answers.discard(key)
        return None

    def read(
        self, method: str, depends: Dependence, key_id: str, request: Any, read: Callable[[], Message]
    ) -> CachedAnswer:
        """Returns the answer of `read`, and caches it."""
        # Taken before the read, because the read may miss a commit made during it.
        since = self._marks.ended
        day = utc_day(self._clock()) if depends.of_day else None
        entry = _CacheEntry(read(), request.run_id if depends.of_run else key_id, since, day)
        self._answers.put((method, key_id, request.SerializeToString()), entry)
        return entry


def cache_lookup(cache: AnswerCache, method: str, labels: tuple[str, str]) -> CacheLookup:
    """Returns a function that looks up the cached answer to a request by the call's metadata, without blocking.

    It returns None if the answer must be read. Only answers to keys are cached, and none to calls that name a person,
    which the guard of people must see. Calls answered from the cache count in the metrics, with `labels`, as others do.
    """

    def lookup(request: Message, metadata: Metadata) -> CachedAnswer | None:
        began = perf_counter()
        key_id = None
        for name, value in metadata:
            # Several keys, or a person besides a key, are checked by the call itself.
            if name == PERSON or (name == KEY_ID and key_id is not None):
                return None
            if name == KEY_ID:
                key_id = value
        answer = cache.get(method, key_id, request) if key_id else None
        if answer is not None:
            metrics.GRPC_CALLS.observe(perf_counter() - began, labels)
        return answer

    return lookup


def caching(cache: AnswerCache, method: str, depends: Dependence, read: Read) -> Read:
    """Returns a servicer's method that puts its answers, but not its errors, into the cache."""

    def read_and_put(request: Message, context: grpc.ServicerContext) -> Message:
        caller = principal_of(context)
        if not caller.key_id or caller.person is not None:
            return read(request, context)
        cached = cache.read(method, depends, caller.key_id, request, lambda: read(request, context))
        if isinstance(context, LocalContext):
            context.cached = cached
        return cached.message

    return read_and_put


def _size(entry: _CacheEntry) -> int:
    # Small messages take a few times their bytes in memory; their JSON, added later, takes about three times.
    return 1_024 + 8 * entry.message.ByteSize()
