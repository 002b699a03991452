"""Stages the files that a person uploads in parts, and expands zips, until a start of a run takes them."""

import logging
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import orjson

from backend.common.clock import Clock
from backend.common.errors import ApiError, invalid
from backend.common.ids import new_id
from backend.services.dependencies import Services
from backend.services.uploads import rules, sql
from backend.services.uploads.content import DiskFullError, free_bytes, members_of, raising_disk_full, sent_bytes
from backend.services.uploads.expansion import ExpansionHaltedError, ExpansionsBusyError, ZipExpansion, ZipRefusedError
from backend.storage.database import Tx
from backend.storage.object_keys import upload_file_prefix, upload_members_key, upload_part_key
from backend.storage.objects import ObjectStore
from backend.storage.objects.interface import copy_to_file
from backend.storage.tables.files import UploadFileRow, UploadRow
from contract.times import to_timestamp
from workflow_api.v1 import errors_pb2, uploads_pb2

_LOG = logging.getLogger(__name__)
_FILE = "file"
_NO_ROOM = "cannot be taken: the service has no room for it at present"
_NOT_FOUND = "There is no such upload: it has expired, was used by a run, or belongs to someone else."
_BUSY = "was not expanded, because other zips are being expanded; try again"
_BUSY_SECONDS = 5
_ZIP = ".zip"


