"""Attacks of a hostile step on the disk of the machine."""

import tempfile
from pathlib import Path

import pytest

from backend.runtime.agents import Limits, StepFailed
from tests.unit.backend.isolation.sandbox.escapes.attempt import ATTEMPT
from tests.unit.backend.isolation.sandbox.steps import Steps

SMALL = Limits(memory_mb=256, timeout_seconds=60, workspace_mb=8)


ONE_FILE = "write('one', 40)"
TINY_FILES = "[open(f'{place}/tiny-{n}', 'w').close() for n in range(6000)]"


@pytest.mark.parametrize(
    ("fill", "folder"),
    [
        pytest.param(ONE_FILE, "workspace", id="one file"),
        pytest.param("[write(f'many-{n}', 1) for n in range(40)]", "workspace", id="many files"),
        pytest.param(
            "[held.append(write(f'deleted-{n}', 1)) or os.unlink(f'{place}/deleted-{n}') for n in range(40)]",
            "workspace",
            id="deleted files",
        ),
        pytest.param(TINY_FILES, "workspace", id="tiny files"),
        pytest.param("[os.mkdir(f'{place}/folder-{n}') for n in range(6000)]", "workspace", id="folders"),
        pytest.param("sparse('sparse', 40)", "workspace", id="beyond the end"),
        pytest.param(ONE_FILE, "outputs", id="one file, outputs"),
        pytest.param(TINY_FILES, "temporary", id="tiny files, temporary"),
    ],
)
def test_the_disk_is_bounded(confined: Steps, fill: str, folder: str) -> None:
    """Writes up to 40 MiB where 8 are allowed; the files are removed with the step."""
    with pytest.raises(StepFailed) as failed:
        confined.run(
            f"""
            import os, tempfile, time
            held = []
            def write(name, count):
                file = open(f"{{place}}/{{name}}", "wb", buffering=0)
                for _ in range(count):
                    file.write(bytes(1024 * 1024))
                return file
            def sparse(name, count):
                with open(f"{{place}}/{{name}}", "wb") as file:
                    file.truncate(count * 1024 * 1024)
            def run(context):
                global place
                place = {{"temporary": tempfile.gettempdir()}}.get("{folder}") or getattr(context, "{folder}", None)
                {fill}
                time.sleep(20)
            """,
            limits=SMALL,
        )
    assert failed.value.type == "WorkspaceLimit"


@pytest.mark.parametrize(("name", "depth"), [("d" * 200, 60), ("d", 1500)])
def test_files_too_deep_to_be_named_count_and_go(
    confined: Steps, name: str, depth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paths are longer than the kernel allows, or deeper than a recursive program can go."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    with pytest.raises(StepFailed) as failed:
        confined.run(
            """
            import os, time
            def run(context):
                os.chdir(context.workspace)
                for _ in range(context.parameters["depth"]):
                    os.mkdir(context.parameters["name"])
                    os.chdir(context.parameters["name"])
                for n in range(20):
                    with open(str(n), "wb") as file:
                        file.write(bytes(1024 * 1024))
                time.sleep(20)
            """,
            parameters={"name": name, "depth": depth},
            limits=SMALL,
        )
    assert failed.value.type == "WorkspaceLimit"
    assert list(scratch.iterdir()) == []


def test_other_places_for_files_are_closed_or_count(confined: Steps) -> None:
    written = confined.run(
        ATTEMPT
        + """
def run(context):
    places = ["/", "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/home", "/usr/lib", "/inputs"]
    return [p for p in [*places, str(context.inputs)] if os.path.isdir(p) and attempt(open, f"{p}/step", "x") is None]
"""
    )
    allowed = {"/tmp", "/dev/shm"} if confined.sandbox.layer.name == "bwrap" else set()  # noqa: S108 - its own there
    assert set(written) <= allowed
