"""The snippets of the client's page run as they are written."""

import re
from pathlib import Path

import pytest

from workflow_api_client import Client
from workflow_api_client.testing import FakeApi, complete, progress

PAGE = (Path(__file__).parents[2] / "clients" / "python" / "README.md").read_text(encoding="utf-8")
QUICK_START, TESTING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_quick_start_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = FakeApi()
    script = [progress("page 1"), complete({"words": 6}, outputs={"digest/summary.md": "# Six"})]
    api.workflow("Text digest", parameters=[{"name": "top", "type": "integer"}], script=script)
    monkeypatch.setattr(Client, "from_env", api.client)
    monkeypatch.chdir(tmp_path)
    exec(compile(QUICK_START, "README.md", "exec"), {})  # noqa: S102 # the page's own
    assert (tmp_path / "made/digest/summary.md").read_text() == "# Six"
    assert "{'words': 6}" in capsys.readouterr().out


def test_the_example_of_a_test_runs() -> None:
    exec(compile(TESTING, "README.md", "exec"), {})  # noqa: S102 # the page's own