class Uploads:
    """Stages files; `folder` is for copies of zips while they are expanded, `disks` are the folders written to.

    Objects are durable before a row names them. Objects that a crash left without a row lie below the prefix of their
    upload, which is removed as a whole.
    """

    def __init__(self, services: Services, objects: ObjectStore, folder: Path, disks: Sequence[Path] = ()) -> None:
        self._disks = (folder, *disks)
        self._database = services.database
        self._clock: Clock = services.clock
        self._objects = objects
        self.expansion = ZipExpansion(folder)

    def begin(self, owner: str) -> uploads_pb2.Upload:
        """Begins an upload.

        Raises:
            ApiError: `invalid_request` if the person has too many already.
        """
        now = self._clock()
        row = UploadRow(new_id("upl"), owner, now, now + rules.LASTS_MS, None)

        def work(tx: Tx) -> None:
            staged = sql.staged(tx, owner)
            for count, most in (
                (staged.uploads, rules.MOST_UPLOADS_OF_PERSON),
                (staged.begun, rules.MOST_BEGUN_OF_PERSON),
            ):
                if count >= most:
                    raise invalid(
                        _FILE, f"cannot be taken: {most:,} uploads wait for a start; each is removed after an hour"
                    )
            sql.add(tx, row)

        self._database.write(work, lock_key=sql.lock_key(owner))
        return _message(row, ())

    def get(self, upload_id: str, owner: str) -> uploads_pb2.Upload:
        """Returns an upload with its finished files.

        Raises:
            ApiError: `not_found`.
        """
        return self._database.snapshot(
            lambda tx: _message(self._require_open(tx, upload_id, owner), sql.files(tx, upload_id))
        )

    def append(self, request: uploads_pb2.AppendToUploadRequest, owner: str) -> int:
        """Adds bytes to a file; returns its size now.

        Raises:
            ApiError: `not_found`, or `invalid_request` for bytes beyond a bound or the disk's room, or not at the
            file's end.
        """
        if len(request.data) > rules.PART_BYTES or request.offset % rules.PART_BYTES:
            raise invalid("data", f"must be at most {rules.PART_BYTES:,} bytes from a multiple of as many")
        end = request.offset + len(request.data)
        if free_bytes(self._disks) < len(request.data):
            raise self._no_room(request.name)
        # Puts off the upload's removal for longer than storing a part takes, so that no object is stored after it.
        admitted = self._database.write(lambda tx: self._admit(tx, request, owner), lock_key=sql.lock_key(owner))
        if admitted.finished or end <= admitted.size_bytes:
            return admitted.size_bytes
        try:
            with raising_disk_full():
                key = upload_part_key(request.upload_id, request.number, request.offset, len(request.data))
                self._objects.put_bytes(key, request.data)
        except DiskFullError:
            # A repeated call may have stored the part at the same time.
            stored = self._database.read(lambda tx: sql.file(tx, request.upload_id, request.number))
            if stored is not None and end <= stored.size_bytes:
                return stored.size_bytes
            self._discard(request.upload_id, request.number, owner)
            raise self._no_room(request.name) from None

        def work(tx: Tx) -> int:
            file = self._admit(tx, request, owner)
            if not file.finished and end > file.size_bytes:
                file = _grown(file, end)
                sql.change_file(tx, file)
            return file.size_bytes

        return self._database.write(work, lock_key=sql.lock_key(owner))

    def finish(self, upload_id: str, number: int, owner: str, halt: threading.Event) -> uploads_pb2.UploadedFile:
        """Completes a file; a refused file is removed, unless a concurrent call has completed it.

        Args:
            upload_id: The upload.
            number: The file.
            owner: The calling person.
            halt: Set once nobody waits for the answer; the expansion of a zip then ends, and can be repeated later.

        Raises:
            ApiError: `not_found`, or `invalid_request` for a zip or a name that is refused; `rate_limited`, which
                changes nothing, where enough other zips are being expanded.
        """
        file = self._database.write(
            lambda tx: self._require_file(tx, upload_id, number, owner), lock_key=sql.lock_key(owner)
        )
        if file.finished:
            return _file_message(file)
        try:
            finished = self._expand(file, owner, halt) if file.name.lower().endswith(_ZIP) else file
            finished = finished._replace(finished=1)
            ended = self._database.write(
                lambda tx: self._complete(tx, file, finished, owner), lock_key=sql.lock_key(owner)
            )
        except ExpansionsBusyError:
            message = f"{rules.shown(file.name)} {_BUSY}."
            raise ApiError(errors_pb2.ERROR_REASON_RATE_LIMITED, message, retry_after=_BUSY_SECONDS) from None
        except ExpansionHaltedError:
            raise ApiError(errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE) from None
        except (ApiError, DiskFullError) as error:
            by_another = self._withdraw(file, owner)
            if by_another is None:
                raise self._no_room(file.name) if isinstance(error, DiskFullError) else error from None
            ended = by_another
        if ended.members is not None:
            self._objects.delete_prefix(upload_file_prefix(upload_id, number))
        return _file_message(ended)

    def remove(self, upload_id: str, number: int, owner: str) -> uploads_pb2.Upload:
        """Removes the file of a number, if there is one; raises as `get`."""

        def work(tx: Tx) -> uploads_pb2.Upload:
            row = self._require_open(tx, upload_id, owner)
            sql.remove_file(tx, upload_id, number)
            return _message(row, [file for file in sql.files(tx, upload_id) if file.number != number])

        left = self._database.write(work, lock_key=sql.lock_key(owner))
        self._delete_objects(upload_id, number)
        return left

    def _withdraw(self, file: UploadFileRow, owner: str) -> UploadFileRow | None:
        """Removes a refused file; returns it instead if a concurrent call has completed it."""

        def work(tx: Tx) -> UploadFileRow | None:
            row = sql.find(tx, file.upload_id)
            if row is None or not rules.is_open(row, owner, self._clock()):
                return None
            found = sql.file(tx, file.upload_id, file.number)
            if found == file:
                sql.remove_file(tx, file.upload_id, file.number)
            return found or file

        found = self._database.write(work, lock_key=sql.lock_key(owner))
        if found == file:
            self._delete_objects(file.upload_id, file.number)
        return found if found is not None and found.finished and _is_same_upload(found, file) else None

    def _delete_objects(self, upload_id: str, number: int) -> None:
        self._objects.delete_prefix(upload_file_prefix(upload_id, number))
        self._objects.delete(upload_members_key(upload_id, number))

    def copy(self, upload_id: str, owner: str) -> str:
        """Copies an upload for this owner, who has an hour to start another run with it; returns the copy's id.

        Raises:
            ApiError: `invalid_request`, the files are not stored any more, or the disk has no room for a copy.
        """
        files = [file for file in self._database.read(lambda tx: sql.files(tx, upload_id)) if file.finished]
        size = sum(file.stored_bytes for file in files)
        # An object takes space twice while it is copied: in the folder, and in the store.
        if free_bytes(self._disks) < 2 * size:
            raise self._no_room("the uploaded files of the run")
        at = self._clock()
        copy = UploadRow(new_id("upl"), owner, at, at + rules.LASTS_MS, None)
        # The row precedes its objects, so that a crash leaves no object without a row.
        self._database.write(lambda tx: sql.add(tx, copy), lock_key=sql.lock_key(owner))
        try:
            with raising_disk_full(), self.expansion.folder() as folder:
                for file in files:
                    self._copy_objects(file, copy.upload_id, Path(folder) / "part")
        except (DiskFullError, KeyError) as error:
            self.expire(copy.upload_id)
            if isinstance(error, DiskFullError):
                raise self._no_room("the uploaded files of the run") from None
            raise invalid("run_id", "must be of a run whose uploaded files are still stored") from None

        def add_files(tx: Tx) -> None:
            for file in files:
                sql.add_file(tx, file._replace(upload_id=copy.upload_id))

        self._database.write(add_files, lock_key=sql.lock_key(owner))
        return copy.upload_id

    def expire(self, upload_id: str) -> None:
        """Makes an upload that no run has taken due for removal."""
        self._database.write(lambda tx: sql.extend(tx, upload_id, 0))

    def _copy_objects(self, file: UploadFileRow, upload_id: str, part: Path) -> None:
        if file.members is not None:
            source, target = (upload_members_key(each, file.number) for each in (file.upload_id, upload_id))
            copy_to_file(self._objects, source, file.stored_bytes, part)
            self._objects.put_file(target, part)
            return
        for offset in range(0, file.size_bytes, rules.PART_BYTES):
            size = min(rules.PART_BYTES, file.size_bytes - offset)
            source, target = (upload_part_key(each, file.number, offset, size) for each in (file.upload_id, upload_id))
            copy_to_file(self._objects, source, size, part)
            self._objects.put_file(target, part)

    def close(self) -> None:
        """Ends the processes that expand zips."""
        self.expansion.close()

    def _no_room(self, name: str) -> ApiError:
        _LOG.warning("An upload was refused: the disk has too little room")
        return invalid(_FILE, f"{rules.shown(name)} {_NO_ROOM}")

    def _discard(self, upload_id: str, number: int, owner: str) -> None:
        """Removes the objects of a file, then its row: the database may need the space to remove it."""
        self._objects.delete_prefix(upload_file_prefix(upload_id, number))
        with suppress(Exception):
            self.remove(upload_id, number, owner)

    def _require_open(self, tx: Tx, upload_id: str, owner: str) -> UploadRow:
        row = sql.find(tx, upload_id)
        if row is None or not rules.is_open(row, owner, self._clock()):
            raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, _NOT_FOUND)
        return row

    def _extend(self, tx: Tx, upload_id: str, owner: str) -> None:
        self._require_open(tx, upload_id, owner)
        sql.extend(tx, upload_id, self._clock() + rules.LASTS_MS)

    def _require_file(self, tx: Tx, upload_id: str, number: int, owner: str) -> UploadFileRow:
        self._extend(tx, upload_id, owner)
        file = sql.file(tx, upload_id, number)
        if file is None:
            raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, "The upload has no such file.")
        return file

    def _admit(self, tx: Tx, request: uploads_pb2.AppendToUploadRequest, owner: str) -> UploadFileRow:
        """Checks the bounds for new bytes, and returns their file; the first bytes add it."""
        self._extend(tx, request.upload_id, owner)
        file = sql.file(tx, request.upload_id, request.number)
        stored = sql.stored_bytes(tx, request.upload_id)
        if file is None:
            if request.offset:
                raise invalid("offset", "must be 0 for the first bytes of a file")
            problem = rules.name_problem(request.name)
            if problem is not None:
                raise invalid(_FILE, f"{rules.shown(request.name)} {problem}")
            file = UploadFileRow(request.upload_id, request.number, request.parameter, request.name, 0, 0, 0, None)
            _check_bounds(tx, owner, stored, file, _grown(file, len(request.data)))
            sql.add_file(tx, file)
            return file
        end = request.offset + len(request.data)
        if not file.finished and end > file.size_bytes:
            if request.offset != file.size_bytes:
                raise invalid("offset", f"must be {file.size_bytes:,}, where the file ends")
            _check_bounds(tx, owner, stored - file.stored_bytes, file, _grown(file, end))
        return file

    def _expand(self, file: UploadFileRow, owner: str, halt: threading.Event) -> UploadFileRow:
        """Stores the members of a zip, and returns the file with their paths."""
        with self.expansion.slot(), raising_disk_full(), self.expansion.folder() as folder:
            # Room for the copy of the zip, its contents, and the contents again as an object.
            left = max(0, free_bytes(self._disks) - file.size_bytes) // 2
            try:
                made = self.expansion.expand(sent_bytes(self._objects, file), Path(folder), owner, left, halt)
            except ZipRefusedError as error:
                raise invalid(_FILE, f"{rules.shown(file.name)} {error}") from None
            except KeyError:
                raise invalid(_FILE, f"{rules.shown(file.name)} was removed meanwhile") from None
            size = self._objects.put_file(upload_members_key(file.upload_id, file.number), made.content).size_bytes
        return file._replace(stored_bytes=size, members=orjson.dumps(made.members).decode())

    def _complete(self, tx: Tx, begun: UploadFileRow, file: UploadFileRow, owner: str) -> UploadFileRow:
        """Completes a file whose paths fit the other files; returns it as the first concurrent call completed it.

        `begun` is the file as read before: a file that was removed and begun anew meanwhile is refused.
        """
        before = self._require_file(tx, file.upload_id, file.number, owner)
        if before.finished and _is_same_upload(before, begun):
            return before
        if before != begun:
            raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, "The upload has no such file any more.")
        others = [other for other in sql.files(tx, file.upload_id) if other.finished and other.number != file.number]
        other_paths = [path for other in others if other.parameter == file.parameter for path, _ in members_of(other)]
        paths = [path for path, _ in members_of(file)]
        problem = rules.path_problem(paths, other_paths)
        if problem is not None:
            entry = "" if file.members is None else f" has an entry {rules.shown(problem[0])} that"
            raise invalid(_FILE, f"{rules.shown(file.name)}{entry} {problem[1]}")
        if len(paths) + sum(len(members_of(other)) for other in others) > rules.MOST_FILES:
            raise invalid(_FILE, f"{rules.shown(file.name)} makes more than {rules.MOST_FILES:,} files in all")
        _check_bounds(tx, owner, sum(other.stored_bytes for other in others), before, file)
        sql.change_file(tx, file)
        return file


