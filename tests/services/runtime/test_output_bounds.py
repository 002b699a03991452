"""Files of a step are promoted under safe names and within bounds; one warning counts the others."""

import io
import json
import ntpath
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.services.outputs.bundle import Bundle
from backend.services.outputs.sql import outputs_of
from backend.settings import OutputLimits
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate
from tests.support.poll import until

ODD_NAMES = {
    r"s\..\..\win.txt": "s%5C..%5C..%5Cwin.txt",
    "C:/x": "C%3A/x",
    "line\nbreak\x7f": "line%0Abreak%7F",
    "dots.": "dots%2E",
    "blank ": "blank%20",
    "a%5Cb": "a%255Cb",
    r"a\b": "a%5Cb",
    "plain.txt": "plain.txt",
}

AGENTS = {
    "odd": """
        def run(context):
            for name in context.parameters["names"]:
                path = context.outputs / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(name)
    """,
    "mixed": """
        import os, socket
        def run(context):
            os.chdir(context.outputs)
            for name in ("a", "b", "c"):
                open(name, "w").close()
            os.symlink("a", "link")
            os.mkfifo("pipe")
            os.makedirs("1/2/3")
            open("1/2/3/deep", "w").close()
    """,
    # Tiny frames, then a file that comes a byte at a time and never ends.
    "flood": """
        import json, os, stat
        def frame(path, size):
            data = json.dumps({"folder": "outputs", "path": path, "size": size}).encode()
            return bytes([4]) + len(data).to_bytes(4, "big") + data
        def run(context):
            context.progress("began")
            fd = next(n for n in range(3, 1024)
                      if os.path.exists(f"/proc/self/fd/{n}") and stat.S_ISSOCK(os.fstat(n).st_mode))
            data = b"".join(frame(f"{n}/{n}/{n}", 0) for n in range(2_000)) + frame("endless", 400_000_000)
            while data:
                data = data[os.write(fd, data):]
            while True:
                os.write(fd, b"x")
    """,
}


@pytest.fixture
def bounded(idle_world: RuntimeWorld, tmp_path: Path) -> Iterator[RuntimeWorld]:
    """A world whose steps may leave two files, two directories deep."""
    idle_world.local_runtime = idle_world.new_runtime(tmp_path / "data", outputs=OutputLimits(files=2, levels=2))
    idle_world.local_runtime.start()
    yield idle_world
    idle_world.local_runtime.stop()


def apply(world: RuntimeWorld) -> None:
    world.apply(
        "\n---\n".join(
            json.dumps({"kind": "Agent", "name": name, "type": "python", "code": textwrap.dedent(code)})
            for name, code in AGENTS.items()
        )
    )


ODD = {"parameters": [{"name": "names", "type": "json"}]}


def test_names_of_outputs_stay_inside_their_folder_on_every_system(world: RuntimeWorld, tmp_path: Path) -> None:
    apply(world)
    steps = [agent_step("odd", "odd"), gate("review", "odd"), agent_step("read", "reader", "odd", "review")]
    run_id = world.run(
        "Odd names", steps, workflow={**ODD, "result": {"step": "read"}}, parameters={"names": list(ODD_NAMES)}
    )
    world.until_status(run_id, "waiting_for_approval")
    world.decide(world.approvals(run_id)["review"], True)
    row = world.until_ended(run_id)

    rows = world.services.database.read(lambda tx: outputs_of(tx, run_id))
    paths = {row.path for row in rows if row.step == "odd"}
    assert paths == {f"odd/{safe}" for safe in ODD_NAMES.values()}
    assert json.loads(row.result)["files"] == {f"odd/{safe}": name for name, safe in ODD_NAMES.items()}
    assert json.loads(row.warnings) == []
    bundle = Bundle(rows, world.objects)
    with zipfile.ZipFile(io.BytesIO(b"".join(bundle.parts(0, bundle.size)))) as archive:
        assert {*archive.namelist()} == {*paths, "result.json"}
        archive.extractall(tmp_path / "unpacked")
    unpacked = (path.relative_to(tmp_path / "unpacked") for path in (tmp_path / "unpacked").rglob("*"))
    assert {path.as_posix() for path in unpacked} >= paths
    for path in paths:
        on_windows = ntpath.normpath(ntpath.join(r"D:\out", path))
        assert on_windows == "D:\\out\\" + path.replace("/", "\\")


def test_files_that_are_not_promoted_are_in_one_warning_by_kind(bounded: RuntimeWorld) -> None:
    apply(bounded)
    run_id = bounded.run("Mixed", [agent_step("mixed", "mixed"), gate("review", "mixed")])
    bounded.until_status(run_id, "waiting_for_approval")
    bounded.decide(bounded.approvals(run_id)["review"], True)
    row = bounded.until_ended(run_id)
    message = (
        "Step 'mixed' left files that are no outputs: 1 symbolic links, 1 named pipes, "
        "1 over the limit of 2 files, 1 more than 2 directories deep."
    )
    assert json.loads(row.warnings) == [message]
    warnings = [event for segment in bounded.all_events(run_id) for event in segment if event.type == "warning"]
    assert len(warnings) == 1
    rows = bounded.services.database.read(lambda tx: outputs_of(tx, run_id))
    assert [row.path for row in rows] == ["mixed/a", "mixed/b"]


def test_a_flood_of_tiny_frames_delays_no_run_of_another_key(world: RuntimeWorld) -> None:
    apply(world)
    flood = world.run("Flood", [agent_step("flood", "flood"), agent_step("flood2", "flood")])
    world.until_event(flood, "step.progress")
    other = world.new_key()
    run_id = world.run(
        "Other", [agent_step("chat", "chatty"), agent_step("write", "writer", "chat")], key=other, input_text="x"
    )
    assert world.until_ended(run_id).status == "completed"
    assert world.status(flood) == "running"
    world.cancel(flood)
    assert world.until_ended(flood).status == "cancelled"
    until(lambda: not (world.work / flood).exists(), "its files to be removed")
