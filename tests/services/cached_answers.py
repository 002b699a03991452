"""Compares the answer cache with the database at each commit, when nothing else can change."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from backend.rpc.answer_cache import AnswerCache
from backend.rpc.interceptors import Handler, handlers_of
from backend.services.keys.servicer import CallerServicer
from backend.storage.commits import CommitMarks
from contract.local_context import LocalContext
from contract.metadata import KEY_ID
from tests.services.runs.world import World
from workflow_api.v1 import caller_pb2, runs_pb2

_OF_RUN = {
    "GetRun": runs_pb2.GetRunRequest,
    "ListRunSteps": runs_pb2.ListRunStepsRequest,
    "ListRunEvents": runs_pb2.ListRunEventsRequest,
    "ListRunApprovals": runs_pb2.ListRunApprovalsRequest,
}


class CachedAnswers:
    """Every cacheable read of some keys and their runs; `wrong` are cached answers that were not what is stored.

    `dropped` names the methods of which an answer was not cached when it was compared.
    """

    def __init__(self, world: World, keys: Mapping[str, list[str]]) -> None:
        self._keys = keys
        self.wrong: list[str] = []
        self.dropped: Counter[str] = Counter()
        self.times = 0
        services = world.services
        marks = services.database.commit_marks
        assert marks is not None
        self.marks = marks
        servicers = (
            (world.servicer, runs_pb2.DESCRIPTOR.services_by_name["RunsService"]),
            (CallerServicer(services), caller_pb2.DESCRIPTOR.services_by_name["CallerService"]),
        )
        self._handlers: dict[str, tuple[Handler, Handler]] = {}
        cache = AnswerCache(marks, services.clock)
        for servicer, service in servicers:
            fresh = handlers_of(servicer, service)
            for path, handler in handlers_of(servicer, service, cache).items():
                self._handlers[path.rpartition("/")[2]] = handler, fresh[path]

    def compare(self) -> None:
        """Compares every answer that is cached with a fresh one, and has all cached again."""
        self.times += 1
        for key_id, runs in tuple(self._keys.items()):
            metadata = ((KEY_ID, key_id),)
            for method, request in self._requests(runs):
                cached_read, fresh_read = self._handlers[method]
                assert cached_read.cached_answer is not None
                cached = cached_read.cached_answer(request, metadata)
                fresh = fresh_read.call(request, LocalContext(metadata, 60))
                if cached is None:
                    self.dropped[method] += 1
                elif cached.message != fresh:
                    self.wrong.append(f"{method} by {key_id}: {cached.message} is {fresh}")
                cached_read.answer(request, LocalContext(metadata, 60))

    @staticmethod
    def _requests(runs: list[str]) -> Iterator[tuple[str, Any]]:
        yield "GetMe", caller_pb2.GetMeRequest()
        yield "ListRuns", runs_pb2.ListRunsRequest()
        for run_id in tuple(runs):
            for method, request in _OF_RUN.items():
                yield method, request(run_id=run_id)


@contextmanager
def compared(world: World, keys: Mapping[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> Iterator[CachedAnswers]:
    """Compares after each commit, before it is known to whom it made a change, until the context ends."""
    answers = CachedAnswers(world, keys)
    end = CommitMarks.end

    def compare(marks: CommitMarks) -> None:
        end(marks)
        if marks is answers.marks:
            answers.compare()

    with monkeypatch.context() as patched:
        patched.setattr(CommitMarks, "end", compare)
        yield answers
