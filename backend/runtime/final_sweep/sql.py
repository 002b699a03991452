"""SQL of the final sweep: which runs wait for it, and what it writes."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from sqlalchemy import BindParameter, and_, bindparam, delete, exists, func, insert, literal_column, select, update

from backend.storage.database import Tx
from backend.storage.object_keys import run_of, unnamed_outputs_key
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.outputs import outputs, pending_deletions
from backend.storage.tables.runs import runs
from backend.storage.tables.segments import steps


class UnsweptRunRow(NamedTuple):
    """A run that waits for its final sweep, with its key."""

    run_id: str
    key_id: str


class SweptRunRow(NamedTuple):
    """A run that is being swept: what the sweep needs of it, and the columns that it may change."""

    run_id: str
    key_id: str
    pii_policy: str
    result_error_code: str | None
    error_message: str | None
    warnings: str
    result: str | None
    result_output_id: str | None
    result_size_bytes: int | None
    result_sha256: str | None
    result_error_message: str | None
    summary_markdown: str | None
    pii_redaction: str
    began: int


class SweptOutputRow(NamedTuple):
    """The object of an output of a swept run; None, in the only row, where it has no output."""

    object_key: str | None


_RUN: Final[BindParameter[str]] = bindparam("of_run_id")
# The condition of the partial index.
_UNSWEPT: Final = runs.c.redaction_state == literal_column("'pending'")
_SWEPT: Final = and_(runs.c.redaction_state == literal_column("'done'"), runs.c.data_purged_at.is_(None))
_COLUMNS: Final = (
    "error_message",
    "warnings",
    "result",
    "result_output_id",
    "result_size_bytes",
    "result_sha256",
    "result_error_message",
    "summary_markdown",
    "pii_redaction",
)

_WAITING = Query(
    UnsweptRunRow,
    select_row(UnsweptRunRow, runs)
    .where(_UNSWEPT, runs.c.finished_at.is_not(None), runs.c.data_purged_at.is_(None))
    .order_by(runs.c.finished_at)
    .with_hint(runs, "INDEXED BY ix_runs_unswept", "sqlite"),
)
_RUN_ROW = Query(
    SweptRunRow,
    select_row(SweptRunRow, runs, began=exists().where(steps.c.run_id == _RUN, steps.c.attempt > 0)).where(
        runs.c.run_id == _RUN, _UNSWEPT
    ),
)
_CHANGE_OUTPUT = Command(
    update(outputs)
    .where(outputs.c.output_id == bindparam("of_output_id"))
    .values({name: bindparam(f"new_{name}") for name in ("path", "size_bytes", "sha256", "crc32", "object_key")})
)
_WITHHOLD = Command(delete(outputs).where(outputs.c.output_id == bindparam("of_output_id")))
_FINISH = Command(
    update(runs)
    .where(runs.c.run_id == _RUN, _UNSWEPT, runs.c.data_purged_at.is_(None))
    .values(
        {name: bindparam(f"new_{name}") for name in _COLUMNS}
        | {
            "redaction_state": "done",
            "outputs_count": select(func.count()).where(outputs.c.run_id == _RUN).scalar_subquery(),
        }
    )
)
_ADD_DELETION = Command(insert(pending_deletions), ["object_key"])
_DELETIONS = ScalarQuery[str](select(pending_deletions.c.object_key))
_OUTPUTS_OF_SWEPT = Query(
    SweptOutputRow,
    select_row(SweptOutputRow, outputs)
    .select_from(runs.outerjoin(outputs, outputs.c.run_id == runs.c.run_id))
    .where(runs.c.run_id == _RUN, _SWEPT),
)
_DELETED = Command(delete(pending_deletions).where(pending_deletions.c.object_key == bindparam("of_object_key")))


def to_do(tx: Tx) -> tuple[dict[str, str], list[str]]:
    """Returns the finished runs that wait for their sweep, oldest first, with their keys; and objects to be removed.

    Both of one snapshot: what was announced for a run that waits will be stored again, or get its name.
    """
    still = {row.run_id: row.key_id for row in tx.all(_WAITING)}
    return still, [key for key in tx.scalars(_DELETIONS) if run_of(key) not in still]


def run(tx: Tx, run_id: str) -> SweptRunRow | None:
    """Returns a run that waits for its sweep, or None."""
    return tx.first(_RUN_ROW, of_run_id=run_id)


def finish(
    tx: Tx,
    row: SweptRunRow,
    changed: Iterable[Mapping[str, object]],
    withheld: Iterable[str],
    originals: Iterable[str],
    **columns: object,
) -> bool:
    """Replaces a run's outputs by the swept ones and opens them; False, and no change, if the run was erased meanwhile.

    `changed` are outputs with output_id and what is new of them, `withheld` the ids of those that nobody may see,
    `originals` the objects that are to be removed; columns that are not given stay.
    """
    # The unswept result must not stay readable in the database's files.
    tx.leaves_no_trace = True
    changed = list(changed)
    tx.many(
        _CHANGE_OUTPUT,
        [
            {"of_output_id": output["output_id"]}
            | {f"new_{name}": value for name, value in output.items() if name != "output_id"}
            for output in changed
        ],
    )
    tx.many(_WITHHOLD, [{"of_output_id": output_id} for output_id in withheld])
    values = row._asdict() | columns
    if tx.run(_FINISH, of_run_id=row.run_id, **{f"new_{name}": values[name] for name in _COLUMNS}) != 1:
        return False
    tx.announce(row.run_id)
    tx.many(_DELETED, [{"of_object_key": output["object_key"]} for output in changed])
    tx.many(_ADD_DELETION, [{"object_key": key} for key in originals])
    return True


def announce(tx: Tx, keys: Collection[str]) -> None:
    """Requests the removal of objects that are about to be stored, which `finish` withdraws for those that it names."""
    deleted(tx, keys)
    tx.many(_ADD_DELETION, [{"object_key": key} for key in keys])


def announce_unnamed_again(tx: Tx, run_id: str, asked_by: str) -> bool:
    """Requests once more the removal of outputs that no row names, as some may have been stored since.

    Returns False, without a change, if the run is not swept.
    """
    swept = swept_outputs(tx, run_id) is not None
    if swept:
        announce(tx, [unnamed_outputs_key(run_id, asked_by)])
    return swept


def swept_outputs(tx: Tx, run_id: str) -> set[str] | None:
    """Returns the objects of a swept run's outputs, to which none is ever added; None for a run that is not swept."""
    rows = tx.all(_OUTPUTS_OF_SWEPT, of_run_id=run_id)
    return {row.object_key for row in rows if row.object_key is not None} if rows else None


def deleted(tx: Tx, keys: Iterable[str]) -> None:
    """Withdraws the removal of objects, or records that they are removed."""
    tx.many(_DELETED, [{"of_object_key": key} for key in keys])
