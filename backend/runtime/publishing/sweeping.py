"""Sweeps triples for personal data before they are published, where the run's policy redacts its outputs."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from backend.common import json_text
from backend.common.json_text import JsonMapping
from backend.resources.graphs.graph import GraphRefusedError, GraphUnavailableError, TripleStatement
from backend.resources.graphs.triple_spool import TripleSpool
from backend.resources.redaction.confined_redactor import ConfinedRedactor, RedactionError
from backend.runtime.publishing import sql
from backend.services.runs import redaction_manifest_sql
from backend.services.runs.redaction_manifest_sql import OUTPUTS, StageCounts
from backend.storage.database import Database, run_of
from redaction.counts import Counts
from redaction.entity_types import ENTITY_TYPES

if TYPE_CHECKING:
    from pyoxigraph import Triple

Sweep = Callable[[str, TripleSpool, threading.Event], TripleSpool]
"""Function from a run's id, its triples and a halt to the swept triples; ends soon after the halt is set.

Raises:
    GraphRefusedError: the triples cannot be swept within the limits of a sweep.
    GraphUnavailableError: the triples cannot be swept now.
"""

_SweepTexts = Callable[[JsonMapping, list[str]], list[str]]

_BATCH_TRIPLES: Final = 1_000
# Types that are not looked for in IRIs: an IRI is a URL by its nature, and vocabularies have dates in theirs.
_NOT_IN_IRIS: Final = frozenset({"URL", "DATE_TIME"})


def policy_sweep(database: Database, redactor: ConfinedRedactor) -> Sweep:
    """Makes a sweep by each run's PII policy, of literals and of IRIs that are not predicates."""
    budget = _BudgetedSweep(database, redactor)

    def sweep(run_id: str, triples: TripleSpool, halt: threading.Event) -> TripleSpool:
        text, key_id = database.read(lambda tx: sql.pii_policy(tx, run_id))
        policy = json_text.parse(text)
        if policy["mode"] != "redact" or "outputs" not in policy["stages"]:
            return triples

        def sweep_texts(by: JsonMapping, texts: list[str]) -> list[str]:
            return budget.values(run_id, key_id, halt, by, texts)

        return triples.copied(lambda statements: _sweep_triples(sweep_texts, policy, statements))

    return sweep


class _BudgetedSweep:
    """Sweeps within the model calls that a run has left, and records the calls made."""

    def __init__(self, database: Database, redactor: ConfinedRedactor) -> None:
        self._database = database
        self._redactor = redactor
        # One batch at a time, because each may make all the calls that are left.
        self._asking = threading.Lock()

    def values(
        self, run_id: str, key_id: str, halt: threading.Event, policy: JsonMapping, texts: list[str]
    ) -> list[str]:
        if policy["model"] is None:
            return self._redactor.values(policy, texts, halt, owner=key_id)[0]
        with self._asking:
            made = self._database.read(lambda tx: redaction_manifest_sql.model_calls(tx, run_id))
            try:
                left = {**policy, "max_model_calls": max(0, policy["max_model_calls"] - made)}
                swept, counts = self._redactor.values(left, texts, halt, owner=key_id)
            except RedactionError as error:
                self._record(run_id, Counts(model_calls=error.model_calls))
                raise
            # Only model calls are counted, because the sweep of the files counts the values.
            self._record(run_id, Counts(model_calls=counts.model_calls, model_skipped=counts.model_skipped))
            return swept

    def _record(self, run_id: str, counts: Counts) -> None:
        if counts != Counts():
            found = StageCounts(OUTPUTS, counts)
            self._database.write(
                lambda tx: redaction_manifest_sql.add_counts(tx, run_id, found), lock_key=run_of(run_id)
            )


def _sweep_triples(sweep: _SweepTexts, policy: JsonMapping, triples: Iterator[TripleStatement]) -> "Iterator[Triple]":
    categories = ENTITY_TYPES if policy["categories"] == "all" else set(policy["categories"])
    iri_policy = {**policy, "categories": sorted(categories - _NOT_IN_IRIS), "model": None}
    while batch := list(islice(triples, _BATCH_TRIPLES)):
        literals: dict[str, str] = {}
        iris: dict[str, str] = {}
        for triple in batch:
            _collect(triple, literals, iris)
        for texts, by in ((literals, policy), (iris, iri_policy)):
            texts.update(_sweep_batch(sweep, by, texts))
        for triple in batch:
            yield _rebuild(triple, literals, iris)


def _sweep_batch(sweep: _SweepTexts, policy: JsonMapping, texts: Iterable[str]) -> dict[str, str]:
    given = list(texts)
    try:
        swept = sweep(policy, given)
    except RedactionError as error:
        if error.permanent:
            raise GraphRefusedError(f"what is to be published could not be swept for personal data: {error}") from error
        raise GraphUnavailableError("what is to be published could not be swept for personal data") from error
    return dict(zip(given, swept, strict=True))


def _collect(triple: "Triple | TripleStatement", literals: dict[str, str], iris: dict[str, str]) -> None:
    from pyoxigraph import Literal, NamedNode, Triple

    for term in (triple.subject, triple.object):
        if isinstance(term, Literal):
            literals[term.value] = term.value
        elif isinstance(term, NamedNode):
            iris[term.value] = term.value
        elif isinstance(term, Triple):
            _collect(term, literals, iris)


def _rebuild(triple: "Triple | TripleStatement", literals: Mapping[str, str], iris: Mapping[str, str]) -> "Triple":
    from pyoxigraph import Literal, NamedNode, Triple

    def term(one: Any) -> Any:
        if isinstance(one, Literal):
            swept = literals[one.value]
            # A replaced value of a type such as a date becomes plain text.
            return one if swept == one.value else Literal(swept, language=one.language)
        if isinstance(one, NamedNode):
            swept = iris[one.value]
            return one if swept == one.value else NamedNode(swept.replace("[", "%5B").replace("]", "%5D"))
        return _rebuild(one, literals, iris) if isinstance(one, Triple) else one

    return Triple(term(triple.subject), triple.predicate, term(triple.object))
