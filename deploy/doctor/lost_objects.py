"""Looks up every object of an output that the database names in the store: `workflow-api doctor --objects`."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import groupby, islice
from typing import Any, Final, NamedTuple

from backend.settings import ObjectSettings
from backend.storage.factory import DATABASE_FILE
from backend.storage.object_keys import result_row_key, run_prefix
from backend.storage.objects.bucket import BucketObjects
from backend.storage.objects.folder import sizes_below
from deploy.config.secret_references import resolve_database_url
from deploy.config.settings import Objects
from deploy.doctor.examination import ExaminedPart, Finding, failed, ok
from deploy.doctor.sqlite_file import open_read_only

SECONDS: Final = 5
"""Seconds for a connection to the database."""

_PAGE: Final = 2_000
_LISTED: Final = (
    "SELECT run_id, path, object_key, size_bytes FROM outputs "
    "WHERE (run_id, path) > ({0}, {0}) ORDER BY run_id, path LIMIT {0}"
)
"""The query of outputs, with the placeholder of the database's driver."""

_NAME: Final = "lost objects"
_THREADS: Final = 16
# Runs whose rows are in memory at a time.
_BATCH: Final = 256
_MOST_SHOWN: Final = 1_000
_REMEDY: Final = "Bring it back from a backup, or erase the run's data (docs/operators-guide.md, Backup)."


class OutputObject(NamedTuple):
    """Columns of an output's row about its object."""

    run_id: str
    path: str
    object_key: str
    size_bytes: int


def paged_outputs(examined: ExaminedPart) -> Iterator[OutputObject]:
    """Yields the outputs by run, read page by page: no transaction is open while the caller works on them.

    Raises as `output_rows`.
    """
    statement = _LISTED.format("?" if examined.settings.backend.database is None else "%s")
    after = ("", "")
    while page := [OutputObject(*row) for row in output_rows(examined, statement, (*after, _PAGE))]:
        yield from page
        after = page[-1][:2]


def output_rows(examined: ExaminedPart, statement: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of a query as they arrive; none if the embedded database does not exist yet.

    Raises:
        ImportError, SecretError, sqlite3.Error, psycopg.Error: the database cannot be read.
    """
    if examined.settings.backend.database is None:
        file = examined.data / DATABASE_FILE
        if file.exists():
            with closing(open_read_only(file)) as connection:
                yield from connection.execute(statement, values)
        return
    import psycopg

    url = resolve_database_url(examined.settings.backend.database, examined.environment)
    with psycopg.connect(url or "", connect_timeout=SECONDS) as connected:
        connected.read_only = True
        with connected.cursor(name="doctor") as cursor:
            cursor.execute(statement, values or None)
            yield from cursor


def check_lost_objects(examined: ExaminedPart) -> Iterator[Finding]:
    """Checks that every object exists with its size, by one listing a run; only if `every_object` asks for it."""
    if not examined.every_object:
        return
    looked_at, lost = 0, dict[str, str]()
    shown: dict[str, OutputObject] = {}
    for named, size in _stored_sizes(examined):
        looked_at += 1
        if size != named.size_bytes:
            lost[named.object_key] = "is not there" if size is None else f"has {size:,} bytes of {named.size_bytes:,}"
            if len(shown) < _MOST_SHOWN:
                shown[named.object_key] = named
    if lost:
        # An erasure may have removed objects meanwhile, rows first.
        lost = {named.object_key: lost[named.object_key] for named in _named(examined) if named.object_key in lost}
    for key, named in shown.items():
        if key in lost:
            yield failed(_NAME, f"{key}, which is {named.path} of run {named.run_id}, {lost[key]}.", _REMEDY)
    if len(lost) > _MOST_SHOWN:
        yield failed(_NAME, f"{len(lost) - _MOST_SHOWN:,} more objects are not there or of another size.", _REMEDY)
    if not lost:
        yield ok(_NAME, f"All {looked_at:,} objects of outputs are there in their sizes.")


def _stored_sizes(examined: ExaminedPart) -> Iterator[tuple[OutputObject, int | None]]:
    sizes = _listing(examined)
    runs = groupby(_named(examined), key=lambda named: named.run_id)
    with ThreadPoolExecutor(_THREADS) as threads:
        while batch := [(run_id, list(group)) for run_id, group in islice(runs, _BATCH)]:
            listings = threads.map(lambda run: sizes(run_prefix(run[0])), batch)
            for (_, group), stored in zip(batch, listings, strict=True):
                for named in group:
                    yield named, stored.get(named.object_key)


def _named(examined: ExaminedPart) -> Iterator[OutputObject]:
    # A small result is in its run's row.
    return (row for row in paged_outputs(examined) if row.object_key != result_row_key(row.run_id))


def _listing(examined: ExaminedPart) -> Callable[[str], dict[str, int]]:
    """Returns a function that lists the sizes of a run's objects, and changes nothing in the store."""
    settings = examined.settings.objects
    if settings.store == "folder":
        folder = settings.folder or examined.data / "objects"
        return lambda prefix: sizes_below(folder, prefix)
    return BucketObjects(ObjectSettings(**{name: getattr(settings, name) for name in Objects.__slots__})).sizes
