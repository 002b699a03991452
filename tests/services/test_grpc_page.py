"""The code on docs/grpc.md works as it stands there."""

import re
from pathlib import Path
from typing import Any

import grpc
import pytest

from workflow_api.v1 import runs_pb2
from workflow_api.v1.runs_pb2_grpc import RunsServiceStub
from workflow_api_testing import TestBackend

PAGE = (Path(__file__).parents[2] / "docs" / "grpc.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def defined(name: str) -> Any:
    """Returns what the block of the page defines that has this name at the beginning of a line."""
    [block] = [block for block in BLOCKS if re.search(rf"^(def )?{name}\b", block, re.MULTILINE)]
    scope: dict[str, Any] = {"grpc": grpc}
    exec(block, scope)  # noqa: S102 - the block is of this repository
    return scope[name]


def test_a_channel_with_the_options_of_the_page_reads_the_reason_of_a_refusal(backend: TestBackend) -> None:
    with grpc.insecure_channel(backend.address, options=defined("OPTIONS")) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            RunsServiceStub(channel).GetRun(runs_pb2.GetRunRequest(run_id="run_none"), timeout=60)
        assert defined("reason_of")(refused.value) == "RUN_NOT_FOUND"
