"""SQL of the tries to sign in that have not succeeded, by the SHA-256 of the name that was tried."""

from typing import Any, Final

from sqlalchemy import bindparam, delete, func, insert, select, update

from backend.storage.database import Tx
from backend.storage.statements import sql
from backend.storage.tables.users import sign_in_tries

NOBODY: Final = ""
"""In place of a SHA-256, the one row that counts tries with names that nobody bears, for the audit trail."""

MOST_NAMES: Final = 10_000
"""To make a name forgotten, a stranger must try so many others: more hashes than fit into the minute that it waits."""

_COLUMNS = [column.name for column in sign_in_tries.columns]

_GET = sql(select(sign_in_tries).where(sign_in_tries.c.name_sha256 == bindparam("name_sha256")))
_INSERT = sql(insert(sign_in_tries), _COLUMNS)
_EDIT = sql(
    update(sign_in_tries)
    .where(sign_in_tries.c.name_sha256 == bindparam("of_name_sha256"))
    .values({name: bindparam(f"new_{name}") for name in _COLUMNS if name != "name_sha256"})
)
_DELETE = sql(delete(sign_in_tries).where(sign_in_tries.c.name_sha256 == bindparam("name_sha256")))
_COUNT = sql(select(func.count().label("names")).select_from(sign_in_tries))
# Those that wait now come last.
_OLDEST = (
    select(sign_in_tries.c.name_sha256)
    .where(sign_in_tries.c.name_sha256 != bindparam("but"))
    .order_by(sign_in_tries.c.waits_until > bindparam("now"), sign_in_tries.c.last_at)
    .limit(bindparam("most"))
)
_DELETE_OLDEST = sql(delete(sign_in_tries).where(sign_in_tries.c.name_sha256.in_(_OLDEST)))


def get(tx: Tx, name_sha256: str) -> Any:
    """What is known of a name's tries, or None."""
    return tx.one(_GET, name_sha256=name_sha256)


def put(tx: Tx, name_sha256: str, *, tries: int, last_at: int, waits_until: int, audited_at: int) -> None:
    """Writes what is known of a name's tries; what was longest not tried gives way where there are too many."""
    values = {"tries": tries, "last_at": last_at, "waits_until": waits_until, "audited_at": audited_at}
    if tx.run(_EDIT, of_name_sha256=name_sha256, **{f"new_{name}": value for name, value in values.items()}):
        return
    surplus = tx.one(_COUNT).names + 1 - MOST_NAMES
    if surplus > 0:
        tx.later(_DELETE_OLDEST, but=NOBODY, now=last_at, most=surplus)
    tx.later(_INSERT, name_sha256=name_sha256, **values)


def forget(tx: Tx, name_sha256: str) -> None:
    """Removes what is known of a name's tries."""
    tx.later(_DELETE, name_sha256=name_sha256)
