"""Starts a run in one round trip to a remote database, by guessed facts.

The checks use the facts that the key's last start read; the database inserts the rows only if the facts still hold.
"""

import threading
from collections import OrderedDict
from typing import Final

from backend.common.caches import RevisionedCache
from backend.common.clock import utc_day
from backend.services.runs.start import optimistic_start_sql
from backend.services.runs.start.new_run import NewRun, idempotency_record, new_run
from backend.services.runs.start.rules import ParsedStart, StartContext, ValidatedInputs, claim_of, first_refusal
from backend.services.runs.start.sql import FactsRow
from backend.services.workflows.resolved_workflow import cached_workflow
from backend.storage.database import key_of
from backend.storage.statements import SingleRoundTrip

_MAX_KEYS: Final = 10_000


class OptimisticStart:
    """Starts runs by the cached facts of up to `max_keys` API keys. Thread-safe."""

    def __init__(self, single_round_trip: SingleRoundTrip, cache: RevisionedCache, max_keys: int = _MAX_KEYS) -> None:
        self._single_round_trip = single_round_trip
        self._cache = cache
        self._max_keys = max_keys
        self._lock = threading.Lock()
        # The key that was used last is at the end.
        self._facts: OrderedDict[str, FactsRow] = OrderedDict()

    def remember(self, key_id: str, facts: FactsRow) -> None:
        """Caches the facts that a start of the key has read, a row of `sql.facts`."""
        with self._lock:
            self._facts.pop(key_id, None)
            self._facts[key_id] = facts
            if len(self._facts) > self._max_keys:
                self._facts.popitem(last=False)

    def start(self, start: ParsedStart, inputs: ValidatedInputs) -> NewRun | None:
        """Starts a run after the checks of every start; returns None if a transaction must decide the start.

        Raises:
            ClaimedError: another start with the same idempotency key is being decided.
        """
        facts = self._expected_facts(start.key_id)
        if facts is None:
            return None
        workflow = cached_workflow(self._cache, start.workflow_id, start.version, facts.resource_revision)
        if workflow is not inputs.workflow or first_refusal(StartContext(start, facts, workflow, inputs)) is not None:
            return None
        new = new_run(start, inputs)
        found, started = optimistic_start_sql.start(
            self._single_round_trip,
            facts,
            new,
            idempotency_record(start, new.run.run_id, start.at),
            utc_day(start.at),
            start.trace,
            lock_key=key_of(start.key_id),
            claim=claim_of(start.key_id, start.idempotency_key),
        )
        self.remember(start.key_id, found)
        # After a lost connection, the repeated insert finds the run that the first one started.
        return new if started or found.run_id == new.run.run_id else None

    def _expected_facts(self, key_id: str) -> FactsRow | None:
        """Returns cached facts, but with one free slot and one unit of each quota left; None if the key may lack any.

        The database compares both counters with `<=`, because more slots or quota do not refuse a start.
        """
        known = self._facts.get(key_id)
        if known is None or known.key_id is None:
            return None
        assert known.max_concurrent_runs is not None
        assert known.daily_run_quota is not None
        active_runs, runs_started = known.max_concurrent_runs - 1, known.daily_run_quota - 1
        full = known.active_runs > active_runs or (known.runs_started or 0) > runs_started
        tokens, cost = _most_used(known.daily_tokens), _most_used(known.daily_cost_microusd)
        full = full or known.tokens_used > tokens or known.cost_used_microusd > cost
        if full:
            return None
        return known._replace(
            active_runs=active_runs, runs_started=runs_started, tokens_used=tokens, cost_used_microusd=cost
        )


def _most_used(limit: int | None) -> int:
    """Returns the most use with which a start is admitted; without a limit none is counted."""
    return 0 if limit is None else limit - 1
