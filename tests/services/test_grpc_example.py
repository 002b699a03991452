"""examples/grpc_client.py does over gRPC what it says."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.poll import until
from workflow_api.v1 import runs_pb2
from workflow_api.v1.runs_pb2_grpc import RunsServiceStub
from workflow_api_testing import TestBackend

ROOT = Path(__file__).parents[2]


def example(backend: TestBackend, *arguments: str | Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, ROOT / "examples" / "grpc_client.py", backend.address, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "generated")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_example_waits_for_its_run_and_fetches_its_outputs(backend: TestBackend, tmp_path: Path) -> None:
    parameters = [{"name": "top", "type": "integer"}, {"name": "title", "type": "string"}]
    backend.add_workflow("Digest", parameters=parameters)
    running = example(backend, "Digest", tmp_path / "fetched", "top=5", "title=a=b")
    runs = backend.stub(RunsServiceStub)
    [item] = until(lambda: runs.ListRuns(runs_pb2.ListRunsRequest()).items, "the run")
    assert runs.GetRun(runs_pb2.GetRunRequest(run_id=item.run_id)).parameters == '{"top":5,"title":"a=b"}'
    backend.finish_run(item.run_id, result={"words": 3}, outputs={"words.csv": "a,b\n"})
    out, err = running.communicate(timeout=120)
    assert (running.returncode, err) == (0, "")
    assert out.splitlines()[0] == f'{item.run_id} is completed: {{"words":3}}'
    assert (tmp_path / "fetched" / "work" / "words.csv").read_bytes() == b"a,b\n"


def test_the_example_tells_a_refusal_with_its_fields(backend: TestBackend, tmp_path: Path) -> None:
    backend.add_workflow("Digest", parameters=[{"name": "top", "type": "integer"}])
    _, err = example(backend, "Digest", tmp_path, "top=five").communicate(timeout=120)
    assert err.startswith("INVALID_ARGUMENT INVALID_PARAMETERS: ")
    assert "'top': 'must be" in err
