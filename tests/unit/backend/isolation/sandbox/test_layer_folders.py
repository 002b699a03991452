"""The folders of a step are one tree of plain folders and files in every layer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.backend.isolation.sandbox.layers import EVERY_LAYER, each, opened
from tests.unit.backend.isolation.sandbox.steps import Steps

LOOK = """
import os
def entries(folder):
    kinds = {}
    for path in folder.rglob("*"):
        kind = "link" if path.is_symlink() else "folder" if path.is_dir() else path.read_text()
        kinds[path.relative_to(folder).as_posix()] = kind
    walked = [os.path.join(top, name) for top, _, names in os.walk(folder) for name in names]
    assert len(walked) == sum(kind not in ("link", "folder") for kind in kinds.values())
    return kinds
"""


@pytest.fixture(params=each(EVERY_LAYER))
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Steps]:
    with opened(request.param) as sandbox:
        yield Steps(sandbox, tmp_path)


def _folders(root: Path) -> dict[str, Any]:
    for path in ("run/files/first/deep/er/a.txt", "run/files/second/b.txt", "run/inputs/documents/deep/c.txt"):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(path.rpartition("/")[2])
    kept = root / "run" / "files"
    return {
        "needs": {"first": None, "second": None, "third": None},
        "files": {"first": kept / "first", "second": kept / "second"},
        "inputs": root / "run" / "inputs",
    }


def test_walking_through_files_and_inputs_finds_the_same_tree_in_every_layer(anywhere: Steps, tmp_path: Path) -> None:
    files, inputs = anywhere.run(
        f"{LOOK}\ndef run(context): return [entries(context.files), entries(context.inputs)]", **_folders(tmp_path)
    )
    folders = dict.fromkeys(("first", "first/deep", "first/deep/er", "second", "third"), "folder")
    assert files == {**folders, "first/deep/er/a.txt": "a.txt", "second/b.txt": "b.txt"}
    assert inputs == {"documents": "folder", "documents/deep": "folder", "documents/deep/c.txt": "c.txt"}


def test_workspace_and_outputs_are_empty_plain_folders_in_every_layer(anywhere: Steps, tmp_path: Path) -> None:
    found = anywhere.run(
        f"""{LOOK}
def run(context):
    own = [context.workspace, context.outputs]
    before = [entries(folder) for folder in own]
    for folder in own:
        (folder / "deep").mkdir()
        (folder / "deep" / "d.txt").write_text("d")
    return [before, [entries(folder) for folder in own], [folder.is_symlink() for folder in own]]
""",
        **_folders(tmp_path),
    )
    assert found == [[{}, {}], [{"deep": "folder", "deep/d.txt": "d"}] * 2, [False, False]]
    assert anywhere.files() == {"deep/d.txt": b"d"}


def test_a_step_changes_neither_files_nor_inputs(confined: Steps, tmp_path: Path) -> None:
    given = _folders(tmp_path)
    tried = confined.run(
        """
import os
def attempt(what, *arguments):
    try:
        what(*arguments)
    except OSError as error:
        return type(error).__name__
def run(context):
    tried = {}
    for file in (context.files / "second" / "b.txt", context.inputs / "documents" / "deep" / "c.txt"):
        tried |= {
            f"{file.name} write": attempt(file.write_text, "changed"),
            f"{file.name} truncate": attempt(os.truncate, file, 0),
            f"{file.name} remove": attempt(file.unlink),
            f"{file.name} beside": attempt((file.parent / "new").write_text, "new"),
            f"{file.name} folder": attempt((file.parent / "folder").mkdir),
            f"{file.name} rename": attempt(file.rename, file.parent / "renamed"),
            f"{file.name} link": attempt(os.link, file, context.workspace / f"linked-{file.name}"),
        }
    return tried
""",
        **given,
    )
    assert [name for name, refused in tried.items() if refused is None] == []
    assert {path.name: path.read_text() for path in (tmp_path / "run").rglob("*.txt")} == {
        name: name for name in ("a.txt", "b.txt", "c.txt")
    }


def test_a_view_of_files_is_removed_with_its_step(anywhere: Steps, tmp_path: Path) -> None:
    anywhere.run("def run(context): return None", **_folders(tmp_path))
    kept = tmp_path / "run" / "files"
    assert sorted(path.name for path in kept.iterdir()) == ["first", "second"]


def test_a_file_system_without_hard_links_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr("os.link", refused)
    with opened("none") as sandbox:
        look = f"{LOOK}\ndef run(context): return entries(context.files)['second/b.txt']"
        assert Steps(sandbox, tmp_path).run(look, **_folders(tmp_path)) == "b.txt"
