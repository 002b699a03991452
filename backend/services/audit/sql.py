"""SQL of the audit trail: actor, action and target of each change, kept for 400 days (contract 27.4, 22.10).

Every read is a range of one index in the order of the trail. The index begins with one filter; records of a bounded
part of the range are compared with the other filters.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Text, Tuple, bindparam, insert, literal_column, or_, tuple_

from backend.common.clock import DAY_MS
from backend.common.ids import new_id
from backend.storage.database import Tx
from backend.storage.retention import RowRetention
from backend.storage.sql_expressions import Purge, containing
from backend.storage.statements import Command, Query, RowSelect, select_row
from backend.storage.tables.deployment import AuditRow, audit_records

MOST_EXAMINED: Final = 10_000
"""Most records examined for one page of filters that no index serves together."""

_INSERT = Command(insert(audit_records), [column.name for column in audit_records.columns])

_INDEXES: Final = {
    "target": "ix_audit_records_of_target",
    "actor": "ix_audit_records_of_actor",
    "action": "ix_audit_records_of_action",
    "": "ix_audit_records_newest",
}
"""The index of each filter, the most selective first; the last is for no filter."""

_TEXT: Final = "text"
_POSITION: Final = tuple_(audit_records.c.at, audit_records.c.audit_id)


class AuditPosition(NamedTuple):
    """Position of a record in the order of the trail."""

    at: int
    audit_id: str


class Filters(NamedTuple):
    """Filters of audit records; None or empty means no filter."""

    target: str | None = None
    actor: str | None = None
    action: str | None = None
    text: str = ""

    def given(self) -> dict[str, str]:
        """Returns the parameters of the filters that are given."""
        equal = {"target": self.target, "actor": self.actor, "action": self.action}
        found = {name: value for name, value in equal.items() if value is not None}
        if self.text:
            # Details are JSON, so the text is escaped as in JSON.
            found |= {_TEXT: containing(self.text), "escaped": containing(json.dumps(self.text)[1:-1])}
        return found


def _range(row: type[NamedTuple], leading: str, *others: ColumnElement[bool]) -> RowSelect:
    """Makes a query for a range of an index, newest first."""
    query = select_row(row, audit_records).where(_bound("upper") > _POSITION, _bound("lower") <= _POSITION, *others)
    if leading:
        query = query.where(audit_records.c[leading] == bindparam(leading, type_=Text))
    ordered = query.order_by(audit_records.c.at.desc(), audit_records.c.audit_id.desc())
    return ordered.with_hint(audit_records, f"INDEXED BY {_INDEXES[leading]}", "sqlite")


def _bound(which: str) -> Tuple:
    return tuple_(bindparam(f"{which}_at", type_=BigInteger), bindparam(f"{which}_id", type_=Text))


def _search_query(leading: str, others: frozenset[str]) -> Query[AuditRow]:
    """Makes a query for the newest records in the range of an index that pass the other filters."""
    columns = audit_records.c
    conditions = [columns[name] == bindparam(name, type_=Text) for name in sorted(others - {_TEXT})]
    if _TEXT in others:
        plain = [columns[name].ilike(bindparam(_TEXT), escape="\\") for name in ("actor", "action", "target")]
        conditions.append(or_(*plain, columns.details.ilike(bindparam("escaped"), escape="\\")))
    return Query(AuditRow, _range(AuditRow, leading, *conditions).limit(bindparam("limit")))


def _last_examined_query(leading: str) -> Query[AuditPosition]:
    last: ColumnElement[int] = literal_column(str(MOST_EXAMINED - 1))
    return Query(AuditPosition, _range(AuditPosition, leading).limit(literal_column("1")).offset(last))


def _index_and_filters() -> Iterator[tuple[str, frozenset[str]]]:
    """Yields each filter that an index may begin with, with each set of other filters."""
    names = list(_INDEXES)
    for place, leading in enumerate(names):
        following = [name for name in names[place + 1 :] if name] + [_TEXT] if leading else [_TEXT]
        for number in range(len(following) + 1):
            yield from ((leading, frozenset(others)) for others in combinations(following, number))


_SEARCHES: Final = {combined: _search_query(*combined) for combined in _index_and_filters()}
_LAST_EXAMINED: Final = {leading: _last_examined_query(leading) for leading in _INDEXES}

purge = Purge(audit_records, audit_records.c.at)


def record(
    tx: Tx, *, at: int, actor: str, action: str, target: str, details: Mapping[str, object] | None = None
) -> None:
    """Writes one audit record, in the transaction of the change that it records.

    `action` is a noun and a past participle, as `key.rotated`; `details` never hold a secret or content of a run.
    """
    tx.enqueue(
        _INSERT,
        audit_id=new_id("aud"),
        at=at,
        actor=actor,
        action=action,
        target=target,
        details=json.dumps(details or {}, separators=(",", ":"), sort_keys=True),
    )


def trail(
    tx: Tx, filters: Filters, *, since: int, before: AuditPosition, limit: int
) -> tuple[list[AuditRow], AuditPosition | None]:
    """Returns records from `since` on, newest first, after a position, and the position where the search stopped.

    That position is None unless the search stopped before it found as many records as asked for.
    """
    given = filters.given()
    leading = next((name for name in _INDEXES if name in given), "")
    others = frozenset(given) - {leading, "escaped"}
    window: dict[str, object] = {"upper_at": before.at, "upper_id": before.audit_id}
    lower, stopped = AuditPosition(since, ""), None
    if others:
        of_leading = {leading: given[leading]} if leading else {}
        stopped = tx.first(_LAST_EXAMINED[leading], **of_leading, **window, lower_at=since, lower_id="")
        lower = stopped or lower
    rows = tx.all(
        _SEARCHES[leading, others], limit=limit, **given, **window, lower_at=lower.at, lower_id=lower.audit_id
    )
    return rows, stopped if len(rows) < limit else None


RETENTION: Final = (RowRetention("audit_records", 400 * DAY_MS, purge),)
