"""ReviewsService over gRPC."""

import grpc

from backend.reviews.service import Reviews
from backend.rpc.interceptors import caller_of
from workflow_api.v1 import reviews_pb2, reviews_pb2_grpc


class ReviewsServicer(reviews_pb2_grpc.ReviewsServiceServicer):
    """Shows people what they decide on."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    def GetReview(self, request: reviews_pb2.GetReviewRequest, context: grpc.ServicerContext) -> reviews_pb2.Review:
        """Returns an approval with what it is about."""
        return self._reviews.review(request.approval_id)

    def ListDecisions(
        self, request: reviews_pb2.ListDecisionsRequest, context: grpc.ServicerContext
    ) -> reviews_pb2.ListDecisionsResponse:
        """Returns who decided what in a run."""
        return self._reviews.decisions(request)

    def ListAllDecisions(
        self, request: reviews_pb2.ListAllDecisionsRequest, context: grpc.ServicerContext
    ) -> reviews_pb2.ListAllDecisionsResponse:
        """Returns who decided what in all runs, newest first."""
        return self._reviews.all_decisions(request, caller_of(context).workflow_ids)

    def CountPendingApprovals(
        self, request: reviews_pb2.CountPendingApprovalsRequest, context: grpc.ServicerContext
    ) -> reviews_pb2.CountPendingApprovalsResponse:
        """Returns how many approvals wait, and at which gates."""
        return self._reviews.count_pending(caller_of(context).workflow_ids)
