import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
SKIPPING = """
import pytest

@pytest.fixture(scope="module")
def client():
    pytest.skip("needs a generator: make venv")

def test_it(client):
    pass
"""


@pytest.mark.parametrize(("options", "status", "summary"), [([], 0, "1 skipped"), (["--no-skips"], 1, "1 error")])
def test_under_no_skips_a_skip_by_a_fixture_is_a_failure(
    tmp_path: Path, options: list[str], status: int, summary: str
) -> None:
    (tmp_path / "test_skipping.py").write_text(SKIPPING)
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "-p", "scripts.skip_report", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir", tmp_path, *options, tmp_path],
        cwd=REPOSITORY,
        # Plugins that are installed beside it take a second to import.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, summary in done.stdout) == (status, True), done.stdout
    assert "needs a generator: make venv" in done.stdout
