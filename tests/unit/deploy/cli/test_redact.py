"""`workflow-api redact` shows what a policy finds, by the rules alone and with the local model."""

import zipfile
from pathlib import Path

import pytest

from tests.unit.deploy.fake_backend import command

MAIL = "jane.roe@example.com"
LETTER = f"Hello\nYesterday Maria Gonzalez wrote to {MAIL}\n"


@pytest.fixture(name="letter")
def _letter(tmp_path: Path) -> str:
    (tmp_path / "letter.txt").write_text(LETTER)
    return str(tmp_path / "letter.txt")


def policy(folder: Path, text: str) -> str:
    (folder / "policy.yaml").write_text(text)
    return str(folder / "policy.yaml")


def test_rules_and_model_are_shown_beside_each_other(tmp_path: Path, letter: str) -> None:
    shown = command("redact", letter, "--policy", policy(tmp_path, "{mode: redact, model: local}"))
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0] == f"{letter}: 2 values found, read as text."
    assert [line.split() for line in lines[2:4]] == [["EMAIL_ADDRESS", "1", "1"], ["PERSON", "0", "1"]]
    assert lines[4:] == [
        f"    2 - Yesterday Maria Gonzalez wrote to {MAIL}",
        "    2 + Yesterday [PERSON] wrote to [EMAIL_ADDRESS]",
    ]


def test_the_policy_of_a_workflow_is_taken_and_its_model_can_be_left_out(tmp_path: Path, letter: str) -> None:
    workflow = "kind: Workflow\nname: w\npii_policy: {mode: detect, model: local}\n---\nkind: Agent\nname: a\n"
    given = policy(tmp_path, workflow)
    found = command(
        "redact", letter, "--policy", given, "--model", "none", "--out", str(tmp_path / "out"), "--json"
    ).json
    (item,) = found["items"]
    assert (found["policy"]["mode"], found["policy"]["model"]) == ("detect", None)
    assert (item["kind"], item["by_rules"]) == ("text", {"EMAIL_ADDRESS": 1})
    assert item["with_local_model"] is None
    assert item["text"] == (tmp_path / "out" / "letter.txt").read_text() == LETTER.replace(MAIL, "[EMAIL_ADDRESS]")


def test_a_policy_without_a_model_is_compared_with_the_local_one(tmp_path: Path, letter: str) -> None:
    (item,) = command("redact", letter, "--policy", policy(tmp_path, "mode: redact"), "--json").json["items"]
    assert item["with_local_model"] == {"EMAIL_ADDRESS": 1, "PERSON": 1}
    assert "Maria Gonzalez" in item["text"]


def test_a_file_that_would_be_withheld_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4")
    shown = command("redact", f"{tmp_path}/a.pdf", "--policy", policy(tmp_path, "mode: redact"), "--model", "none")
    assert shown.out == f"{tmp_path}/a.pdf: cannot be searched, and would be withheld (binary).\n"


def test_parts_that_cannot_be_searched_are_said_to_be_withheld_or_released(tmp_path: Path) -> None:
    file = tmp_path / "a.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.pdf", b"%PDF-1.4")
        archive.writestr("a.txt", MAIL)
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4")
    by_rules = ("--model", "none")
    shown = command("redact", str(file), "--policy", policy(tmp_path, "mode: redact"), *by_rules)
    assert shown.out.splitlines()[1] == "Files inside that cannot be searched, and would be withheld: 1."
    detects = policy(tmp_path, "mode: detect")
    shown = command("redact", f"{tmp_path}/a.pdf", str(file), "--policy", detects, *by_rules)
    lines = shown.out.splitlines()
    assert lines[0] == f"{tmp_path}/a.pdf: cannot be searched (binary)."
    assert lines[2] == "Files inside that cannot be searched, and would be released unsearched: 1."
    (item,) = command("redact", f"{tmp_path}/a.pdf", "--policy", detects, "--json", *by_rules).json["items"]
    assert (item["withheld"], item["reason"]) == (False, "binary")
    assert (item["counts"]["withheld_files"], item["counts"]["unsearched_files"]) == (0, 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{mode: mask}", "must be one of: off, detect, redact."),
        ("kind: Workflow\nname: w\n", "has 0 PII policies instead of one."),
        ("[", "cannot be read: it is no YAML."),
    ],
)
def test_what_is_no_policy_is_refused(tmp_path: Path, letter: str, text: str, reason: str) -> None:
    refused = command("redact", letter, "--policy", policy(tmp_path, text))
    assert refused.code == 1
    assert refused.err.strip().endswith(reason)
