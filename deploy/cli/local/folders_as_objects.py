"""Folders in the place of object storage, for the parameters of a local run."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deploy.cli.output.printing import Record
from deploy.cli.output.raw_json import json_text
from deploy.failures import CommandError
from workflow_api.v1 import workflows_pb2

if TYPE_CHECKING:
    from deploy.serve.folder_storage import FolderStorage

_ACCESS_KEY: Final = "folders-of-this-run"
"""Name of the secret with which connectors read folders."""


class FoldersAsObjects:
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

            # The prefixes are filled in once the workflow is known, and the server looks at them at each request.
            self._storage = opened.enter_context(folder_storage(self._prefixes))
            key = {
                "access_key_id": self._storage.access_key_id,
                "secret_access_key": self._storage.secret_access_key,
            }
            self.secrets = {_ACCESS_KEY: json.dumps(key)}

    def serve(self, declared: Sequence[Record], connectors: Mapping[str, Any], backend: Any) -> None:
        """Has the connectors of the folders' parameters read the folders; what they may read stays as it is.

        Raises:
            CommandError: a folder is given for what is no `s3_prefix` parameter, or its connector is missing.
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
        content = "\n---\n".join(json_text(each, indented=False, encoding="utf-8") for each in changed.values())
        file = workflows_pb2.ManifestFile(name="--input", content=content)
        backend.call(backend.workflows.ApplyManifests, workflows_pb2.ApplyManifestsRequest(files=[file]))
