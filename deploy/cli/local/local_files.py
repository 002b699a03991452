"""Files of a local run: folders in the place of object storage, and files whose change runs the workflow again."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backend.services.workflows.manifests.attachments import attached_paths
from backend.services.workflows.manifests.variables import NO_VARIABLES, Variables, VariableValue, escape_variables
from deploy.cli.output.printing import Record
from deploy.cli.output.records import json_text
from deploy.client.nearby_manifests import manifests_in_folders_of
from deploy.client.packing import files_below
from deploy.failures import CommandError
from workflow_api.v1 import workflows_pb2

if TYPE_CHECKING:
    from deploy.serve.folder_storage import FolderStorage


_ACCESS_KEY: Final = "folders-of-this-run"
"""Name of the secret with which connectors read folders."""


class InputFolders:
    """The folders of `--input`, which the connectors of their parameters read as objects."""

    def __init__(self, folders: Mapping[str, Path], opened: ExitStack) -> None:
        self._folders = folders
        self._opened = opened
        self._prefixes: dict[str, Path] = {}
        self._storage: FolderStorage | None = None
        self._served = False
        self.assignments: list[str] = []
        """Values of the parameters, as `--param` gives them."""
        self.secrets: dict[str, str] = {}
        if folders:
            from deploy.serve.folder_storage import folder_storage

            # The prefixes are filled in once the workflow is known; the server reads them at each request.
            self._storage = opened.enter_context(folder_storage(self._prefixes))
            key = {
                "access_key_id": self._storage.access_key_id,
                "secret_access_key": self._storage.secret_access_key,
            }
            self.secrets = {_ACCESS_KEY: json.dumps(key)}

    def serve(self, declared: Sequence[Record], connectors: Mapping[str, Any], backend: Any) -> None:
        """Points the connectors of the folders' parameters at the folders; their allowed prefixes stay.

        Raises:
            CommandError: a folder is given for no `s3_prefix` parameter, or its connector is missing.
        """
        if self._storage is None:
            return
        of = {each["name"]: each for each in declared if each["type"] == "s3_prefix"}
        problems = []
        changed: dict[str, dict[str, Any]] = {}
        self.assignments.clear()
        for name, folder in self._folders.items():
            connector = connectors.get(of[name]["connector"]) if name in of else None
            if connector is None:
                allowed = ", ".join(of) or "none"
                reason = "has no connector" if name in of else f"must be an s3_prefix parameter, of {allowed}"
                problems.append({"name": f"--input {name}", "reason": reason})
                continue
            prefixes = connector.get("prefixes") or [""]
            place = f"{connector['bucket']}/{prefixes[0]}{name}/"
            self._prefixes[place] = folder.resolve()
            self.assignments.append(f"{name}=s3://{place}")
            changed[connector["name"]] = {
                **connector,
                "endpoint_url": self._storage.url,
                "secret": _ACCESS_KEY,
                "role_arn": None,
            }
        if problems:
            raise CommandError("A folder cannot be used.", code="invalid_request", details=problems)
        written = (escape_variables(each) for each in changed.values())
        content = "\n---\n".join(json_text(each, indented=False, encoding="utf-8") for each in written)
        file = workflows_pb2.ManifestFile(name="--input", content=content)
        backend.call(backend.workflows.ApplyManifests, workflows_pb2.ApplyManifestsRequest(files=[file]))


_MOST: Final = 5_000

_SECONDS: Final = 0.2

State = dict[Path, tuple[int, int]]


def watched_files(
    manifests: Sequence[Path], others: Iterable[Path], variables: Variables = NO_VARIABLES
) -> Iterator[Path]:
    """Yields manifests, the other manifests in their folders, and the files that all of these name.

    The named files are code, folders of code, and requirements. Folders among `others`, which a command line names,
    stand for all files in them. There are at most 5,000.
    """
    neighbours = manifests_in_folders_of({path.resolve() for path in manifests})
    named = (path.parent / name for path in (*manifests, *neighbours) for name in _named_in(path, variables))
    found = (file for path in (*manifests, *neighbours, *named, *others) for file in _files(path))
    yield from islice(dict.fromkeys(found), _MOST)


def changed_files(files: Callable[[], Iterable[Path]], seconds: float = _SECONDS) -> Iterator[State]:
    """Yields the state of files now, and after each change, which includes files that appear or vanish."""
    seen: State | None = None
    while True:
        state = _state(files())
        if state != seen:
            seen = state
            yield state
        else:
            time.sleep(seconds)


def _files(path: Path) -> Iterator[Path]:
    """Yields a file itself, even a missing one, or the files of a folder that are packed."""
    if path.is_dir():
        yield from (path / name for name in files_below(path))
    else:
        yield path


def _named_in(manifest: Path, variables: Variables) -> Sequence[str]:
    try:
        state = manifest.stat()
        return _paths_of(manifest, state.st_mtime_ns, state.st_size, tuple(sorted(variables.items())))
    except (OSError, UnicodeDecodeError):
        return ()


@lru_cache(maxsize=256)
def _paths_of(
    manifest: Path, _modified: int, _size: int, variables: tuple[tuple[str, VariableValue], ...]
) -> tuple[str, ...]:
    return tuple(path for _, path in attached_paths(manifest.read_bytes().decode(), dict(variables)))


def _state(files: Iterable[Path]) -> State:
    state = {}
    for file in files:
        try:
            found = file.stat()
        except OSError:
            continue
        state[file] = found.st_mtime_ns, found.st_size
    return state
