"""The status after a decision, by whether anything takes the segment that the decision begins."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from deploy.cli.following.follower import status_after_decision
from deploy.client.backend import RpcHandler, in_process
from workflow_api.v1 import deployment_health_pb2 as health_pb2
from workflow_api.v1 import runs_pb2


class Answer(NamedTuple):
    call: Callable[[Any, Any], Any]

    def answer(self, request: Any, context: Any) -> Any:
        return self.call(request, context)

    def messages(self, request: Any, context: Any) -> Any:
        return self.call(request, context)


def run(status: runs_pb2.RunStatus.ValueType) -> runs_pb2.Run:
    return runs_pb2.Run(summary=runs_pb2.RunSummary(run_id="run_1", status=status))


@pytest.mark.parametrize(("stands_still", "status"), [(True, "waiting_for_approval"), (False, "running")])
def test_a_decision_is_answered_without_a_wait_where_no_worker_lives(stands_still: bool, status: str) -> None:
    finding = health_pb2.HealthFinding(topic=health_pb2.HEALTH_TOPIC_QUEUE, critical=stands_still)
    statuses = (runs_pb2.RUN_STATUS_WAITING_FOR_APPROVAL, runs_pb2.RUN_STATUS_RUNNING)
    handlers: dict[str, RpcHandler] = {
        "/workflow_api.v1.RunsService/WatchRun": Answer(lambda *_: iter([run(each) for each in statuses])),
        "/workflow_api.v1.DeploymentHealthService/GetDeploymentHealth": Answer(
            lambda *_: health_pb2.DeploymentHealth(findings=[finding])
        ),
    }
    assert status_after_decision(in_process(handlers), "run_1", approved=True) == status
