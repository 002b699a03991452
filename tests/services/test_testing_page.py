"""docs/testing.md has tests that pass as they stand there, and names what can be used in them."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from workflow_api_testing import FakeBackend, TestBackend

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SETTINGS = "[pytest]\nfilterwarnings = error\n"


def test_the_tests_of_the_page_pass_as_written(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) == 3
    for number, block in enumerate(blocks):
        (tmp_path / f"test_{number}.py").write_text(block, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(SETTINGS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", tmp_path],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'generated'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout


@pytest.mark.parametrize("kind", [TestBackend, FakeBackend])
def test_the_page_names_every_method_with_its_arguments(kind: type) -> None:
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and name != "close":
            assert f"{name}(" in rows, name
            keywords = [
                each.name for each in inspect.signature(method).parameters.values() if each.kind == each.KEYWORD_ONLY
            ]
            described = re.findall(rf"\b{name}\([^`]*", rows)
            assert [word for word in keywords if not any(f"{word}=" in each for each in described)] == [], name
