"""SQL of outputs."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import bindparam, func, insert, select

from backend.storage.database import Tx
from backend.storage.statements import prepare
from backend.storage.tables.outputs import outputs
from backend.storage.tables.runs import runs

_ADD = prepare(insert(outputs), [column.name for column in outputs.columns])
_OF_RUN = outputs.c.run_id == bindparam("of_run_id")
_LIST = prepare(select(outputs).where(_OF_RUN).order_by(outputs.c.path))
_GET = prepare(select(outputs).where(_OF_RUN, outputs.c.output_id == bindparam("of_output_id")))
_TOTAL = prepare(
    select(func.count().label("files"), func.coalesce(func.sum(outputs.c.size_bytes), 0).label("size_bytes")).where(
        _OF_RUN
    )
)
_MANIFEST = select(runs.c.pii_redaction).where(runs.c.run_id == bindparam("of_run_id"))
_ANY_MANIFEST = prepare(_MANIFEST)
_MANIFEST_OF_KEY = prepare(_MANIFEST.where(runs.c.key_id == bindparam("of_key_id")))


@dataclass(frozen=True, slots=True)
class NewOutput:
    """An output whose bytes are durable under `object_key`.

    `path` is `<step>/<relative path>`; of `result.json` the step is None. `sha256` is in hexadecimal.
    """

    output_id: str
    run_id: str
    path: str
    step: str | None
    media_type: str
    size_bytes: int
    sha256: str
    object_key: str


def add_outputs(tx: Tx, new: Iterable[NewOutput], at: int) -> None:
    """Writes what a completed step left, with its completion; it is promoted when the run is closed."""
    tx.many(_ADD, [asdict(output) | {"created_at": at} for output in new])


def outputs_of(tx: Tx, run_id: str) -> list[Any]:
    """The outputs of a run by path."""
    return tx.all(_LIST, of_run_id=run_id)


def output(tx: Tx, run_id: str, output_id: str) -> Any:
    """One output of a run, or None."""
    return tx.one(_GET, of_run_id=run_id, of_output_id=output_id)


def total(tx: Tx, run_id: str) -> Any:
    """How many files a run has, and their bytes together."""
    return tx.one(_TOTAL, of_run_id=run_id)


def manifest(tx: Tx, run_id: str, key_id: str | None) -> Any:
    """A row with the redaction manifest of a run within the key's reach, or None; without a key every run is."""
    if key_id is None:
        return tx.one(_ANY_MANIFEST, of_run_id=run_id)
    return tx.one(_MANIFEST_OF_KEY, of_run_id=run_id, of_key_id=key_id)
