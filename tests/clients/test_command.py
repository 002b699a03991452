"""The command `wfa`."""

import io
import json
import re
from pathlib import Path
from typing import Any

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


def printed_json(capsys: Shown) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_runs_are_listed_read_cancelled_and_erased(api: FakeApi, capsys: Shown) -> None:
    api.workflow("Digest", script=[complete({"pages": 1})])
    api.workflow("Parked", script=[approval("Plausible?", decision=None)])
    client = api.client()
    done, parked = client.runs.start("Digest").wait(), client.runs.start("Parked").wait(or_approval=True)
    assert main(["list"], api.client) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [parked.id, done.id]
    assert main(["list", "--status", "completed", "--workflow", "Digest", "--limit", "1"], api.client) == 0
    assert capsys.readouterr().out.endswith("completed  Digest\n")
    assert main(["status", done.id], api.client) == 0
    assert capsys.readouterr().out == f'{done.id}  completed  Digest\n{{"pages": 1}}\n'
    assert main(["status", parked.id], api.client) == 0
    assert "waits for a person to decide: Plausible?" in capsys.readouterr().out
    assert main(["cancel", parked.id, "--reason", "enough"], api.client) == 0
    assert api.requests[-1].body == {"reason": "enough"}
    assert capsys.readouterr().out == f"{parked.id}  cancelled\n"
    assert main(["cancel", parked.id], api.client) == 3
    assert main(["erase", done.id], api.client) == 0
    assert main(["erase", done.id], api.client) == 3
    assert "already_purged" in capsys.readouterr().err


def test_every_command_prints_json_if_asked(api: FakeApi, capsys: Shown, tmp_path: Path) -> None:
    api.workflow("Digest", script=[progress("\x1b[2J"), complete({"pages": 1}, outputs={"work/a.txt": "a"})])
    assert main(["workflows", "--json"], api.client) == 0
    assert [each["name"] for each in printed_json(capsys)] == ["Digest"]
    assert main(["start", "Digest", "--json"], api.client) == 0
    [run] = printed_json(capsys)
    assert main(["watch", run["run_id"], "--json"], api.client) == 0
    *events, ended = printed_json(capsys)
    assert {"run.started", "step.progress", "run.completed"} < {each["type"] for each in events}
    assert (ended["run_id"], ended["result"]) == (run["run_id"], {"pages": 1})
    assert main(["status", run["run_id"], "--json"], api.client) == 0
    assert printed_json(capsys) == [ended]
    assert main(["list", "--json"], api.client) == 0
    assert [each["run_id"] for each in printed_json(capsys)] == [run["run_id"]]
    assert main(["download", run["run_id"], str(tmp_path), "--json"], api.client) == 0
    assert [each.get("file") for each in printed_json(capsys)][1] == str(tmp_path / "work/a.txt")
    assert main(["start", "Digest", "--watch", "--json"], api.client) == 0
    started = printed_json(capsys)
    assert (started[-1]["status"], "\x1b" in json.dumps(started)) == ("completed", False)
    assert main(["erase", run["run_id"], "--json"], api.client) == 0
    assert printed_json(capsys)[0]["run_id"] == run["run_id"]


def test_times_are_printed_in_json_as_the_api_gives_them(api: FakeApi, capsys: Shown) -> None:
    api.workflow("Digest")
    assert main(["start", "Digest", "--json"], api.client) == 0
    [started] = printed_json(capsys)
    for command in (["status", started["run_id"]], ["list"]):
        assert main([*command, "--json"], api.client) == 0
        [run] = printed_json(capsys)
        assert re.fullmatch(r"[-0-9]{10}T[0-9:]{8}\.[0-9]{3}\+00:00", run["created_at"])


def test_the_input_may_come_from_standard_input(api: FakeApi, capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    api.workflow("Digest")
    monkeypatch.setattr("sys.stdin", io.StringIO("To be"))
    assert main(["start", "Digest", "--input-text", "@-"], api.client) == 0
    [run] = api.runs.values()
    assert run.given["input_text"] == "To be"
