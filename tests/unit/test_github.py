"""What GitHub reads in .github fits its published schemas, and runs what .ci/run runs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
SCHEMAS = {
    "github-workflows": sorted((GITHUB / "workflows").glob("*.yml")),
    "dependabot": [GITHUB / "dependabot.yml"],
    "github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "github-issue-forms": sorted((GITHUB / "ISSUE_TEMPLATE").glob("[!c]*.yml")),
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_its_files_fit_their_schema(schema: str) -> None:
    assert SCHEMAS[schema]
    check = Path(sys.executable).with_name("check-jsonschema")
    command: list[str | Path] = [check, "--builtin-schema", f"vendor.{schema}", *SCHEMAS[schema]]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_checks_are_those_of_any_machine() -> None:
    assert "- run: .ci/run\n" in (GITHUB / "workflows" / "checks.yml").read_text()
