"""The command `wfa`."""

from pathlib import Path

import pytest

from workflow_api_client import Client, ConfigurationError
from workflow_api_client.command import main
from workflow_api_client.testing import FakeApi, approval, complete, fail, progress

Shown = pytest.CaptureFixture[str]


def test_a_run_is_started_watched_and_downloaded(api: FakeApi, capsys: Shown, tmp_path: Path) -> None:
    declared = [{"name": "pages", "type": "integer"}, {"name": "title", "type": "string"}]
    script = [progress("page 1\x1b[2J", page=1), complete({"pages": 1}, outputs={"work/a.txt": "a"})]
    api.workflow("Digest", parameters=declared, script=script)
    (tmp_path / "text").write_text("To be")
    given = ["-p", "pages=3", "-p", "title=5", "--label", "team=blue", "--input-text", f"@{tmp_path / 'text'}"]
    assert main(["start", "Digest", *given, "--reference", "r 7", "--idempotency-key", "k"], api.client) == 0
    [run_id] = capsys.readouterr().out.split()
    assert api.runs[run_id].given == {
        "parameters": {"pages": 3, "title": "5"},
        "input_text": "To be",
        "labels": {"team": "blue"},
        "client_reference": "r 7",
    }
    assert main(["watch", run_id], api.client) == 0
    shown = capsys.readouterr()
    assert "00:00:01  step.progress  work  page 1 [2J  page=1" in shown.out
    assert shown.err == f"{run_id} is completed\n"
    assert main(["download", run_id, str(tmp_path / "made")], api.client) == 0
    assert (tmp_path / "made" / "work" / "a.txt").read_text() == "a"
    assert main(["download", run_id, str(tmp_path / "made.zip"), "--zip"], api.client) == 0
    assert (tmp_path / "made.zip").is_file()


def test_start_may_watch_and_download_at_once(api: FakeApi, capsys: Shown, tmp_path: Path) -> None:
    api.workflow("Digest", script=[complete(outputs={"work/a.txt": "a"})])
    assert main(["start", "Digest", "--watch", "--download", str(tmp_path)], api.client) == 0
    assert (tmp_path / "work/a.txt").read_text() == "a"


def test_workflows_are_listed(api: FakeApi, capsys: Shown) -> None:
    workflow_id = api.workflow("Digest")
    api.workflow("Other")
    assert main(["workflows", "dig"], api.client) == 0
    assert capsys.readouterr().out == f"{workflow_id}  Digest\n"


@pytest.mark.parametrize(
    ("arguments", "status", "printed"),
    [
        (["start", "Nothing"], 3, "workflow_not_found"),
        (["start", "Digest", "-p", "pages"], 2, "NAME=VALUE"),
        (["start", "Digest", "-p", "pages=many"], 2, "pages must be JSON of type integer"),
        (["start", "Digest", "--input-text", "@/no/such/file"], 3, "/no/such/file"),
        (["start", "Failing", "--watch"], 1, "node_failed: the sky fell"),
        (["watch", "run_unknown"], 3, "run_not_found"),
    ],
)
def test_a_failure_is_shown_by_exit_status_and_message(
    api: FakeApi, capsys: Shown, arguments: list[str], status: int, printed: str
) -> None:
    api.workflow("Digest", parameters=[{"name": "pages", "type": "integer"}])
    api.workflow("Failing", script=[fail("the sky fell")])
    assert main(arguments, api.client) == status
    assert printed in capsys.readouterr().err


def test_retries_are_shown(api: FakeApi, capsys: Shown) -> None:
    api.refuse("rate_limited", retry_after=42)
    assert main(["workflows"], api.client) == 0
    assert capsys.readouterr().err == "wfa: GET /workflows: retrying in 42.0 s after rate_limited\n"


def test_a_download_waits_no_longer_than_its_option(api: FakeApi, capsys: Shown, tmp_path: Path) -> None:
    api.workflow("Digest", script=[approval("?", decision=None)])
    run = api.client().runs.start("Digest")
    assert main(["download", run.id, str(tmp_path), "--timeout", "60"], api.client) == 4
    assert "was not done within 60 s" in capsys.readouterr().err


def test_without_an_address_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    monkeypatch.delenv("WORKFLOW_API_URL", raising=False)
    with pytest.raises(ConfigurationError):
        Client.from_env()
    assert main(["workflows"]) == 3
    assert "WORKFLOW_API_URL" in capsys.readouterr().err
