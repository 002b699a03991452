"""Code of an agent's version, as it was applied: the files of its folder, or the one file of its text."""

import json
from pathlib import PurePosixPath
from typing import Final

from backend.errors import ApiError, invalid
from backend.storage.database import Tx
from backend.workflows import definitions, sources_sql
from backend.workflows.agent_source import archive_of
from workflow_api.v1 import definitions_pb2, errors_pb2

_ONE_FILE: Final = "agent.py"


def agent_code(tx: Tx, agent: str, version: int | None) -> definitions_pb2.AgentCode:
    """Returns the code of an agent's version, by default of its newest, as a zip.

    Raises:
        ApiError: `not_found`, also where the folder was removed because no version needed it; `version_not_found`;
            `invalid_request` for an agent that has no code.
    """
    found = definitions.find(tx, "Agent", agent, deleted=True)
    number = found.newest_version if version is None else version
    definition = json.loads(definitions.text_of(tx, found, number))
    if "digest" in definition:
        archive = sources_sql.archive(tx, definition["digest"])
        if archive is None:
            gone = (
                f"The code of version {number} of {found.name} is not kept any more: no version of a workflow uses it."
            )
            raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, gone)
    elif "code" in definition:
        name = PurePosixPath(definition.get("code_file") or _ONE_FILE).name
        archive = archive_of({name: definition["code"].encode()})
    else:
        raise invalid("agent", f"must have code; {found.name} is of type {definition['type']}")
    return definitions_pb2.AgentCode(id=found.id, name=found.name, version=number, archive=archive)
