"""Uploaded files as inputs of a start: validates them, and assigns them to the new run."""

from collections.abc import Mapping
from dataclasses import dataclass

from backend.common.errors import ApiError, invalid
from backend.common.json_text import JsonMapping, JsonObject
from backend.services.uploads import sql
from backend.services.uploads.content import members_of
from backend.services.uploads.rules import FOLDER, is_open, value_of
from backend.services.workflows.parameters import effective_parameters
from backend.services.workflows.resolved_workflow import ResolvedWorkflow
from backend.storage.database import Tx
from workflow_api.v1 import errors_pb2


@dataclass(frozen=True, slots=True)
class UploadedInputs:
    """Numbers and bytes of uploaded files, by the parameter whose value they replace."""

    upload_id: str
    files: Mapping[str, int]
    bytes: Mapping[str, int]


def check_upload(tx: Tx, upload_id: str, owner: str, now: int) -> UploadedInputs | ApiError:
    """Returns the counts of an upload, or the refusal of one that is gone or belongs to another person."""
    row = sql.find(tx, upload_id)
    if row is None or not is_open(row, owner, now):
        return _gone()
    return count_uploads(tx, upload_id)


def count_uploads(tx: Tx, upload_id: str) -> UploadedInputs:
    """Returns the numbers and bytes of uploaded files by parameter."""
    files: dict[str, int] = {}
    size: dict[str, int] = {}
    for file in sql.files(tx, upload_id):
        if file.finished:
            files[file.parameter] = files.get(file.parameter, 0) + len(members_of(file))
            size[file.parameter] = size.get(file.parameter, 0) + file.stored_bytes
    return UploadedInputs(upload_id, files, size)


def take_uploads(tx: Tx, uploaded: UploadedInputs, run_id: str, owner: str, now: int) -> None:
    """Assigns an upload to a new run.

    Raises:
        ApiError: the upload was removed meanwhile.
    """
    if not sql.take(tx, uploaded.upload_id, run_id, owner=owner, now=now):
        raise _gone()


def with_uploads(workflow: ResolvedWorkflow, given: JsonMapping, uploaded: UploadedInputs) -> JsonObject:
    """Returns the values of a start as `effective_parameters`, with uploaded files in place of prefixes.

    Raises:
        ApiError: `invalid_parameters`, also for files beyond the limits of their parameter.
    """
    inputs = {one.parameter: one for one in workflow.inputs}
    problems: list[tuple[str, str]] = []
    for name, count in uploaded.files.items():
        declared = inputs.get(name)
        if declared is None:
            if name != FOLDER:
                problems.append((name, "is no parameter of this workflow version that takes files"))
        elif given.get(name) is not None:
            problems.append((name, "has both an address and uploaded files"))
        elif count > declared.max_objects:
            problems.append((name, f"has {count:,} uploaded files, and may have {declared.max_objects:,}"))
        elif uploaded.bytes[name] > declared.max_bytes:
            problems.append((name, f"has files of {uploaded.bytes[name]:,} bytes, and may have {declared.max_bytes:,}"))
    if problems:
        raise ApiError(errors_pb2.ERROR_REASON_INVALID_PARAMETERS, problems=problems)
    stands_in = inputs.keys() & uploaded.files.keys()
    others = effective_parameters((each for each in workflow.parameters if each["name"] not in stands_in), given)
    values = others | {name: value_of(uploaded.upload_id, name) for name in stands_in}
    return {each["name"]: values[each["name"]] for each in workflow.parameters if each["name"] in values}


def _gone() -> ApiError:
    return invalid("upload_id", "is gone: uploaded files wait for an hour; choose them again")
