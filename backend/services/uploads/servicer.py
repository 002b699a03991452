"""UploadsService over gRPC: uploads of files for runs, each owned by the calling person."""

import threading

import grpc

from backend.rpc.callers import principal_of
from backend.services.uploads.staging import Uploads
from workflow_api.v1 import uploads_pb2, uploads_pb2_grpc


class UploadsServicer(uploads_pb2_grpc.UploadsServiceServicer):
    """Stages files for runs; each upload is owned by the calling person."""

    def __init__(self, uploads: Uploads) -> None:
        self._uploads = uploads

    def BeginUpload(self, request: uploads_pb2.BeginUploadRequest, context: grpc.ServicerContext) -> uploads_pb2.Upload:
        """Begins an upload without files."""
        return self._uploads.begin(principal_of(context).actor)

    def GetUpload(self, request: uploads_pb2.GetUploadRequest, context: grpc.ServicerContext) -> uploads_pb2.Upload:
        """Returns an upload with its files."""
        return self._uploads.get(request.upload_id, principal_of(context).actor)

    def AppendToUpload(
        self, request: uploads_pb2.AppendToUploadRequest, context: grpc.ServicerContext
    ) -> uploads_pb2.AppendToUploadResponse:
        """Adds the next bytes to a file."""
        return uploads_pb2.AppendToUploadResponse(size_bytes=self._uploads.append(request, principal_of(context).actor))

    def FinishUploadedFile(
        self, request: uploads_pb2.FinishUploadedFileRequest, context: grpc.ServicerContext
    ) -> uploads_pb2.UploadedFile:
        """Ends a file."""
        halt = threading.Event()
        if not context.add_callback(halt.set):
            halt.set()
        return self._uploads.finish(request.upload_id, request.number, principal_of(context).actor, halt)

    def RemoveUploadedFile(
        self, request: uploads_pb2.RemoveUploadedFileRequest, context: grpc.ServicerContext
    ) -> uploads_pb2.Upload:
        """Removes a file from an upload."""
        return self._uploads.remove(request.upload_id, request.number, principal_of(context).actor)
