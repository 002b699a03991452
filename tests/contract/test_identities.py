"""What each identity may call, at a backend that asks for certificates."""

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.support.authority import ADMIN, EDGE
from tests.support.certified import IDENTITIES, CertifiedParts
from tests.support.part import refused
from tests.support.poll import until
from workflow_api.v1 import (
    caller_pb2,
    caller_pb2_grpc,
    deployment_pb2,
    deployment_pb2_grpc,
    edge_pb2,
    edge_pb2_grpc,
    keys_pb2,
    keys_pb2_grpc,
    runs_pb2,
    runs_pb2_grpc,
    sessions_pb2,
    sessions_pb2_grpc,
    users_pb2,
    users_pb2_grpc,
    workflows_pb2,
    workflows_pb2_grpc,
)

pytestmark = pytest.mark.long

REPORTS, BILLING, CONSOLE, NOBODY = "reports.test", "billing.test", "console.test", "nobody.test"
IN_NAME_OF_A_KEY = (("workflow-api-key-id", "ak_0123456789ab"),)

Call = Callable[[grpc.Channel], Any]
GET_RUN = runs_pb2.GetRunRequest(run_id="run_unknown")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CertifiedParts]:
    identities = (
        f'{IDENTITIES}"dns:{REPORTS}" = ["/workflow_api.v1.RunsService/GetRun", "grpc.health.v1.Health"]\n'
        f'"dns:{BILLING}" = ["act-for-keys", "workflow_api.v1.CallerService", "workflow_api.v1.EdgeService"]\n'
        f'"dns:{CONSOLE}" = ["console"]\n'
    )
    parts = CertifiedParts(tmp_path_factory.mktemp("identities"), identities)
    try:
        parts.backend.start()
        yield parts
    finally:
        parts.stop()


def get_run(channel: grpc.Channel) -> Any:
    return runs_pb2_grpc.RunsServiceStub(channel).GetRun(GET_RUN)


def get_run_for_a_key(channel: grpc.Channel) -> Any:
    return runs_pb2_grpc.RunsServiceStub(channel).GetRun(GET_RUN, metadata=IN_NAME_OF_A_KEY)


def get_run_for_a_key_and_none(channel: grpc.Channel) -> Any:
    metadata = (*IN_NAME_OF_A_KEY, ("workflow-api-key-id", ""))
    return runs_pb2_grpc.RunsServiceStub(channel).GetRun(GET_RUN, metadata=metadata)


def get_me(channel: grpc.Channel) -> Any:
    return caller_pb2_grpc.CallerServiceStub(channel).GetMe(caller_pb2.GetMeRequest())


def get_me_for_a_key(channel: grpc.Channel) -> Any:
    return caller_pb2_grpc.CallerServiceStub(channel).GetMe(caller_pb2.GetMeRequest(), metadata=IN_NAME_OF_A_KEY)


def get_health(channel: grpc.Channel) -> Any:
    return deployment_pb2_grpc.DeploymentServiceStub(channel).GetHealth(deployment_pb2.GetHealthRequest())


def get_mirror(channel: grpc.Channel) -> Any:
    return edge_pb2_grpc.EdgeServiceStub(channel).GetKeyMirror(edge_pb2.GetKeyMirrorRequest())


def watch_keys(channel: grpc.Channel) -> Any:
    return next(
        edge_pb2_grpc.EdgeServiceStub(channel).WatchKeyMirror(
            edge_pb2.WatchKeyMirrorRequest(heartbeat=Duration(seconds=1))
        )
    )


def list_keys(channel: grpc.Channel) -> Any:
    return keys_pb2_grpc.KeysServiceStub(channel).ListKeys(keys_pb2.ListKeysRequest())


def list_graphs(channel: grpc.Channel) -> Any:
    stub = workflows_pb2_grpc.WorkflowsServiceStub(channel)
    return stub.ListKnowledgeGraphs(workflows_pb2.ListKnowledgeGraphsRequest())


def list_users(channel: grpc.Channel) -> Any:
    return users_pb2_grpc.UsersServiceStub(channel).ListUsers(users_pb2.ListUsersRequest())


def get_session(channel: grpc.Channel) -> Any:
    return sessions_pb2_grpc.SessionsServiceStub(channel).GetSession(sessions_pb2.GetSessionRequest(token="nobody's"))


