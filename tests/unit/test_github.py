"""What GitHub reads in .github fits its published schemas, and runs what .ci/run runs."""

from pathlib import Path

import check_jsonschema
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
    command = ["--builtin-schema", f"vendor.{schema}", *map(str, SCHEMAS[schema])]
    assert check_jsonschema.main(command, standalone_mode=False) == 0


def test_the_checks_are_those_of_any_machine() -> None:
    assert "- run: .ci/run\n" in (GITHUB / "workflows" / "checks.yml").read_text()
