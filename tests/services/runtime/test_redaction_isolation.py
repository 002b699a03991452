"""One key's sweeps harm no other key's, and the processes that read untrusted content can do nothing else."""

import json
import textwrap
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from backend.common.secrets import Secrets
from backend.isolation.confined import ConfinedError, ConfinedPool, FailureKind
from backend.resources.models import Models
from backend.resources.redaction.confined_redactor import OVER_LIMIT, ConfinedRedactor, RedactionError
from backend.runtime.run_redaction import RunRedaction
from backend.services.workflows.pii_policy import normalise
from backend.settings import ModelProvider, RedactionLimits
from redaction.counts import Counts
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.support.poll import until
from tests.unit.redaction.malformed import MALFORMED

pytestmark = pytest.mark.long

MAIL = "jane.roe@example.com"
LINE = f"from {MAIL} at 10.0.0.1 on 2024-01-02, call 202-555-0143\n"
LONG = LINE * 200_000
POLICY = normalise({"mode": "redact"})
KEY = "not-a-key-of-anybody"
NOTHING = Reply(calls=(ToolCall("final_result", {"mentions": []}),))


@pytest.fixture(name="redactor", scope="module")
def _redactor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfinedRedactor]:
    redactor = ConfinedRedactor(Models(Secrets(), {}), scratch=tmp_path_factory.mktemp("scratch"))
    yield redactor
    redactor.close()


@pytest.fixture(name="limited", scope="module")
def _limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfinedRedactor]:
    limits = RedactionLimits(seconds=0.5, seconds_per_mb=0.01, processes=1)
    redactor = ConfinedRedactor(Models(Secrets(), {}), limits=limits, scratch=tmp_path_factory.mktemp("scratch"))
    yield redactor
    redactor.close()


