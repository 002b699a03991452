"""What starts of each key met last: by it the next one is judged before the database is asked."""

import threading
from collections import OrderedDict
from typing import Final

from backend.runs.start.admission import with_one_left
from backend.runs.start.sql import FactsRow

_MOST: Final = 10_000


class OptimisticStart:
    """Facts by key; those met last stay, of up to `most` keys. Only the database knows whether they still hold."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._met: OrderedDict[str, FactsRow] = OrderedDict()

    def met(self, key_id: str, facts: FactsRow) -> None:
        """Keeps the row of `sql.facts` that a start of the key met."""
        with self._lock:
            self._met.pop(key_id, None)
            self._met[key_id] = facts
            if len(self._met) > self._most:
                self._met.popitem(last=False)

    def of(self, key_id: str) -> FactsRow | None:
        """The facts under which the next start may just be admitted; None where that is not to be expected."""
        met = self._met.get(key_id)
        if met is None or met.key_id is None:
            return None
        facts = with_one_left(met)
        full = met.active_runs > facts.active_runs or (met.runs_started or 0) > (facts.runs_started or 0)
        return None if full else facts
