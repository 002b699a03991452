"""Hot statements are served by their indexes, whatever else is in the tables."""

from contextlib import suppress

from backend.services.runs.start import sql
from backend.storage.database import Tx
from tests.support.plans import plans_of


def test_the_facts_of_a_start_are_points_and_a_count_over_runs_in_flight() -> None:
    def facts(tx: Tx) -> None:
        # An empty database has no deployment.
        with suppress(LookupError):
            sql.facts(tx, "ak_1", "idem", 1)

    [steps] = plans_of(facts)
    assert any("COVERING INDEX ix_runs_in_flight (key_id=? AND status=?)" in step for step in steps)
    one_row = ("SCAN deployments", "SCAN resource_revision")
    assert [step for step in steps if "SCAN" in step and step not in one_row] == []
