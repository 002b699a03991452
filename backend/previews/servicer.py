"""PreviewsService over gRPC."""

import grpc

from backend.previews.service import Previews
from backend.rpc.interceptors import caller_of
from workflow_api.v1 import previews_pb2, previews_pb2_grpc


class PreviewsServicer(previews_pb2_grpc.PreviewsServiceServicer):
    """Shows people what runs made."""

    def __init__(self, previews: Previews) -> None:
        self._previews = previews

    def GetRunInputs(
        self, request: previews_pb2.GetRunInputsRequest, context: grpc.ServicerContext
    ) -> previews_pb2.RunInputs:
        """Returns the inputs of a run, swept."""
        return self._previews.inputs.swept(request.run_id)

    def RevealRunInputs(
        self, request: previews_pb2.RevealRunInputsRequest, context: grpc.ServicerContext
    ) -> previews_pb2.RunInputs:
        """Returns the inputs of a run as they were given."""
        return self._previews.inputs.revealed(request.run_id, caller_of(context).audit_name)

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
