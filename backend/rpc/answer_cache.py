"""The answer cache: answers of reads, each until what it shows changes.

Where this process alone commits, an answer is cached instead of read each time: a cached one costs a quarter to three
fifths of what reading it does. (`python -m benchmarks`)

An answer depends on its request and key, on rows that are read again once a commit may have changed them, and where it
has counters of a day on the UTC day. It is exact: no answer outlives the beginning of a commit that may change it
(`backend.storage.commits`), which is before any caller of that change is answered.
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
CacheLookup = Callable[[Any, Metadata], CachedAnswer | None]
Read = Callable[[Any, grpc.ServicerContext], Message]

_Key = tuple[str, str, bytes]
"""A method, the id of a key, and the serialised request."""

_MARK: Final = "_cacheable"
_MOST_BYTES: Final = 32_000_000


class Dependence(NamedTuple):
    """Dependences of a method's answers beside request and key."""

    of_run: bool
    """The run that the request names, with all that belongs to it; else the calling key and all of its runs."""
    of_day: bool = False
    """The UTC day."""


def cacheable(depends: Dependence) -> Callable[[M], M]:
    """Marks a unary method whose answer depends on its request, its key and this, and on nothing else."""

    def marked(method: M) -> M:
        setattr(method, _MARK, depends)
        return method

    return marked


def dependence_of(method: object) -> Dependence | None:
    """Returns what a method is marked with; None for one whose answers are not cached."""
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
    """The latest answers that keys got, which nobody may change. Thread-safe."""

    def __init__(self, marks: CommitMarks, clock: Clock) -> None:
        self._marks = marks
        self._clock = clock
        self._answers = RecentValues[_Key, _CacheEntry](_size, _MOST_BYTES)

    def get(self, method: str, key_id: str, request: Message) -> CachedAnswer | None:
        """Returns the answer to a request if it holds now."""
        key = method, key_id, request.SerializeToString()
        entry = self._answers.get(key)
        if entry is None:
            return None
        day = entry.day
        if self._marks.unchanged(entry.of, entry.since) and (day is None or day == utc_day(self._clock())):
            return entry
        # It may be one that erasure made wrong, and would otherwise stay for as long as it is asked for.
        self._answers.discard(key)
        return None

    def read(
        self, method: str, depends: Dependence, key_id: str, request: Any, read: Callable[[], Message]
    ) -> CachedAnswer:
        """Returns the answer that `read` gives, and keeps it."""
        # Taken before the read: a commit during it may have come too late for what is read.
        since = self._marks.ended
        day = utc_day(self._clock()) if depends.of_day else None
        entry = _CacheEntry(read(), request.run_id if depends.of_run else key_id, since, day)
        self._answers.put((method, key_id, request.SerializeToString()), entry)
        return entry


def cache_lookup(cache: AnswerCache, method: str, labels: tuple[str, str]) -> CacheLookup:
    """Returns what looks up the cached answer to a request by the call's metadata; None where it must be read.

    It does not block. Only answers to keys are cached, and none of calls that name a person, which the guard of people
    must see. Calls answered from the cache count in the metrics, with these labels, as others.
    """

    def lookup(request: Message, metadata: Metadata) -> CachedAnswer | None:
        began = perf_counter()
        key_id = None
        for name, value in metadata:
            # Of several keys, or a person beside one, the call itself judges.
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
    """Returns a servicer's method that puts its answers into the cache; what it raises is no answer."""

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
    # Small messages take a few times their bytes, and their JSON, which comes later, about three times.
    return 1_024 + 8 * entry.message.ByteSize()
