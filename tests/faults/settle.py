"""Waits until a deployment is idle after the last fault, acting as its callers would."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.faults.calls import Calls
from tests.faults.cluster import Cluster
from tests.faults.databases import reading
from tests.faults.load import Load
from tests.faults.load_record import Key, LoadRecord
from tests.faults.releases import ENVIRONMENT
from tests.faults.schedule_people import RECURS, SCHEDULES
from tests.support.poll import until
from workflow_api.v1.environments_pb2 import ENVIRONMENT_BUILD_STATE_BUILDING

_WHOLE_SECONDS: Final = 300
_SECONDS: Final = 120
# A lease, a launch time-out and the minutely round of removals are shorter.
_REST_SECONDS: Final = 150
# A process that was killed in an update of a graph leaves a claim of six minutes.
_PUBLICATIONS_SECONDS: Final = 420
# What is revoked stops within two minutes.
_REVOKED_SECONDS: Final = 125

_TO_RESUME: Final = "SELECT count(*) FROM interruptions WHERE due_at IS NOT NULL"
_IN_FLIGHT: Final = "SELECT count(*) FROM runs WHERE status IN ('queued', 'running', 'waiting_for_approval')"
# All planned starts are due within seconds.
_DUE: Final = "SELECT count(*) FROM schedules WHERE next_at <= {} OR (name IS NULL AND next_at IS NOT NULL)"
_TO_PUBLISH: Final = "SELECT count(*) FROM publications WHERE state IN ('pending', 'removing')"
_TO_REMOVE: Final = "SELECT (SELECT count(*) FROM pending_removals) + (SELECT count(*) FROM pending_deletions)"


_TO_DELIVER: Final = """
SELECT count(*) FROM webhook_deliveries d JOIN webhooks w USING (webhook_id) JOIN api_keys k USING (key_id)
WHERE d.state = 'pending' AND k.revoked_at IS NULL
"""


def settle(cluster: Cluster, calls: Calls, known: LoadRecord, load: Load) -> dict[str, float]:
    """Returns when nothing is going on any more, or what should have ended by now has not: that is the auditor's.

    Gives the seconds that each part of it took.
    """
    took: dict[str, float] = {}

    def note(what: str) -> None:
        took[what] = time.monotonic() - began - sum(took.values())

    began = time.monotonic()
    until(cluster.whole, "every part to serve again", seconds=_WHOLE_SECONDS, every=0.2)
    _wait(lambda: all(_serves(calls, known, edge) for edge in range(2)), _SECONDS)
    note("parts")
    load.settle_starts()
    note("starts")
    _wait(lambda: _count(cluster, _DUE.format(round(time.time() * 1000))) == 0, _SECONDS)
    for number, name in enumerate(SCHEDULES):
        _wait(partial(calls.pause_schedule, RECURS, name, number % 2), _SECONDS)
    note("schedules")
    _wait(lambda: _cancel_all(cluster, calls, known) + _count(cluster, _TO_RESUME) == 0, _REST_SECONDS)
    note("runs")
    for number, run in enumerate(known.runs(lambda run: run.erased and not run.key.revoked)):
        calls.erase(run, number % 2)
    ended = known.runs(lambda run: run.ended and not run.erased and not run.key.revoked)
    for edge, run in enumerate(ended[-2:]):
        # Each backend carries out pending removals.
        load.erase(run, edge)
    _wait(lambda: _count(cluster, _TO_REMOVE) == 0, _REST_SECONDS)
    note("removals")
    _wait(lambda: _count(cluster, _TO_PUBLISH) == 0, _PUBLICATIONS_SECONDS)
    note("publications")
    _wait(lambda: _count(cluster, _TO_DELIVER) == 0, _REST_SECONDS)
    note("messages")
    _wait(lambda: _is_settled(calls), _REST_SECONDS)
    note("packages")
    for key in known.revoked_keys():
        # The outcome of some is unknown.
        _wait(partial(calls.revoke_key, key, 0), _SECONDS)
    for edge in range(2):
        for key in known.revoked_keys():
            _wait(partial(_refused, calls, key, edge), _REVOKED_SECONDS)
    note("revoked keys")
    return took


def _serves(calls: Calls, known: LoadRecord, edge: int) -> bool:
    answer = calls.list_runs(known.usable_keys()[0], edge)
    return answer is not None and answer.status == 200


def _cancel_all(cluster: Cluster, calls: Calls, known: LoadRecord) -> int:
    """Cancels unfinished runs; returns how many there were."""
    with reading(cluster.database) as database:
        found = database.execute(_IN_FLIGHT.replace("count(*)", "run_id, parent_run_id")).fetchall()
    # Children end with their parents.
    going = {run_id for run_id, parent in found if parent is None}
    callers = known.runs(lambda run: run.run_id in going and not run.key.revoked)
    for number, run in enumerate(callers):
        calls.cancel(run, number % 2)
    # Those of revoked keys, of people, and of starts never acknowledged.
    for number, run_id in enumerate(going - {run.run_id for run in callers}):
        calls.cancel_as_administrator(run_id, number % 2)
    return len(found)


def _is_settled(calls: Calls) -> bool:
    """Whether the packages of the environment are built, or cannot be."""
    build = calls.environment(ENVIRONMENT, 0)
    return build is not None and build.state != ENVIRONMENT_BUILD_STATE_BUILDING


def _count(cluster: Cluster, query: str) -> int:
    with reading(cluster.database) as database:
        row = database.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def _refused(calls: Calls, key: Key, edge: int) -> bool:
    answer = calls.me(key, edge)
    return answer is not None and answer.status == 401


def _wait(there: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not there() and time.monotonic() < end:
        time.sleep(0.5)
