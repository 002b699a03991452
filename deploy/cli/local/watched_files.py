"""The files whose change is a reason to run a workflow again."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

from backend.workflows.manifests.attachments import attached_paths
from deploy.client.nearby_manifests import manifests_beside
from deploy.client.packing import files_below

_MOST: Final = 5_000


def watched_files(manifests: Sequence[Path], others: Iterable[Path]) -> Iterator[Path]:
    """Yields manifests, those beside them, and what all of these name: code, folders of code, requirements.

    Of `others`, which a command line names, folders stand for all files in them. There are at most 5,000.
    """
    beside = manifests_beside({path.resolve() for path in manifests})
    named = (path.parent / name for path in (*manifests, *beside) for name in _named_in(path))
    found = (file for path in (*manifests, *beside, *named, *others) for file in _files(path))
    yield from islice(dict.fromkeys(found), _MOST)


def _files(path: Path) -> Iterator[Path]:
    """Yields a file itself, also one that is missing, and of a folder its files, without what is never packed."""
    if path.is_dir():
        yield from (path / name for name in files_below(path))
    else:
        yield path


def _named_in(manifest: Path) -> Sequence[str]:
    try:
        state = manifest.stat()
        return _paths_of(manifest, state.st_mtime_ns, state.st_size)
    except (OSError, UnicodeDecodeError):
        return ()


@lru_cache(maxsize=256)
def _paths_of(manifest: Path, _modified: int, _size: int) -> tuple[str, ...]:
    return tuple(path for _, path in attached_paths(manifest.read_bytes().decode()))
