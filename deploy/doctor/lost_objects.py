"""Every object of an output that the database names, looked up in the store: `workflow-api doctor --objects`."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, islice
from typing import Final

from backend.settings import ObjectSettings
from backend.storage.object_keys import result_row_key, run_prefix
from backend.storage.objects.bucket import BucketObjects
from backend.storage.objects.folder import sizes_below
from deploy.config.settings import Objects
from deploy.doctor.check import Check, Examined, failed, ok
from deploy.doctor.output_rows import OutputRow, paged_outputs

_NAME: Final = "lost objects"
_THREADS: Final = 16
# Runs whose rows are in memory at a time.
_BATCH: Final = 256
_MOST_SHOWN: Final = 1_000
_REMEDY: Final = "Bring it back from a backup, or erase the run's data (docs/operators-guide.md, Backup)."


def check_lost_objects(examined: Examined) -> Iterator[Check]:
    """Checks that every object is there in its size, one listing a run; only where `every_object` asks for it."""
    if not examined.every_object:
        return
    looked_at, lost = 0, dict[str, str]()
    shown: dict[str, OutputRow] = {}
    for named, size in _stored_sizes(examined):
        looked_at += 1
        if size != named.size_bytes:
            lost[named.object_key] = "is not there" if size is None else f"has {size:,} bytes of {named.size_bytes:,}"
            if len(shown) < _MOST_SHOWN:
                shown[named.object_key] = named
    if lost:
        # An erasure may have removed some meanwhile, rows first.
        lost = {named.object_key: lost[named.object_key] for named in _named(examined) if named.object_key in lost}
    for key, named in shown.items():
        if key in lost:
            yield failed(_NAME, f"{key}, which is {named.path} of run {named.run_id}, {lost[key]}.", _REMEDY)
    if len(lost) > _MOST_SHOWN:
        yield failed(_NAME, f"{len(lost) - _MOST_SHOWN:,} more objects are not there or of another size.", _REMEDY)
    if not lost:
        yield ok(_NAME, f"All {looked_at:,} objects of outputs are there in their sizes.")


def _stored_sizes(examined: Examined) -> Iterator[tuple[OutputRow, int | None]]:
    sizes = _listing(examined)
    runs = groupby(_named(examined), key=lambda named: named.run_id)
    with ThreadPoolExecutor(_THREADS) as threads:
        while batch := [(run_id, list(group)) for run_id, group in islice(runs, _BATCH)]:
            listings = threads.map(lambda run: sizes(run_prefix(run[0])), batch)
            for (_, group), stored in zip(batch, listings, strict=True):
                for named in group:
                    yield named, stored.get(named.object_key)


def _named(examined: Examined) -> Iterator[OutputRow]:
    # A small result is in its run's row.
    return (row for row in paged_outputs(examined) if row.object_key != result_row_key(row.run_id))


def _listing(examined: Examined) -> Callable[[str], dict[str, int]]:
    """Returns what lists the sizes of the objects of a run, and changes nothing in the store."""
    settings = examined.settings.objects
    if settings.store == "folder":
        folder = settings.folder or examined.data / "objects"
        return lambda prefix: sizes_below(folder, prefix)
    return BucketObjects(ObjectSettings(**{name: getattr(settings, name) for name in Objects.__slots__})).sizes
