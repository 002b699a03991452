"""The answer cache: answers of reads that depend on nothing but request, key, committed data and UTC day.

Such an answer holds until the next commit, so where this process alone commits it is cached instead of read each time:
a request for a run takes three fifths of the processor time of a read one, one for a list of 20 little more than a
quarter, and one for 200 events less than a quarter, as long as nothing is committed. (`python -m benchmarks`)

An answer is exact: it is dropped before the caller of any change is answered, and while a commit is under way, when
nobody can say whether it holds already, every answer is read.
"""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeVar

import grpc
from google.protobuf.message import Message

from backend import metrics
from backend.clock import Clock, utc_day
from backend.storage.database import Database
from contract.metadata import KEY_ID, PERSON
from contract.recent_values import RecentValues

M = TypeVar("M", bound=Callable[..., Any])
State = tuple[int, int]
"""What all answers depend on: the number of commits, and the UTC day."""

Metadata = Iterable[tuple[str, str]]
CacheLookup = Callable[[Any, Metadata], Message | None]
Read = Callable[[Any, grpc.ServicerContext], Message]

_Key = tuple[str, str, bytes]
"""A method, the id of a key, and the serialised request."""

_IDENTITY: Final = frozenset({KEY_ID, PERSON})
_MARK: Final = "_cacheable"
_MOST_BYTES: Final = 32_000_000


def cacheable(method: M) -> M:
    """Marks a unary method whose answer depends on its request, its key and the `State`, and on nothing else."""
    setattr(method, _MARK, True)
    return method


def is_cacheable(method: object) -> bool:
    """Returns whether a method is marked so."""
    return getattr(method, _MARK, False)


class _Entry(NamedTuple):
    answer: Message
    state: State


class AnswerCache:
    """The latest answers that keys got, which nobody may change. Thread-safe."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._answers = RecentValues[_Key, _Entry](_size, _MOST_BYTES)

    def state(self) -> State | None:
        """Returns the present state; None while that is not known, and always where other processes commit as well."""
        commits = self._database.commits
        return None if commits is None else (commits, utc_day(self._clock()))

    def get(self, method: str, key_id: str, request: Message) -> Message | None:
        """Returns the answer to a request if it holds now."""
        key = method, key_id, request.SerializeToString()
        entry = self._answers.get(key)
        if entry is None:
            return None
        if entry.state == self.state():
            return entry.answer
        # It may be one that erasure made wrong, and would otherwise stay for as long as it is asked for.
        self._answers.discard(key)
        return None

    def put(self, method: str, key_id: str, request: Message, answer: Message, state: State) -> None:
        """Keeps an answer that was read after the state was this."""
        self._answers.put((method, key_id, request.SerializeToString()), _Entry(answer, state))


def cache_lookup(cache: AnswerCache, method: str, labels: tuple[str, str]) -> CacheLookup:
    """Returns what looks up the cached answer to a request by the call's metadata; None where it must be read.

    It does not block. Only answers to keys are cached, and none of calls that name a person, which the guard of people
    must see. Calls answered from the cache count in the metrics, with these labels, as others.
    """

    def lookup(request: Message, metadata: Metadata) -> Message | None:
        began = perf_counter()
        key_id = _key_alone(metadata)
        answer = cache.get(method, key_id, request) if key_id else None
        if answer is not None:
            metrics.GRPC_CALLS.observe(perf_counter() - began, labels)
        return answer

    return lookup


def caching(cache: AnswerCache, method: str, read: Read) -> Read:
    """Returns a servicer's method that puts its answers into the cache; what it raises is no answer."""

    def read_and_put(request: Message, context: grpc.ServicerContext) -> Message:
        # Taken before the read: a commit during it may have come too late for what is read.
        state = cache.state()
        answer = read(request, context)
        key_id = None if state is None else _key_alone(_metadata_of(context))
        if key_id and state is not None:
            cache.put(method, key_id, request, answer, state)
        return answer

    return read_and_put


def cached_or_read(lookup: CacheLookup, read: Read) -> Read:
    """Returns what gives the cached answer, else what is read."""

    def call(request: Message, context: grpc.ServicerContext) -> Message:
        answer = lookup(request, _metadata_of(context))
        return read(request, context) if answer is None else answer

    return call


def _key_alone(metadata: Metadata) -> str | None:
    """Returns the id of the key that calls, None where there is none or several, or the call is also a person's."""
    named = [(name, value) for name, value in metadata if name in _IDENTITY]
    return named[0][1] if len(named) == 1 and named[0][0] == KEY_ID else None


def _metadata_of(context: grpc.ServicerContext) -> Metadata:
    return context.invocation_metadata() or ()  # type: ignore[return-value]  # text, by our keys


def _size(entry: _Entry) -> int:
    # Small messages take a few times their bytes.
    return 1_024 + 4 * entry.answer.ByteSize()
