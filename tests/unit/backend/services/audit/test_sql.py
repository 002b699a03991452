"""A search of the audit trail is a range of one index, however many records there are."""

from itertools import combinations

import pytest

from backend.services.audit import sql
from tests.support.plans import plans_of

INDEXES = {
    "target": "ix_audit_records_of_target (target=? AND ",
    "actor": "ix_audit_records_of_actor (actor=? AND ",
    "action": "ix_audit_records_of_action (action=? AND ",
}
SETS = [given for number in range(5) for given in combinations(("target", "actor", "action", "text"), number)]


@pytest.mark.parametrize("given", SETS)
def test_every_search_is_a_range_of_the_index_of_its_leading_filter(given: tuple[str, ...]) -> None:
    filters = sql.Filters(**dict.fromkeys(given, "a"))
    plans = plans_of(lambda tx: sql.trail(tx, filters, since=0, before=sql.AuditPosition(9, ""), limit=2))
    index = next((INDEXES[name] for name in given if name in INDEXES), "ix_audit_records_newest (")
    # One for the records, and one for the bound of the search where no index serves all filters.
    assert len(plans) == (2 if given[1:] or given == ("text",) else 1)
    for plan in plans:
        [search] = [step for step in plan if " audit_records " in step]
        assert search.startswith("SEARCH audit_records USING ")
        assert f"INDEX {index}" in search
        assert not any("TEMP B-TREE" in step for step in plan)


@pytest.mark.parametrize(
    ("text", "pattern"), [("100%", "%100\\%%"), ("a_b", "%a\\_b%"), ("a\\b", "%a\\\\b%"), ("ü", "%ü%")]
)
def test_a_text_is_looked_for_as_it_is(text: str, pattern: str) -> None:
    assert sql.Filters(text=text).given()["text"] == pattern
