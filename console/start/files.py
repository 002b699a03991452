"""The files that were uploaded with the form that starts a run."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from console.forms.multipart import UPLOAD_FIELD
from console.forms.problems import whole_number
from console.forms.staging import FILES_PREFIX
from console.rendering import formatting
from console.visit import Visit
from contract.refusals import Refusal
from workflow_api.v1.uploads_pb2 import GetUploadRequest, RemoveUploadedFileRequest, Upload, UploadedFile

FOLDER: Final = "uploads"
"""The parameter of files that stand in for none."""

_GONE: Final = "The files are gone, as they wait for an hour: choose them again."


class ChosenFile(NamedTuple):
    """A file as the form shows it."""

    number: int
    name: str
    size: str
    content: str


class ChosenFiles(NamedTuple):
    """Files by parameter, and problems by parameter.

    Attributes:
        taken: An upload that the form named and that waits no more: for too long, or because a run has taken it.
    """

    upload_id: str
    all: Mapping[str, Sequence[ChosenFile]]
    problems: Mapping[str, str]
    taken: str = ""

    @property
    def with_expiry_problem(self) -> "ChosenFiles":
        """The same files, with a problem where the upload has expired."""
        return self._replace(problems={FOLDER: _GONE, **self.problems}) if self.taken else self


NO_FILES: Final = ChosenFiles("", {}, {})


async def chosen_files(visit: Visit) -> ChosenFiles:
    """Returns the files of the upload that the form names, and why others were not taken."""
    problems = {name.removeprefix(FILES_PREFIX): problem for name, problem in visit.refused_files.items()}
    upload_id = visit.sent(UPLOAD_FIELD)
    if not upload_id:
        return ChosenFiles("", {}, problems)
    try:
        upload: Upload = await visit.services.call("UploadsService/GetUpload", GetUploadRequest(upload_id=upload_id))
    except Refusal as refusal:
        if refusal.code not in {"not_found", "invalid_request"}:
            raise
        return ChosenFiles("", {}, problems, upload_id)
    found: dict[str, list[ChosenFile]] = {}
    for file in upload.files:
        found.setdefault(file.parameter, []).append(_shown(file))
    return ChosenFiles(upload_id, found, problems)


async def drop(visit: Visit) -> None:
    """Removes the file whose button was pressed."""
    number = whole_number(visit.sent("drop"))
    if number is None or number < 1:
        return
    request = RemoveUploadedFileRequest(upload_id=visit.sent(UPLOAD_FIELD), number=number)
    try:
        await visit.services.call("UploadsService/RemoveUploadedFile", request)
    except Refusal as refusal:
        if refusal.code not in {"not_found", "invalid_request"}:
            raise


def _shown(file: UploadedFile) -> ChosenFile:
    zipped = file.name.lower().endswith(".zip")
    files = "1 file" if file.files == 1 else f"{file.files:,} files"
    content = f"{files}, {formatting.size(file.files_bytes)} expanded" if zipped else ""
    return ChosenFile(file.number, file.name, formatting.size(file.size_bytes), content)