def check_health(channel: grpc.Channel) -> Any:
    return health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())


def watch_health(channel: grpc.Channel) -> Any:
    return next(health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest()))


def reflect(channel: grpc.Channel) -> Any:
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    return next(stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")])))


def allowed(channel: grpc.Channel, call: Call) -> bool:
    """Whether the call got past the certificate; what the service says of it is another matter."""
    try:
        call(channel)
    except grpc.RpcError as error:
        code, words = error.code(), error.details() or ""
    else:
        return True
    assert code is not grpc.StatusCode.UNAVAILABLE, words
    return not (code is grpc.StatusCode.PERMISSION_DENIED and words.startswith("The certificate's identity "))


HEALTH = (check_health, watch_health)
# The service refuses the one with two key ids, whoever calls.
FOR_A_KEY = (get_run_for_a_key, get_run_for_a_key_and_none, get_me_for_a_key)
CALLS: tuple[Call, ...] = (
    get_run,
    get_run_for_a_key,
    get_run_for_a_key_and_none,
    get_me,
    get_me_for_a_key,
    get_health,
    get_mirror,
    watch_keys,
    list_keys,
    list_graphs,
    list_users,
    get_session,
    *HEALTH,
    reflect,
)


@pytest.mark.parametrize(
    ("names", "may"),
    [
        ([EDGE], {*FOR_A_KEY, get_health, get_mirror, watch_keys, *HEALTH}),
        ([ADMIN], {get_run, list_keys, list_graphs, list_users}),
        ([CONSOLE], {get_run, list_keys, list_graphs, list_users, get_session, *HEALTH}),
        ([REPORTS], {get_run, *HEALTH}),
        ([BILLING], {get_me_for_a_key, get_mirror, watch_keys}),
        ([NOBODY], set()),
        ([EDGE.upper()], {*FOR_A_KEY, get_health, get_mirror, watch_keys, *HEALTH}),
        (["uri:" + EDGE, "dns:" + EDGE], set()),
        ([NOBODY, REPORTS], {get_run, *HEALTH}),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else "",
)
def test_an_identity_may_call_what_it_was_given_and_nothing_else(
    parts: CertifiedParts, names: list[str], may: set[Call]
) -> None:
    with parts.channel(*names) as channel:
        assert {call.__name__ for call in CALLS if allowed(channel, call)} == {call.__name__ for call in may}


def test_an_edge_does_not_administer(parts: CertifiedParts) -> None:
    edges = {
        "WORKFLOW_API_ADMIN_BACKEND_TLS_CERTIFICATE": f"{parts.folder}/edge/certificate.pem",
        "WORKFLOW_API_ADMIN_BACKEND_TLS_KEY": f"{parts.folder}/edge/key.pem",
    }
    refusal = parts.refusal("keys", "create", "--name", "a", "--scopes", "runs:read", **edges)
    assert "PERMISSION_DENIED" in refusal["message"]


def test_a_refusal_is_logged_with_who_and_what_and_no_more(parts: CertifiedParts) -> None:
    with parts.channel("someone.test") as channel:
        assert not allowed(channel, get_me_for_a_key)
    lines = until(
        lambda: [line for line in parts.backend.log().splitlines() if "someone.test" in line], "a line of the log"
    )
    assert len(lines) == 1
    assert "dns:someone.test was refused" in lines[0]
    assert "/workflow_api.v1.CallerService/GetMe" in lines[0]
    assert IN_NAME_OF_A_KEY[0][1] not in lines[0]


def test_an_identity_cannot_be_given_an_unknown_rpc(parts: CertifiedParts) -> None:
    wrong = parts.folder / "wrong.toml"
    text = parts.config.read_text().replace(f'data = "{parts.folder}/data"', f'data = "{parts.folder}/wrong"')
    wrong.write_text(f'{text}"dns:typo.test" = ["/workflow_api.v1.RunsService/GetRuns"]\n')
    line = refused("backend", "--config", str(wrong), "--grpc", "127.0.0.1:0")
    assert line == (
        "The identity dns:typo.test is given '/workflow_api.v1.RunsService/GetRuns', which is no service, RPC or role."
    )
