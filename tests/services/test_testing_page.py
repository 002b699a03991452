"""The tests on docs/testing.md pass as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SETTINGS = "[pytest]\nfilterwarnings = error\n"


def test_the_tests_of_the_page_pass_as_written(tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / "docs" / "testing.md").read_text(encoding="utf-8"))
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
