"""Finds objects that no row names, as killed processes leave them, and removes them: `doctor --objects`, `--repair`.

An object of a run is stored before the row that names it, so it counts only if it is an hour old, and if its run ended
or does not exist: no row will name it then. Objects of unfinished and unswept runs, and of uploads that have a row,
belong to them. Before an object is removed, store and rows are read again.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cache
from itertools import chain, groupby, islice
from typing import Any, Final

from backend.common.ids import new_id
from backend.settings import ObjectSettings
from backend.storage.dialects.sqlite.database_file import BUSY_MS
from backend.storage.factory import DATABASE_FILE
from backend.storage.object_keys import OWNERS, is_output_key, is_shared_file_key, run_of
from backend.storage.objects.bucket import BucketObjects
from backend.storage.objects.folder import FolderObjects, listed_below
from backend.storage.objects.interface import ListedObject
from deploy.client.backend import os_user
from deploy.config.secret_references import resolve_database_url
from deploy.config.settings import Objects
from deploy.doctor.examination import ExaminedPart, Finding, failed, not_applicable, ok, warning
from deploy.doctor.lost_objects import SECONDS, output_rows

ACTION: Final = "objects.removed"
"""Action of the audit record of a removal."""

_NAME: Final = "unnamed objects"
_OLD_SECONDS: Final = 3_600
# Owners of objects whose rows are read at a time.
_BATCH: Final = 256
_MOST_SHOWN: Final = 1_000
_ADD_RECORD: Final = "INSERT INTO audit_records (audit_id, at, actor, action, target, details) VALUES ({})"


_Listing = Callable[[str], Iterator[ListedObject]]


def check_unnamed_objects(examined: ExaminedPart) -> Iterator[Finding]:
    """Lists the objects that no row names if `every_object` asks for it, and removes them if `repair` does."""
    if not examined.every_object:
        return
    deployment = next(output_rows(examined, "SELECT deployment_id FROM deployments"), None)
    if deployment is None:
        yield not_applicable(_NAME, "There is no deployment yet whose rows could name objects.")
        return
    listing, removal = _store(examined)
    unnamed = {each.key: each.size_bytes for each in _unnamed(examined, chain.from_iterable(map(listing, OWNERS)))}
    if not unnamed:
        yield ok(_NAME, "Rows name all objects that are older than an hour.")
        return
    for key, size in islice(unnamed.items(), _MOST_SHOWN):
        yield warning(_NAME, f"{key} has {size:,} bytes, and no row names it.", "")
    said = f"{len(unnamed):,} objects of {sum(unnamed.values()):,} bytes in all"
    if not examined.repair:
        yield warning(_NAME, f"No row names {said}.", "`--repair --yes` removes them.")
        return
    # Before the removal, so that none is without its record.
    details = json.dumps({"objects": len(unnamed), "bytes": sum(unnamed.values())})
    at = time.time_ns() // 1_000_000
    _record(examined, [new_id("aud"), at, os_user(), ACTION, deployment[0], details])
    removed = removed_bytes = 0
    owners = dict.fromkeys(map(_owner, unnamed))
    for each in _unnamed(examined, chain.from_iterable(map(listing, owners))):
        if each.key in unnamed:
            try:
                removal(each.key)
            except OSError as error:
                yield failed(_NAME, f"{each.key} could not be removed: {error}.", "Look at the rights on the objects.")
            else:
                removed, removed_bytes = removed + 1, removed_bytes + each.size_bytes
    yield ok(_NAME, f"Removed {removed:,} {'object' if removed == 1 else 'objects'} of {removed_bytes:,} bytes.")


def _owner(key: str) -> str:
    """Returns the prefix of the run's or upload's objects."""
    return "/".join([*key.split("/")[:2], ""])


def _unnamed(examined: ExaminedPart, listed: Iterable[ListedObject]) -> Iterator[ListedObject]:
    """Yields the old objects that no row names; listed ones must be in the order of their owners."""
    before = time.time() - _OLD_SECONDS
    old = (each for each in listed if each.written_at < before)
    owners = groupby(old, key=lambda each: _owner(each.key))
    while batch := [(owner, list(group)) for owner, group in islice(owners, _BATCH)]:
        of_runs = [owner.split("/")[1] for owner, _ in batch if owner.startswith(OWNERS[0])]
        of_uploads = [owner.split("/")[1] for owner, _ in batch if owner.startswith(OWNERS[1])]
        # States first: a run that has ended gets no more rows of objects.
        ended, unended = _runs(examined, of_runs)
        skipped = unended | {upload for (upload,) in _rows(examined, "SELECT upload_id FROM uploads", of_uploads)}
        named = _named(examined, sorted(ended))
        for each in chain.from_iterable(group for _, group in batch):
            owner = run_of(each.key)
            if owner in skipped or each.key in named:
                continue
            # Others, as logs and reviews, go with the run's data.
            if owner not in ended or is_output_key(each.key) or is_shared_file_key(each.key):
                yield each


def _runs(examined: ExaminedPart, run_ids: Sequence[str]) -> tuple[set[str], set[str]]:
    """Returns the runs that ended and have data, and those that still may store objects."""
    ended, unended = set(), set()
    columns = "run_id, finished_at, redaction_state, data_purged_at"
    for run_id, finished_at, redaction, purged_at in _rows(examined, f"SELECT {columns} FROM runs", run_ids):  # noqa: S608 - ours
        if finished_at is None or (redaction == "pending" and purged_at is None):
            unended.add(run_id)
        elif purged_at is None:
            ended.add(run_id)
    return ended, unended


def _named(examined: ExaminedPart, run_ids: Sequence[str]) -> set[str]:
    outputs = _rows(examined, "SELECT object_key FROM outputs", run_ids)
    return {key for (key,) in chain(outputs, _rows(examined, "SELECT object_key FROM shared_files", run_ids))}


def _rows(examined: ExaminedPart, select: str, ids: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of runs or of uploads."""
    if not ids:
        return iter(())
    column = "upload_id" if select.endswith("uploads") else "run_id"
    marks = ", ".join([_mark(examined)] * len(ids))
    return output_rows(examined, f"{select} WHERE {column} IN ({marks})", tuple(ids))


def _mark(examined: ExaminedPart) -> str:
    return "?" if examined.settings.backend.database is None else "%s"


def _record(examined: ExaminedPart, values: Sequence[object]) -> None:
    statement = _ADD_RECORD.format(", ".join([_mark(examined)] * len(values)))
    if examined.settings.backend.database is None:
        file = examined.data / DATABASE_FILE
        with closing(sqlite3.connect(file, isolation_level=None, timeout=BUSY_MS / 1000)) as embedded:
            embedded.execute(statement, values)
        return
    import psycopg

    url = resolve_database_url(examined.settings.backend.database, examined.environment)
    with psycopg.connect(url or "", connect_timeout=SECONDS) as connected:
        connected.execute(statement, values)


def _store(examined: ExaminedPart) -> tuple[_Listing, Callable[[str], None]]:
    """Returns functions that list the objects below a prefix, and remove one by its key."""
    settings = examined.settings.objects
    if settings.store == "s3":
        bucket = BucketObjects(ObjectSettings(**{name: getattr(settings, name) for name in Objects.__slots__}))
        return bucket.listed_below, bucket.delete
    folder = settings.folder or examined.data / "objects"
    # The object is made at the first removal, for it changes the folder. The service may be storing objects now.
    objects = cache(lambda: FolderObjects(folder, shared=True))
    return lambda prefix: listed_below(folder, prefix), lambda key: objects().delete(key)
