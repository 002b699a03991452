"""SQL of failed sign-ins, counted by subject; see `rules` for the subjects."""

from typing import Final

from sqlalchemy import bindparam, delete, func, insert, select, update

from backend.services.users import rules
from backend.storage.database import Tx
from backend.storage.sql_expressions import Purge
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.users import TriesRow, sign_in_tries

MAX_SUBJECTS: Final = 10_000
"""Most stored subjects: too many for an attacker to evict a waiting subject by tries under other names."""

_COLUMNS = [column.key for column in sign_in_tries.columns]

_GET = Query(
    TriesRow, select_row(TriesRow, sign_in_tries).where(sign_in_tries.c.subject_sha256 == bindparam("subject_sha256"))
)
_INSERT = Command(insert(sign_in_tries), _COLUMNS)
_EDIT = Command(
    update(sign_in_tries)
    .where(sign_in_tries.c.subject_sha256 == bindparam("of_subject_sha256"))
    .values({name: bindparam(f"new_{name}") for name in _COLUMNS if name != "subject_sha256"})
)
_DELETE = Command(delete(sign_in_tries).where(sign_in_tries.c.subject_sha256 == bindparam("subject_sha256")))
_COUNT = ScalarQuery[int](select(func.count()).select_from(sign_in_tries))
# Subjects that wait now are evicted last.
_OLDEST = (
    select(sign_in_tries.c.subject_sha256)
    .where(sign_in_tries.c.subject_sha256 != bindparam("but"))
    .order_by(sign_in_tries.c.waits_until > bindparam("now"), sign_in_tries.c.last_at)
    .limit(bindparam("most"))
)
_DELETE_OLDEST = Command(delete(sign_in_tries).where(sign_in_tries.c.subject_sha256.in_(_OLDEST)))

purge = Purge(sign_in_tries, sign_in_tries.c.last_at)


def get(tx: Tx, subject_sha256: str) -> TriesRow | None:
    """Returns the tries of a subject, or None."""
    return tx.first(_GET, subject_sha256=subject_sha256)


def put(tx: Tx, subject_sha256: str, *, tries: int, last_at: int, waits_until: int, audited_at: int) -> None:
    """Writes a subject's tries, and evicts the least recently tried subjects above the limit."""
    values = {"tries": tries, "last_at": last_at, "waits_until": waits_until, "audited_at": audited_at}
    if tx.run(_EDIT, of_subject_sha256=subject_sha256, **{f"new_{name}": value for name, value in values.items()}):
        return
    surplus = tx.scalar_one(_COUNT) + 1 - MAX_SUBJECTS
    if surplus > 0:
        tx.enqueue(_DELETE_OLDEST, but=rules.UNKNOWN_NAMES, now=last_at, most=surplus)
    tx.enqueue(_INSERT, subject_sha256=subject_sha256, **values)


def forget(tx: Tx, subject_sha256: str) -> None:
    """Removes a subject's tries."""
    tx.enqueue(_DELETE, subject_sha256=subject_sha256)
