"""PreviewsService over gRPC."""

import grpc

from backend.previews.service import Previews
from workflow_api.v1 import previews_pb2, previews_pb2_grpc


class PreviewsServicer(previews_pb2_grpc.PreviewsServiceServicer):
    """Shows people what runs made."""

    def __init__(self, previews: Previews) -> None:
        self._previews = previews

    def GetStepPreview(
        self, request: previews_pb2.GetStepPreviewRequest, context: grpc.ServicerContext
    ) -> previews_pb2.StepPreview:
        """Returns what a step returned, and its files."""
        return self._previews.step(request)

    def GetOutputPreview(
        self, request: previews_pb2.GetOutputPreviewRequest, context: grpc.ServicerContext
    ) -> previews_pb2.OutputPreview:
        """Returns the beginning of an output."""
        return self._previews.output(request)

    def GetSummaryPreview(
        self, request: previews_pb2.GetSummaryPreviewRequest, context: grpc.ServicerContext
    ) -> previews_pb2.SummaryPreview:
        """Returns the beginning of a summary as HTML."""
        return self._previews.summary(request)
