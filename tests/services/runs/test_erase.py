"""EraseRunData. (contract 20)"""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backend.services.runs.lifecycle import RunResult
from tests.services.calls import RefusedError
from tests.services.runs.world import World
from workflow_api.v1 import outputs_pb2, runs_pb2

SECRET = "Zebedee"


def files_of(folder: Path) -> list[Path]:
    return [file for file in (folder / "objects").rglob("*") if file.is_file()]


def full_of_content(world: World) -> str:
    """A failed run with the secret in every place that can hold content."""
    run_id = world.started(
        "Plain", parameters={"language": "en"}, input_text=SECRET, client_reference="mine", labels={"a": "1"}
    )
    segment_id = world.begin(run_id)
    output_id = world.output(run_id, f"first/{SECRET}.txt", SECRET.encode())
    world.ask(run_id, segment_id, "first")
    world.write(segment_id, "step.progress", data={"message": SECRET})
    world.cancel(run_id, reason=SECRET)
    result = RunResult(
        value=f'"{SECRET}"',
        output_id=output_id,
        size_bytes=9,
        sha256="ab",
        error_code="result_schema_mismatch",
        error_message=SECRET,
        summary_markdown=SECRET,
    )
    world.close(
        run_id,
        "failed",
        error_code="node_failed",
        error_message=SECRET,
        result=result,
        warnings=[SECRET, SECRET],
    )
    return run_id


def test_erasure_removes_every_value_and_leaves_ids_times_and_counts(world: World, tmp_path: Path) -> None:
    run_id = full_of_content(world)
    before = world.get(run_id)
    world.clock.advance(seconds=1)
    answer = world.erase(run_id, reason="asked to")
    assert answer.data_purged_at.ToMilliseconds() == world.clock.now
    run = world.get(run_id)
    assert run.data_purged_at == answer.data_purged_at
    for gone in ("parameters", "input_text", "inputs_manifest", "result", "summary_markdown", "result_json"):
        assert not run.HasField(gone)
    assert run.error == runs_pb2.RunError(code="node_failed")
    assert run.result_error == runs_pb2.RunError(code="result_schema_mismatch")
    assert list(run.summary.warnings) == ["erased", "erased"]
    before.summary.ClearField("warnings")
    run.summary.ClearField("warnings")
    assert run.summary == before.summary
    assert run.summary.counts.outputs == 1
    assert (run.pii_policy, run.key_id) == (before.pii_policy, before.key_id)
    for table in ("runs", "steps", "approvals", "segments", "outputs", "events"):
        assert SECRET not in str(world.dump(table))
    world.removals.round()
    assert not files_of(tmp_path)


@pytest.mark.parametrize("method", ["ListRunSteps", "ListRunEvents", "ListRunApprovals"])
def test_an_erasure_removes_steps_and_events(world: World, method: str) -> None:
    run_id = world.finished()
    world.erase(run_id)
    with pytest.raises(RefusedError) as caught:
        world.runs(method, getattr(runs_pb2, f"{method}Request")(run_id=run_id), world.key)
    assert caught.value.reason == "not_found"


def test_an_unfinished_run_cannot_be_erased(world: World) -> None:
    run_id = world.started()
    for status, move in (("queued", None), ("running", world.begin)):
        if move:
            move(run_id)
        with pytest.raises(RefusedError) as caught:
            world.erase(run_id)
        assert (caught.value.reason, caught.value.metadata) == ("run_not_terminal", {"status": status})


def test_an_erased_run_is_already_purged(world: World) -> None:
    run_id = world.finished()
    world.clock.now = 1_790_000_000_007
    world.erase(run_id)
    world.clock.advance(seconds=3)
    with pytest.raises(RefusedError) as caught:
        world.erase(run_id)
    assert caught.value.reason == "already_purged"
    assert caught.value.metadata == {"data_purged_at": "2026-09-21T14:13:20.007+00:00"}


def test_erasures_at_once_are_202_or_already_purged(world: World) -> None:
    run_id = world.finished()
    barrier = threading.Barrier(8)

    def erase(_: int) -> str:
        barrier.wait()
        try:
            world.erase(run_id)
        except RefusedError as error:
            return error.reason
        return "erased"

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(erase, range(8)))
    assert sorted(outcomes) == ["already_purged"] * 7 + ["erased"]


def test_erasing_ends_a_pending_sweep_and_keeps_the_manifest(world: World) -> None:
    run_id = world.finished("Swept")
    world.output(run_id, "first/a.txt", b"x")
    world.erase(run_id)
    assert world.row(run_id).redaction_state == "done"
    assert not world.outputs("ListOutputs", outputs_pb2.ListOutputsRequest(run_id=run_id), world.key).items
    manifest = world.outputs("GetPiiRedaction", outputs_pb2.GetPiiRedactionRequest(run_id=run_id), world.key)
    assert manifest.mode == "detect"
    assert [(stage.stage, stage.status) for stage in manifest.stages] == [
        ("steps", "completed"),
        ("outputs", "skipped"),
    ]


def test_the_idempotency_record_outlives_the_data(world: World) -> None:
    run_id = world.start("Plain", "k", input_text="x").run.summary.run_id
    world.begin(run_id)
    world.close(run_id)
    world.erase(run_id)
    replay = world.start("Plain", "k", input_text="x")
    assert replay.replayed
    assert replay.run == world.get(run_id)


def test_an_erasure_notifies_the_runtime_and_is_audited(world: World) -> None:
    run_id = world.finished()
    world.erase(run_id, reason="asked to")
    assert world.runtime.forgotten == [run_id]
    assert world.count("audit_records", f"target = '{run_id}' AND action = 'run.erased'") == 1


def test_an_erasure_is_answered_without_the_object_store(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = world.finished()
    asked: list[str] = []
    monkeypatch.setattr(world.objects, "delete_prefix", asked.append)
    world.erase(run_id)
    assert not asked
    world.removals.round()
    assert asked == [f"runs/{run_id}/"]


def test_objects_that_could_not_be_removed_are_removed_later(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(prefix: str) -> None:
        raise OSError(prefix)

    run_id = world.finished()
    world.output(run_id, "first/a.txt", b"x")
    world.erase(run_id)
    with monkeypatch.context() as fault, caplog.at_level(logging.CRITICAL):
        fault.setattr(world.objects, "delete_prefix", away)
        world.removals.round()
    assert world.count("pending_removals") == 1
    world.removals.round()
    assert world.count("pending_removals") == 0
    assert not files_of(tmp_path)


def test_a_run_whose_objects_cannot_be_removed_delays_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runs = [world.finished() for _ in range(3)]
    for run_id in runs:
        world.erase(run_id)
    forgotten: list[list[str]] = []

    def locked(prefix: str) -> None:
        forgotten.append([*world.runtime.removed])
        if runs[0] in prefix:
            raise OSError(prefix)

    monkeypatch.setattr(world.objects, "delete_prefix", locked)
    with caplog.at_level(logging.CRITICAL):
        world.removals.round()
    assert [row.run_id for row in world.dump("pending_removals")] == runs[:1]
    assert forgotten == [runs] * 3, "what is not in the store went first"


def test_removals_end_when_the_service_does(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for run_id in [world.finished() for _ in range(2)]:
        world.erase(run_id)
    monkeypatch.setattr(world.objects, "delete_prefix", lambda _: world.removals.halt())
    world.removals.round()
    assert world.count("pending_removals") == 1