def copies(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_another_keys_values_and_files_are_swept_beside_hostile_ones(
    redactor: ConfinedRedactor, tmp_path: Path
) -> None:
    halt = threading.Event()
    source, mine = tmp_path / "long.txt", tmp_path / "mine.txt"
    source.write_text(LONG)
    mine.write_text(MAIL)
    with ThreadPoolExecutor(16) as threads:
        hostile = [threads.submit(redactor.values, POLICY, [LONG], halt, owner="hostile") for _ in range(6)]
        hostile += [
            threads.submit(redactor.file, POLICY, source, tmp_path / str(number), "a.txt", halt, owner="hostile")  # type: ignore[arg-type]
            for number in range(6)
        ]
        until(lambda: len(redactor.pids) >= 2, "the hostile sweeps")
        assert redactor.values(POLICY, [MAIL], owner="other")[0] == ["[EMAIL_ADDRESS]"]
        redactor.file(POLICY, mine, tmp_path / "swept.txt", "mine.txt", owner="other")
        assert (tmp_path / "swept.txt").read_text() == "[EMAIL_ADDRESS]"
        assert not any(sweep.done() for sweep in hostile)
        halt.set()
        for sweep in hostile:
            assert isinstance(sweep.exception(), RedactionError)


def test_another_keys_run_completes_while_hostile_values_are_swept(idle_world: RuntimeWorld) -> None:
    world, hostile = idle_world, idle_world.key
    code = f"def run(context):\n    return {LINE!r} * 100_000 if context.input_text else {MAIL!r}"
    world.apply(json.dumps({"kind": "Agent", "name": "flood", "type": "python", "code": code}))
    policy = {"pii_policy": {"mode": "redact"}, "result": {"step": "main"}}
    world.local_runtime = world.new_runtime(world.folder / "flooded", step_slots=2)
    world.local_runtime.start()
    try:
        floods = [world.run("Flood", [agent_step("main", "flood")], workflow=policy, input_text="much")]
        floods += [world.started("Flood", input_text="much") for _ in range(2)]
        for run_id in floods[:2]:
            world.until_event(run_id, "step.started")
        world.key = world.new_key(name="other")
        other = world.started("Flood")
        assert world.until_ended(other).status == "completed"
        world.key = hostile
        assert not {world.status(run_id) for run_id in floods} & {"completed", "failed"}
        for run_id in floods:
            world.cancel(run_id)
        for run_id in floods:
            assert world.until_ended(run_id).status == "cancelled"
    finally:
        world.local_runtime.stop()


def test_a_file_past_its_processor_time_is_withheld_and_named(limited: ConfinedRedactor, tmp_path: Path) -> None:
    folder = tmp_path / "inputs"
    folder.mkdir()
    (folder / f"{MAIL}.txt").write_text(LONG)
    (folder / "short.txt").write_text(MAIL)
    redaction = RunRedaction(limited, POLICY, calls_made=0, owner="key")
    counts = redaction.folder(folder)
    assert (counts.files, counts.withheld_files) == (2, 1)
    assert [path.name for path in folder.iterdir()] == ["short.txt"]
    [warning] = redaction.take_warnings()
    assert warning.startswith("The file '[EMAIL_ADDRESS].txt' was withheld")
    assert "0.642 seconds of processor time" in warning
    assert redaction.take_warnings() == []


def test_files_withheld_from_later_steps_are_reported_after_an_approval_too(idle_world: RuntimeWorld) -> None:
    code = f"""
        def run(context):
            (context.outputs / "long.txt").write_text({LINE!r} * 100_000)
    """
    idle_world.apply(json.dumps({"kind": "Agent", "name": "long", "type": "python", "code": textwrap.dedent(code)}))
    policy = {"pii_policy": {"mode": "redact", "stages": ["steps"]}}
    limits = RedactionLimits(seconds=0.5, seconds_per_mb=0.01, processes=1)
    idle_world.local_runtime = idle_world.new_runtime(idle_world.folder / "limited", redaction=limits)
    idle_world.local_runtime.start()
    try:
        steps = [agent_step("main", "long"), gate("review", "main"), agent_step("read", "reader", "main", "review")]
        run_id = idle_world.run("Parks", steps, workflow=policy)
        idle_world.until_status(run_id, "waiting_for_approval")
        idle_world.decide(idle_world.approvals(run_id)["review"], True)
        row = idle_world.until_ended(run_id)
        assert row.status == "completed"
        [warning] = json.loads(row.warnings)
        assert "long.txt' was withheld" in warning
        warnings = [event for segment in idle_world.all_events(run_id) for event in segment if event.type == "warning"]
        assert {json.loads(event.data)["message"] for event in warnings} == {warning}
    finally:
        idle_world.local_runtime.stop()


def test_a_detecting_policy_releases_files_that_could_not_be_searched(
    limited: ConfinedRedactor, tmp_path: Path
) -> None:
    source = tmp_path / "long.txt"
    source.write_text(LONG)
    outcome, counts = limited.file(normalise({"mode": "detect"}), source, tmp_path / "target", "long.txt", owner="key")
    assert (outcome.withheld, outcome.reason, counts.withheld_files) == (False, OVER_LIMIT, 0)


def test_values_past_their_processor_time_fail_with_the_bound(limited: ConfinedRedactor) -> None:
    with pytest.raises(RedactionError, match=r"more than \d\.\d+ seconds of processor time") as failed:
        limited.values(POLICY, [LONG], owner="key")
    assert failed.value.over_limit
    assert limited.values(POLICY, [MAIL], owner="key")[0] == ["[EMAIL_ADDRESS]"]


def test_no_copy_of_swept_content_stays(limited: ConfinedRedactor, tmp_path: Path) -> None:
    scratch = limited.scratch
    source = tmp_path / "source.txt"
    for content in (MAIL, LONG):
        source.write_text(content)
        limited.file(POLICY, source, tmp_path / "target", "source.txt", owner="key")
        assert copies(scratch) == []
    assert {path.name for path in tmp_path.iterdir()} == {"source.txt", "target"}


def test_a_halted_sweep_leaves_no_copy(redactor: ConfinedRedactor, tmp_path: Path) -> None:
    source, target, halt = tmp_path / "long.txt", tmp_path / "target", threading.Event()
    source.write_text(LONG)
    scratch = redactor.scratch
    with ThreadPoolExecutor(1) as threads:
        sweeping = threads.submit(redactor.file, POLICY, source, target, "long.txt", halt, owner="key")
        until(lambda: copies(scratch), "the sweep")
        halt.set()
        assert isinstance(sweeping.exception(), RedactionError)
    assert copies(scratch) == []
    assert [path.name for path in tmp_path.iterdir()] == ["long.txt"]


def test_files_of_a_killed_process_are_removed_at_the_next_start(tmp_path: Path) -> None:
    left = tmp_path / "0" / "1" / "source"
    left.parent.mkdir(parents=True)
    left.write_text(MAIL)
    ConfinedRedactor(Models(Secrets(), {}), scratch=tmp_path).close()
    assert not left.exists()


def test_a_file_that_takes_more_memory_than_allowed_is_withheld(tmp_path: Path) -> None:
    limits = RedactionLimits(memory_mb=24, processes=1)
    redactor = ConfinedRedactor(Models(Secrets(), {}), limits=limits, scratch=tmp_path / "scratch")
    source = tmp_path / "long.json"
    source.write_text(json.dumps(["\u4e00" * 4_000_000], ensure_ascii=False))
    try:
        outcome, counts = redactor.file(POLICY, source, tmp_path / "target", "long.json", owner="key")
        assert (outcome.withheld, outcome.reason, counts.withheld_files) == (True, OVER_LIMIT, 1)
        assert redactor.values(POLICY, [MAIL], owner="key")[0] == ["[EMAIL_ADDRESS]"]
    finally:
        redactor.close()


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_that_is_released_has_a_warning(redactor: ConfinedRedactor, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "inputs"
    folder.mkdir()
    (folder / name).write_bytes(MALFORMED[name])
    redaction = RunRedaction(redactor, normalise({"mode": "detect"}), calls_made=0, owner="key")
    assert redaction.folder(folder).withheld_files == 0
    assert (folder / name).read_bytes() == MALFORMED[name]
    [warning] = redaction.take_warnings()
    assert warning == f"The file '{name}' could not be searched for personal data: it is malformed."


def test_a_file_that_expands_to_too_much_is_withheld_and_named(tmp_path: Path) -> None:
    limits = RedactionLimits(processes=1, expanded_mb=1)
    redactor = ConfinedRedactor(Models(Secrets(), {}), scratch=tmp_path / "scratch", limits=limits)
    try:
        (tmp_path / "inputs").mkdir()
        with zipfile.ZipFile(tmp_path / "inputs" / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.txt", "a " * 750_000)
        redaction = RunRedaction(redactor, POLICY, calls_made=0, owner="key")
        assert redaction.folder(tmp_path / "inputs").withheld_files == 1
        expected = (
            "The file 'a.zip' was withheld, because it could not be searched for personal data: it expands to more"
        )
        assert redaction.take_warnings() == [f"{expected} than 1 MB."]
    finally:
        redactor.close()


def test_the_deepest_json_that_a_caller_may_send_is_swept(redactor: ConfinedRedactor) -> None:
    deep = "[" * 1_000 + f'"{MAIL}"' + "]" * 1_000
    swept, _ = redactor.text(POLICY, deep, owner="key")
    assert swept.text == "[" * 1_000 + '"[EMAIL_ADDRESS]"' + "]" * 1_000


def test_a_file_that_the_program_fails_at_is_withheld_and_named(
    redactor: ConfinedRedactor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ConfinedError(FailureKind.FAILED, "an unexpected failure (KeyError)", {"model_calls": 0, "retry": False})

    folder = tmp_path / "inputs"
    folder.mkdir()
    (folder / "a.txt").write_text(MAIL)
    redaction = RunRedaction(redactor, POLICY, calls_made=0, owner="key")
    names, _ = redactor.names(POLICY, ["a.txt"], owner="key")
    with monkeypatch.context() as fault:
        fault.setattr(redactor, "names", lambda *_, **__: (names, Counts()))
        fault.setattr(ConfinedPool, "run", fail)
        assert redaction.folder(folder).withheld_files == 1
        with pytest.raises(RedactionError) as failed:
            redactor.values(POLICY, [MAIL], owner="key")
    assert failed.value.permanent
    assert list(folder.iterdir()) == []
    warning = "The file 'a.txt' was withheld, because its sweep for personal data failed."
    assert redaction.take_warnings() == [warning]


def test_sweep_processes_have_no_rights_and_no_secrets(tmp_path: Path) -> None:
    server = OpenAIServer()
    server.will(NOTHING)
    secrets = Secrets({"model": "env:MODEL_KEY", "database": "env:DATABASE_PASSWORD"}, {"MODEL_KEY": KEY})
    models = Models(secrets, {"openai-chat": ModelProvider(api_key="model", base_url=server.base_url)})
    redactor = ConfinedRedactor(models, scratch=tmp_path / "scratch")
    try:
        redactor.values(POLICY, [MAIL], owner="key")
        sweeping = redactor.pids
        redactor.values(normalise({"mode": "redact", "model": "openai-chat:any"}), ["Ask Ada"], owner="key")
        for pid in redactor.pids:
            shown = status(pid)
            assert {int(shown[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {0}
            assert (shown["NoNewPrivs"], shown["Seccomp"]) == ("1", "2")
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert not any(KEY.encode() in memory(pid) for pid in sweeping)
        assert any(KEY.encode() in memory(pid) for pid in redactor.pids)
    finally:
        redactor.close()
        server.close()


def memory(pid: int) -> bytes:
    """All that a process holds."""
    held = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as file:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, *_ = line.split()
            if rights.startswith("rw"):
                start, end = (int(place, 16) for place in span.split("-"))
                file.seek(start)
                held.append(file.read(end - start))
    return b"".join(held)
