"""Locks the packages of environments that are applied, so that every version has the same bytes everywhere."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from backend.environments.interpreter_tag import interpreter_tag
from backend.environments.lock import PackagesError
from backend.environments.store import PackageStore
from backend.json_text import canonical
from backend.storage.database import Database
from backend.workflows import resources_sql
from backend.workflows.manifests.loader import Manifest, ManifestText, refused
from backend.workflows.manifests.packages import all_packages
from backend.workflows.manifests.yaml_reader import read_documents

LOCKED = ("interpreter", "lock", "versions")
"""Fields of `python` that locking adds: what it was locked for, the lock's digest, and its packages."""

Place = tuple[str | int, ...]


def lock_packages(
    database: Database,
    store: PackageStore,
    manifests: Sequence[Manifest],
    files: Iterable[ManifestText],
    *,
    upgrade: bool = False,
) -> list[Manifest]:
    """Returns the manifests with a lock in each environment that has packages; `files` are those that they come from.

    An environment whose packages are the same as before keeps its lock: newer releases change nothing by themselves.
    With `upgrade` it gets those.

    Raises:
        ApiError: `invalid_request`, if the packages of an environment cannot be read or resolved.
    """
    sources = {file.name: file for file in files}
    locked: list[Manifest] = []
    problems: list[tuple[str, str]] = []
    for manifest in manifests:
        definition = json.loads(manifest.definition)
        if manifest.kind != "Environment" or not definition.get("python"):
            locked.append(manifest)
            continue
        source = sources[manifest.file]
        packages, found = all_packages(definition["python"], source.attachments)
        problems += (_problem(manifest, source.text, ("python", place), reason) for place, reason in found)
        if found:
            continue
        python = {"packages": packages, "preload": definition["python"]["preload"]}
        try:
            locked.append(_locked(database, store, manifest, {**definition, "python": python}, upgrade=upgrade))
        except PackagesError as error:
            place = _named_in(str(error), definition["python"]["packages"])
            problems.append(_problem(manifest, source.text, place, f"cannot be resolved: {error}"))
    if problems:
        raise refused(problems)
    return locked


def _locked(
    database: Database, store: PackageStore, manifest: Manifest, definition: dict[str, Any], *, upgrade: bool
) -> Manifest:
    python = definition["python"]
    row = database.read(lambda tx: resources_sql.resource(tx, "environment", manifest.name))
    before = None if row is None else json.loads(row.definition).get("python")
    wanted = (python["packages"], interpreter_tag())
    if before and (before["packages"], before["interpreter"]) == wanted and not upgrade:
        kept = {name: before[name] for name in LOCKED}
        return replace(manifest, definition=canonical({**definition, "python": {**python, **kept}}))
    lock = store.resolve(python["packages"])
    added = {"interpreter": interpreter_tag(), "lock": lock.digest, "versions": lock.versions}
    return replace(manifest, definition=canonical({**definition, "python": {**python, **added}}), lock=lock)


def _named_in(reason: str, packages: Sequence[str]) -> Place:
    """Returns the place of the only requirement of the manifest that a reason quotes, else that of all."""
    quoted = [
        index
        for index, requirement in enumerate(packages)
        if re.search(rf"(?<![\w.-]){re.escape(requirement)}(?![\w-])", reason)
    ]
    if len(quoted) == 1:
        return "python", "packages", quoted[0]
    return "python", "packages" if packages else "requirements"


def _problem(manifest: Manifest, text: str, place: Place, reason: str) -> tuple[str, str]:
    node = next((node for node in read_documents(text, []) if node.line == manifest.line), None)
    line = manifest.line if node is None else node.line_of(*place)
    named = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
    return f"{manifest.file}:{line}: {named}", reason
