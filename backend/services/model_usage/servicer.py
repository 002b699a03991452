"""ModelUsageService over gRPC: the use of models by a run and its steps, and by day."""

from typing import Final

import grpc

from backend.common.clock import DAY_MS, MAX_MS, first_millisecond_from
from backend.common.paging import Paging
from backend.services.dependencies import Services
from backend.services.model_usage import sql
from backend.services.runs.reads import find_state
from backend.storage.database import Tx
from contract.times import to_timestamp
from workflow_api.v1 import model_usage_pb2, model_usage_pb2_grpc

_LATEST_DAY: Final = 2**31 - 1


class ModelUsageServicer(model_usage_pb2_grpc.ModelUsageServiceServicer):
    """Service of the use of models by runs."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def GetRunModelUsage(
        self, request: model_usage_pb2.GetRunModelUsageRequest, context: grpc.ServicerContext
    ) -> model_usage_pb2.RunModelUsage:
        """Returns the use of models by a run, its children and its steps; raises ApiError `run_not_found`."""

        def work(tx: Tx) -> model_usage_pb2.RunModelUsage:
            find_state(tx, request.run_id, None)
            return model_usage_pb2.RunModelUsage(
                own=_use(sql.run_sums(tx, request.run_id)),
                with_children=_use(sql.run_sums_with_children(tx, request.run_id)),
                steps=[
                    model_usage_pb2.StepModelUsage(step=row.step, model=row.model, attempts=row.attempts, use=_use(row))
                    for row in sql.step_sums(tx, request.run_id)
                ],
            )

        return self._services.database.snapshot(work)

    def ListModelUsageDays(
        self, request: model_usage_pb2.ListModelUsageDaysRequest, context: grpc.ServicerContext
    ) -> model_usage_pb2.ListModelUsageDaysResponse:
        """Returns the use of models by day, key, workflow and model, the newest day first."""
        key_id = request.key_id if request.HasField("key_id") else None
        since = first_millisecond_from(request.since)
        until = first_millisecond_from(request.until) if request.HasField("until") else MAX_MS
        paging = Paging(self._services.cursors, request)
        rows = self._services.database.read(
            lambda tx: sql.days(
                tx,
                key_id=key_id,
                since=_first_day_from(since),
                until=_first_day_from(until),
                after=paging.after,
                limit=paging.rows_to_read,
            )
        )
        shown, token = paging.cut(rows, lambda row: (row.day, row.key_id, row.workflow_id, row.model))
        return model_usage_pb2.ListModelUsageDaysResponse(
            items=[
                model_usage_pb2.ModelUsageDay(
                    day=to_timestamp(row.day * DAY_MS),
                    key_id=row.key_id,
                    workflow_id=row.workflow_id,
                    workflow_name=row.workflow_name,
                    model=row.model,
                    use=_use(row),
                )
                for row in shown
            ],
            next_page_token=token,
        )


def _first_day_from(milliseconds: int) -> int:
    # Days are 32-bit integers on PostgreSQL.
    return min(-(-milliseconds // DAY_MS), _LATEST_DAY)


def _use(row: sql.UsageSumRow | sql.StepUsageRow | sql.NamedDayRow) -> model_usage_pb2.ModelUse:
    return model_usage_pb2.ModelUse(**{name: getattr(row, name) for name in sql.UsageSumRow._fields})