def _check_bounds(tx: Tx, owner: str, others: int, before: UploadFileRow, after: UploadFileRow) -> None:
    """Refuses bytes beyond the bounds of a file, of its upload with its `others`, and of the person."""
    name = rules.shown(after.name)
    if after.size_bytes > rules.MOST_FILE_BYTES:
        raise invalid(_FILE, f"{name} has more than {rules.MOST_FILE_BYTES:,} bytes")
    if others + after.stored_bytes > rules.MOST_BYTES:
        raise invalid(_FILE, f"{name} makes more than {rules.MOST_BYTES:,} bytes in all")
    if sql.staged(tx, owner).bytes + after.stored_bytes - before.stored_bytes > rules.MOST_BYTES_OF_PERSON:
        most = rules.MOST_BYTES_OF_PERSON
        raise invalid(_FILE, f"{name} makes more than {most:,} bytes that wait for a start; each waits for an hour")


def _is_same_upload(one: UploadFileRow, other: UploadFileRow) -> bool:
    """Returns whether two rows describe one sent file: its parameter, name and size agree."""
    return (one.parameter, one.name, one.size_bytes) == (other.parameter, other.name, other.size_bytes)


def _grown(file: UploadFileRow, size: int) -> UploadFileRow:
    """Returns a file's row with the size after new bytes."""
    return file._replace(size_bytes=size, stored_bytes=size)


def _message(row: UploadRow, files: Iterable[UploadFileRow]) -> uploads_pb2.Upload:
    return uploads_pb2.Upload(
        upload_id=row.upload_id,
        expires_at=to_timestamp(row.expires_at),
        files=[_file_message(file) for file in files if file.finished],
    )


def _file_message(file: UploadFileRow) -> uploads_pb2.UploadedFile:
    return uploads_pb2.UploadedFile(
        number=file.number,
        parameter=file.parameter,
        name=file.name,
        size_bytes=file.size_bytes,
        files=len(members_of(file)),
        files_bytes=file.stored_bytes,
    )
