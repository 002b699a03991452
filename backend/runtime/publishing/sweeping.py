"""Triples as they may be published: swept for personal data where the run's policy redacts its outputs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from backend import json_text
from backend.graphs.graph import GraphUnavailableError
from backend.runtime.publishing import store
from backend.runtime.redaction_worker import RedactionError
from backend.runtime.redactor import Redactor
from backend.storage.database import Database
from backend.workflows.entity_types import ENTITY_TYPES

if TYPE_CHECKING:
    from pyoxigraph import Triple

Sweep = Callable[[str, "Iterator[Triple]"], "Iterator[Triple]"]
"""Gives a run's triples, by its id, as they may be published.

Raises:
    GraphUnavailableError: they cannot be swept now.
"""

_AT_ONCE: Final = 1_000
# An IRI is a URL by its nature, and vocabularies have dates in theirs.
_NOT_IN_IRIS: Final = frozenset({"URL", "DATE_TIME"})


def by_policy(database: Database, redactor: Redactor) -> Sweep:
    """Sweeps as each run's PII policy says: literals, and IRIs that are no predicates."""

    def sweep(run_id: str, triples: "Iterator[Triple]") -> "Iterator[Triple]":
        policy = json_text.parse(database.read(lambda tx: store.pii_policy(tx, run_id)))
        if policy["mode"] != "redact" or "outputs" not in policy["stages"]:
            return triples
        return _swept(redactor, policy, triples)

    return sweep


def _swept(redactor: Redactor, policy: Mapping[str, Any], triples: "Iterator[Triple]") -> "Iterator[Triple]":
    categories = ENTITY_TYPES if policy["categories"] == "all" else set(policy["categories"])
    of_iris = {**policy, "categories": sorted(categories - _NOT_IN_IRIS), "max_model_calls": 0}
    while batch := list(islice(triples, _AT_ONCE)):
        literals: dict[str, str] = {}
        iris: dict[str, str] = {}
        for triple in batch:
            _collect(triple, literals, iris)
        for texts, by in ((literals, policy), (iris, of_iris)):
            texts.update(_by_text(redactor, by, texts))
        for triple in batch:
            yield _rebuilt(triple, literals, iris)


def _by_text(redactor: Redactor, policy: Mapping[str, Any], texts: Iterable[str]) -> dict[str, str]:
    given = list(texts)
    try:
        swept, _ = redactor.values(policy, given)
    except RedactionError as error:
        raise GraphUnavailableError("what is to be published could not be swept for personal data") from error
    return dict(zip(given, swept, strict=True))


def _collect(triple: "Triple", literals: dict[str, str], iris: dict[str, str]) -> None:
    from pyoxigraph import Literal, NamedNode, Triple

    for term in (triple.subject, triple.object):
        if isinstance(term, Literal):
            literals[term.value] = term.value
        elif isinstance(term, NamedNode):
            iris[term.value] = term.value
        elif isinstance(term, Triple):
            _collect(term, literals, iris)


def _rebuilt(triple: "Triple", literals: Mapping[str, str], iris: Mapping[str, str]) -> "Triple":
    from pyoxigraph import Literal, NamedNode, Triple

    def term(one: Any) -> Any:
        if isinstance(one, Literal):
            swept = literals[one.value]
            # A value of a type, as a date, is only text once it was replaced.
            return one if swept == one.value else Literal(swept, language=one.language)
        if isinstance(one, NamedNode):
            swept = iris[one.value]
            return one if swept == one.value else NamedNode(swept.replace("[", "%5B").replace("]", "%5D"))
        return _rebuilt(one, literals, iris) if isinstance(one, Triple) else one

    return Triple(term(triple.subject), triple.predicate, term(triple.object))
