"""Compares runs that callers wait for with the backend, for the case that an announcement was lost."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import islice
from time import monotonic
from typing import Final, cast

from contract.channel import Channel
from contract.metadata import ACTOR
from edge.outages import RepeatedCall
from edge.waiting.holds import Holds
from edge.waiting.latest_runs import LatestRuns, Reading
from workflow_api.v1.runs_pb2 import FindChangedRunsRequest, FindChangedRunsResponse, ReadRun

_FIND: Final = "/workflow_api.v1.RunsService/FindChangedRuns"
_METADATA: Final = ((ACTOR, "edge"),)
_PAUSE_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 2.0
# A backend that has no answer is left alone: what is not compared is read again.
_FAILED_SECONDS: Final = 30.0
_RUNS_AT_ONCE: Final = 100

_LOG = logging.getLogger(__name__)


async def keep_current(channel: Channel, runs: LatestRuns, holds: Holds, current: Callable[[], bool]) -> None:
    """Goes on forever; compares only while `current` says that changes are followed."""
    not_before = 0.0
    comparing = RepeatedCall(_LOG, "Runs were not compared", "Runs are compared again", logging.INFO)
    while True:
        await asyncio.sleep(_PAUSE_SECONDS)
        due = runs.due(holds.any_of)
        if not (current() and monotonic() >= not_before):
            continue
        try:
            await _compare(channel, runs, holds, due)
            comparing.succeeded()
        except Exception as error:  # noqa: BLE001 - one failure does not end the comparing
            comparing.failed(error)
            not_before = monotonic() + _FAILED_SECONDS


async def _compare(channel: Channel, runs: LatestRuns, holds: Holds, due: Iterable[Reading]) -> None:
    left = iter(due)
    while readings := list(islice(left, _RUNS_AT_ONCE)):
        asked_at = monotonic()
        known = [ReadRun(run_id=each.run_id, etag=each.run.etag) for each in readings if each.run is not None]
        answer = await channel.unary(_FIND, FindChangedRunsRequest(runs=known), _METADATA, _ANSWER_SECONDS)
        changed = set(cast("FindChangedRunsResponse", answer).run_ids)
        runs.confirm((each for each in readings if each.run_id not in changed), asked_at)
        runs.changed(changed)
        holds.changed(changed)
