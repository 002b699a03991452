"""Several point reads of keys in one call, each by the handler of its RPC."""

from typing import Any

import grpc
import pytest
from google.rpc.status_pb2 import Status

from backend.common.errors import ApiError
from backend.rpc.batch_reads import BatchReads
from backend.rpc.callers import principal_of
from backend.rpc.interceptors import Handler
from contract.local_context import LocalContext
from workflow_api.v1.edge_pb2 import KeyRead, ReadManyRequest
from workflow_api.v1.errors_pb2 import ERROR_REASON_RUN_NOT_FOUND
from workflow_api.v1.options_pb2 import ACCESS_INTERNAL, ACCESS_PUBLIC, ACCESS_SCOPE, Access, MethodRules
from workflow_api.v1.runs_pb2 import GetRunRequest, Run

GET_RUN = "/workflow_api.v1.RunsService/GetRun"
ONE = GetRunRequest(run_id="run_1").SerializeToString()


def get_run(request: GetRunRequest, context: grpc.ServicerContext) -> Run:
    caller = principal_of(context)
    if request.run_id == "run_1":
        return Run(etag=f"{request.run_id} of {caller.key_id} for {caller.request_id}")
    assert isinstance(context, LocalContext)
    context.error = ApiError(ERROR_REASON_RUN_NOT_FOUND)
    return Run()


def reads(access: Access.ValueType = ACCESS_SCOPE, *, point_read: bool = True) -> BatchReads:
    handler = Handler(
        get_run,
        MethodRules(access=access, point_read=point_read),
        streaming=False,
        runs_inline=lambda _: True,
        page_read=False,
        request_class=GetRunRequest,
        response_class=Run,
    )
    made = BatchReads()
    made.serve({GET_RUN: handler})
    return made


def key_read(**fields: Any) -> KeyRead:
    return KeyRead(**({"rpc": GET_RUN, "request": ONE, "key_id": "ak_1", "request_id": "r_1"} | fields))


def test_each_read_is_answered_in_its_place_for_its_key() -> None:
    unknown = GetRunRequest(run_id="run_2").SerializeToString()
    asked = [key_read(), key_read(request=unknown), key_read(key_id="ak_2", request_id="r_2")]
    first, second, third = reads().answer(ReadManyRequest(reads=asked)).answers
    assert Run.FromString(first.response).etag == "run_1 of ak_1 for r_1"
    assert Status.FromString(second.refusal).code == 5
    assert Run.FromString(third.response).etag == "run_1 of ak_2 for r_2"


@pytest.mark.parametrize(
    ("made", "read"),
    [
        (reads(), key_read(key_id="")),
        (reads(), key_read(rpc="/workflow_api.v1.RunsService/CancelRun")),
        (reads(), key_read(request=b"\xff")),
        (reads(point_read=False), key_read()),
        (reads(ACCESS_INTERNAL), key_read()),
        (reads(ACCESS_PUBLIC), key_read()),
    ],
    ids=["no key", "another RPC", "no request", "no point read", "an internal RPC", "a public RPC"],
)
def test_what_is_no_point_read_of_a_key_is_refused(made: BatchReads, read: KeyRead) -> None:
    with pytest.raises(ApiError) as refused:
        made.answer(ReadManyRequest(reads=[key_read(), read]))
    assert len(refused.value.problems) == 1
