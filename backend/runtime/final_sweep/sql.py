"""SQL of the final sweep: finds the runs and objects to process, and writes swept outputs, results and removals."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from sqlalchemy import BindParameter, Text, bindparam, delete, exists, func, insert, literal_column, select, update

from backend.storage.database import Tx
from backend.storage.object_keys import is_unnamed_outputs_key, run_of, unnamed_outputs_key
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.files import outputs, pending_deletions, shared_files
from backend.storage.tables.runs import runs
from backend.storage.tables.segments import steps


class UnsweptRunRow(NamedTuple):
    """A run that waits for its final sweep, with its key."""

    run_id: str
    key_id: str


class SweptRunRow(NamedTuple):
    """The columns of a run that its sweep reads or may change."""

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


_RUN: Final[BindParameter[str]] = bindparam("of_run_id")
# The condition of the partial index.
_UNSWEPT: Final = runs.c.redaction_state == literal_column("'pending'")
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
            "outputs_count": select(func.count() - bindparam("withheld"))
            .where(outputs.c.run_id == _RUN)
            .scalar_subquery(),
        }
    )
)
_ADD_REMOVAL = Command(insert(pending_deletions), ["object_key"])
_REMOVALS = ScalarQuery[str](select(pending_deletions.c.object_key))
_IS_SWEPT = ScalarQuery[str](
    select(runs.c.run_id).where(
        runs.c.run_id == _RUN, runs.c.redaction_state == literal_column("'done'"), runs.c.data_purged_at.is_(None)
    )
)
_SWEEPS_PREFIX: Final = bindparam("prefix", type_=Text)
_SWEEPS = ScalarQuery[str](
    select(pending_deletions.c.object_key).where(
        func.substr(pending_deletions.c.object_key, 1, func.length(_SWEEPS_PREFIX)) == _SWEEPS_PREFIX
    )
)
_HAS_REMOVAL = ScalarQuery[str](
    select(pending_deletions.c.object_key).where(pending_deletions.c.object_key == bindparam("of_object_key"))
)
_FORGET_REMOVAL = Command(delete(pending_deletions).where(pending_deletions.c.object_key == bindparam("of_object_key")))
_FORGET_SHARED = Command(delete(shared_files).where(shared_files.c.run_id == _RUN))


def pending_work(tx: Tx) -> tuple[dict[str, str], list[str]]:
    """Returns the finished runs that wait for their sweep, oldest first, with their keys; and objects to be removed.

    To be called in one snapshot, so that no waiting run loses objects that its sweep has not named yet.
    """
    still = {row.run_id: row.key_id for row in tx.all(_WAITING)}
    return still, [key for key in tx.scalars(_REMOVALS) if run_of(key) not in still]


def run(tx: Tx, run_id: str) -> SweptRunRow | None:
    """Returns a run that waits for its sweep, or None."""
    return tx.first(_RUN_ROW, of_run_id=run_id)


def finish(
    tx: Tx,
    row: SweptRunRow,
    sweep_id: str | None,
    changed: Collection[Mapping[str, object]],
    withheld: Collection[str],
    originals: Iterable[str],
    **columns: object,
) -> bool:
    """Replaces a run's outputs by the swept ones and opens them.

    Changes nothing and returns False if the run was erased or swept meanwhile, or if another sweep began after
    `sweep_id`; None stands for a sweep that stores nothing.

    `changed` has the output_id and new columns of outputs, `withheld` ids of outputs that nobody may see, `originals`
    objects to be removed; columns that are not given stay.
    """
    if sweep_id is not None and not tx.exists(_HAS_REMOVAL, of_object_key=unnamed_outputs_key(row.run_id, sweep_id)):
        return False
    values = row._asdict() | columns
    given = {f"new_{name}": values[name] for name in _COLUMNS}
    if tx.run(_FINISH, of_run_id=row.run_id, withheld=len(withheld), **given) != 1:
        return False
    # The unswept result must not stay readable in the database's files.
    tx.purges_deleted_content = True
    tx.many(
        _CHANGE_OUTPUT,
        [
            {"of_output_id": output["output_id"]}
            | {f"new_{name}": value for name, value in output.items() if name != "output_id"}
            for output in changed
        ],
    )
    tx.many(_WITHHOLD, [{"of_output_id": output_id} for output_id in withheld])
    tx.announce(row.run_id)
    tx.many(_ADD_REMOVAL, [{"object_key": key} for key in originals])
    return True


def begin(tx: Tx, run_id: str, sweep_id: str) -> list[str] | None:
    """Begins a sweep that stores objects; returns the ids of earlier sweeps, which can open nothing any more.

    Requests the removal of the objects that no row will name in the end. Returns None, without a change, if the run
    does not wait for a sweep.
    """
    if run(tx, run_id) is None:
        return None
    prefix = unnamed_outputs_key(run_id, "")
    earlier = tx.scalars(_SWEEPS, prefix=prefix)
    _forget_removals(tx, earlier)
    tx.enqueue(_ADD_REMOVAL, object_key=prefix + sweep_id)
    return [key.removeprefix(prefix) for key in earlier]


def request_removal_of_unnamed(tx: Tx, run_id: str, asked_by: str) -> None:
    """Requests the removal of outputs that no row of a swept or erased run names, because some may be stored late."""
    key = unnamed_outputs_key(run_id, asked_by)
    _forget_removals(tx, [key])
    tx.enqueue(_ADD_REMOVAL, object_key=key)


def is_swept(tx: Tx, run_id: str) -> bool:
    """Returns whether a run was swept and is not erased."""
    return tx.exists(_IS_SWEPT, of_run_id=run_id)


def removed(tx: Tx, keys: Iterable[str]) -> None:
    """Records that objects were removed, and deletes the rows of shared files among them."""
    keys = list(keys)
    runs_cleared = {run_of(key) for key in keys if is_unnamed_outputs_key(key)}
    if runs_cleared:
        tx.purges_deleted_content = True
        tx.many(_FORGET_SHARED, [{"of_run_id": run_id} for run_id in runs_cleared])
    _forget_removals(tx, keys)


def _forget_removals(tx: Tx, keys: Iterable[str]) -> None:
    """Removes the requests to remove objects."""
    tx.many(_FORGET_REMOVAL, [{"of_object_key": key} for key in keys])
