"""A person who uploads files for runs."""

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from backend.services.uploads.rules import PART_BYTES
from backend.services.uploads.servicer import UploadsServicer
from backend.services.uploads.staging import Uploads
from backend.storage.objects import FolderObjects
from tests.services.calls import Caller, RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, manifest
from workflow_api.v1 import runs_pb2, uploads_pb2

ANA = "user:ana"
READER = """
def run(context):
    return {path.relative_to(context.inputs).as_posix(): path.stat().st_size
            for path in sorted(context.inputs.rglob("*")) if path.is_file()}
"""
EMAILS = """
def run(context):
    return (context.inputs / "uploads" / "people.csv").read_text()
"""


class Person:
    """The calls of one person."""

    def __init__(
        self, world: RuntimeWorld, folder: Path, name: str = ANA, objects: FolderObjects | None = None
    ) -> None:
        self.world = world
        self.name = name
        self.service = Uploads(world.services, objects or world.objects, folder / "uploads")
        servicer = UploadsServicer(self.service)
        self.call = Caller(servicer, uploads_pb2.DESCRIPTOR.services_by_name["UploadsService"])

    def begin(self) -> str:
        return str(self.call("BeginUpload", uploads_pb2.BeginUploadRequest(), actor=self.name).upload_id)

    def send(self, upload_id: str, number: int, name: str, data: bytes, parameter: str = "uploads") -> Any:
        for offset in range(0, max(1, len(data)), PART_BYTES):
            self.append(upload_id, number, name, data[offset : offset + PART_BYTES], offset, parameter)
        return self.finish(upload_id, number)

    def finish(self, upload_id: str, number: int) -> Any:
        request = uploads_pb2.FinishUploadedFileRequest(upload_id=upload_id, number=number)
        return self.call("FinishUploadedFile", request, actor=self.name)

    def append(
        self, upload_id: str, number: int, name: str, data: bytes, offset: int = 0, parameter: str = "uploads"
    ) -> int:
        request = uploads_pb2.AppendToUploadRequest(
            upload_id=upload_id, number=number, parameter=parameter, name=name, offset=offset, data=data
        )
        return int(self.call("AppendToUpload", request, actor=self.name).size_bytes)

    def files(self, upload_id: str) -> list[str]:
        request = uploads_pb2.GetUploadRequest(upload_id=upload_id)
        return [file.name for file in self.call("GetUpload", request, actor=self.name).files]

    def start(
        self, workflow: str, upload_id: str, once: str = "once", parameters: Mapping[str, Any] | None = None
    ) -> Any:
        request = runs_pb2.StartRunRequest(
            workflow_id=self.world.workflows[workflow],
            idempotency_key=once,
            upload_id=upload_id,
            parameters=json.dumps(parameters or {}),
        )
        return self.world.runs("StartRun", request, actor=self.name)

    def stored(self, upload_id: str) -> bool:
        folder = self.world.folder / "objects" / "uploads" / upload_id
        return folder.exists() and any(folder.rglob("*"))


@pytest.fixture
def ana(world: RuntimeWorld, tmp_path: Path) -> Iterator[Person]:
    agents = {"sizes": READER, "emails": EMAILS}
    world.apply(
        "\n---\n".join(
            json.dumps({"kind": "Agent", "name": name, "type": "python", "code": code}) for name, code in agents.items()
        )
    )
    steps = [agent_step("read", "sizes")]
    world.workflows |= world.apply(manifest("Reads", steps, result={"step": "read"}))
    person = Person(world, tmp_path)
    yield person
    person.service.close()


def zipped(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def reason(call: Any) -> str:
    with pytest.raises(RefusedError) as caught:
        call()
    return next(iter(caught.value.problems.values()), caught.value.reason)
