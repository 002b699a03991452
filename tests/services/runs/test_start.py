"""StartRun: what a start leaves and answers. (contract 12)"""

import json

from tests.services.runs.world import World
from workflow_api.v1 import runs_pb2
from workflow_api.v1.pii_policy_pb2 import PII_MODE_OFF


def test_a_start_answers_the_run_as_it_can_be_read(world: World) -> None:
    answer = world.start(parameters={"count": 3}, input_text="é", client_reference="mine", labels={"b": "", "a": "1"})
    assert not answer.replayed
    assert answer.run == world.get(answer.run.summary.run_id)
    run = answer.run
    assert json.loads(run.parameters) == {"language": "en", "count": 3}
    assert run.summary.status == runs_pb2.RUN_STATUS_QUEUED
    assert run.summary.counts == runs_pb2.RunCounts(steps_total=2)
    assert dict(run.summary.labels) == {"a": "1", "b": ""}
    assert (run.summary.workflow_name, run.summary.version) == ("Plain", 1)
    assert (run.summary.client_reference, run.input_text, run.key_id) == ("mine", "é", world.key)
    assert (run.max_run_time.seconds, run.result_schema_version) == (9_000, "3")
    assert run.triggered_by == runs_pb2.TRIGGERED_BY_API_KEY
    assert run.pii_policy.mode == PII_MODE_OFF
    for absent in ("result", "result_json", "error", "data_purged_at", "pii_redaction", "inputs_manifest"):
        assert not run.HasField(absent)


def test_a_start_queues_the_first_segment_and_wakes_the_runtime(world: World) -> None:
    run_id = world.started()
    assert world.count("segments", f"run_id = '{run_id}' AND state = 'queued' AND ordinal = 1") == 1
    assert world.runtime.woken == 1
