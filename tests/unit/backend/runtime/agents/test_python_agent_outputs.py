"""Outputs and shared files that Python agents leave, within their limits."""

import resource
from dataclasses import replace
from pathlib import Path

import pytest

from backend.runtime.agents import Limits
from backend.settings import OutputLimits
from tests.unit.backend.isolation.sandbox.layers import in_every_layer
from tests.unit.backend.isolation.sandbox.steps import LIMITS, Steps


def test_outputs_are_kept_by_path(steps: Steps) -> None:
    steps.run(
        """
        def run(context):
            (context.outputs / "sub" / "deep").mkdir(parents=True)
            (context.outputs / "a.txt").write_text("alpha")
            (context.outputs / "empty").touch()
            (context.outputs / "sub" / "deep" / "b ünï.bin").write_bytes(bytes(300_000))
            (context.outputs / "linked.txt").hardlink_to(context.outputs / "a.txt")
        """
    )
    assert steps.files() == {
        "a.txt": b"alpha",
        "empty": b"",
        "linked.txt": b"alpha",
        "sub/deep/b ünï.bin": bytes(300_000),
    }


@in_every_layer
def test_shared_files_are_kept_beside_outputs_and_told_apart(steps: Steps) -> None:
    steps.run(
        """
        import os
        def run(context):
            for folder in (context.outputs, context.shared):
                (folder / "sub").mkdir()
                (folder / "sub" / folder.name).write_text(folder.name)
            os.mkfifo(context.shared / "pipe")
        """
    )
    assert steps.files() == {"sub/outputs": b"outputs", "sub/shared": b"shared"}
    assert (steps.shared, steps.skipped) == ({"sub/shared"}, {"pipe": 1})


@pytest.mark.parametrize(
    ("limits", "kept", "skipped"),
    [
        pytest.param(OutputLimits(files=2), ["1/a", "2/b"], {"over_files": 2}, id="files"),
        pytest.param(OutputLimits(directories=3), ["1/a", "2/b", "3/c"], {"over_directories": 1}, id="directories"),
    ],
)
def test_outputs_and_shared_files_have_one_limit_together(
    steps: Steps, limits: OutputLimits, kept: list[str], skipped: dict[str, int]
) -> None:
    steps.run(
        """
        def run(context):
            for folder, paths in ((context.outputs, ("1/a", "2/b")), (context.shared, ("3/c", "4/d"))):
                for path in paths:
                    (folder / path).parent.mkdir()
                    (folder / path).touch()
        """,
        limits=replace(LIMITS, outputs=limits),
    )
    assert sorted(steps.files()) == kept
    assert steps.skipped == skipped


def test_a_step_without_outputs_leaves_no_folder(steps: Steps) -> None:
    assert steps.run("def run(context): return 1") == 1
    assert not steps.outputs.exists()


@in_every_layer
def test_links_and_pipes_in_outputs_are_left_out(steps: Steps, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    _, log = steps.run_logged(
        """
        import os
        def run(context):
            os.symlink(context.parameters["secret"], context.outputs / "file")
            os.symlink("/usr", context.outputs / "folder")
            os.mkfifo(context.outputs / "pipe")
            (context.outputs / "kept").write_text("kept")
        """,
        parameters={"secret": str(secret)},
    )
    assert steps.files() == {"kept": b"kept"}
    assert list(steps.outputs.iterdir()) == [steps.outputs / "kept"]
    assert log.count(b"is not a regular file and was left out") == 3
    assert steps.skipped == {"symlink": 2, "pipe": 1}


@pytest.mark.parametrize(
    ("limits", "kept", "skipped"),
    [
        pytest.param(OutputLimits(files=2), ["a", "b"], {"over_files": 3, "over_levels": 1}, id="files"),
        pytest.param(
            OutputLimits(directories=1), ["1/c", "a", "b"], {"over_directories": 2, "over_levels": 1}, id="directories"
        ),
        pytest.param(OutputLimits(levels=1), ["1/c", "2/f", "a", "b"], {"over_levels": 2}, id="levels"),
    ],
)
def test_files_past_a_limit_are_left_out_and_counted(
    steps: Steps, limits: OutputLimits, kept: list[str], skipped: dict[str, int]
) -> None:
    value = steps.run(
        """
        def run(context):
            for path in ("a", "b", "1/c", "1/x/d", "1/x/" + "y/" * 40 + "e", "2/f"):
                (context.outputs / path).parent.mkdir(parents=True, exist_ok=True)
                (context.outputs / path).touch()
            return "done"
        """,
        limits=replace(LIMITS, outputs=limits),
    )
    assert value == "done"
    assert sorted(steps.files()) == kept
    assert steps.skipped == skipped


def test_directories_without_files_count_towards_their_limit(steps: Steps) -> None:
    steps.run(
        """
        def run(context):
            for number in range(5):
                (context.outputs / str(number)).mkdir()
            for number in (1, 3, 4):
                (context.outputs / str(number) / "f").touch()
        """,
        limits=replace(LIMITS, outputs=OutputLimits(directories=3)),
    )
    assert sorted(steps.files()) == ["1/f"]
    assert steps.skipped == {"over_directories": 2}


@in_every_layer
@pytest.mark.parametrize(
    "replacement",
    [
        "os.symlink(context.parameters['elsewhere'], context.outputs)",
        "os.symlink(context.workspace, context.outputs)",
        "os.symlink('nowhere', context.outputs)",
    ],
)
def test_outputs_replaced_by_a_link_count_as_one_and_are_not_followed(
    steps: Steps, tmp_path: Path, replacement: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("secret")
    replaced = steps.run(
        f"""
        import os
        def run(context):
            (context.workspace / "own").touch()
            try:
                os.rmdir(context.outputs)
            except PermissionError:
                return False
            {replacement}
            return True
        """,
        parameters={"elsewhere": str(tmp_path / "elsewhere")},
    )
    assert steps.files() == {}
    # Some layers let nobody replace the folder.
    assert steps.skipped == ({"symlink": 1} if replaced else {})


def test_a_large_output_takes_constant_memory(steps: Steps) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    steps.run(
        """
        def run(context):
            with open(context.outputs / "large", "wb") as file:
                for _ in range(400):
                    file.write(b"x" * 1_000_000)
        """,
        limits=Limits(memory_mb=512, timeout_seconds=120, workspace_mb=512),
    )
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    large = steps.outputs / "large"
    assert large.stat().st_size == 400_000_000
    large.unlink()
    assert grown < 32 * 1024


def test_two_thousand_outputs_are_kept(steps: Steps) -> None:
    steps.run("def run(context):\n    for n in range(2001): (context.outputs / str(n)).write_text(str(n))")
    assert len(steps.files()) == 2001
