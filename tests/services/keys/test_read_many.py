"""EdgeService.ReadMany: point reads of several keys in one call, as each RPC itself would answer."""

from collections.abc import Iterator

import pytest

from backend.bootstrap import Backend
from tests.services.calls import Caller, RefusedError
from workflow_api.v1.edge_pb2 import KeyRead, ReadManyRequest
from workflow_api.v1.keys_pb2 import ApiKey
from workflow_api.v1.runs_pb2 import GetRunRequest
from workflow_api_testing import TestBackend, test_backend

GET_ME = "/workflow_api.v1.CallerService/GetMe"
GET_RUN = "/workflow_api.v1.RunsService/GetRun"
LIST_RUNS = "/workflow_api.v1.RunsService/ListRuns"


@pytest.fixture
def embedded() -> Iterator[TestBackend]:
    with test_backend() as backend:
        yield backend


def test_each_read_is_answered_for_its_key_and_refused_by_itself(embedded: TestBackend) -> None:
    call = Caller.of_backend(embedded)
    keys = [embedded.add_key().key_id, embedded.add_key().key_id]
    unknown = GetRunRequest(run_id="run_unknown").SerializeToString()
    reads = [
        KeyRead(rpc=GET_ME, key_id=keys[0]),
        KeyRead(rpc=GET_RUN, request=unknown, key_id=keys[0]),
        KeyRead(rpc=GET_ME, key_id=keys[1]),
    ]
    first, refused, last = call("ReadMany", ReadManyRequest(reads=reads)).answers
    assert [ApiKey.FromString(each.response).key_id for each in (first, last)] == keys
    assert b"RUN_NOT_FOUND" in refused.refusal
    with pytest.raises(RefusedError) as whole:
        call("ReadMany", ReadManyRequest(reads=[KeyRead(rpc=LIST_RUNS, key_id=keys[0])]))
    assert whole.value.reason == "invalid_request"


def test_a_backend_with_a_database_server_does_not_serve_it(backend: TestBackend, database_url: str | None) -> None:
    composition: Backend = backend.composition
    assert ("/workflow_api.v1.EdgeService/ReadMany" in composition.handlers) == (database_url is None)
