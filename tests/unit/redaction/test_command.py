"""`redact FILE --policy P`, as somebody without the service uses it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from redaction.command import main

MAIL = "jane.roe@example.com"


@pytest.fixture(name="letter")
def _letter(tmp_path: Path) -> str:
    (tmp_path / "letter.txt").write_text(f"Write to {MAIL}, card 4111 1111 1111 1111\n")
    return str(tmp_path / "letter.txt")


def policy(folder: Path, text: str = "mode: redact") -> str:
    (folder / "policy.yaml").write_text(text)
    return str(folder / "policy.yaml")


def test_the_swept_copy_is_written_to_standard_output(
    tmp_path: Path, letter: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([letter, "--policy", policy(tmp_path)]) == 0
    assert capfd.readouterr().out == "Write to [EMAIL_ADDRESS], card [CREDIT_CARD]\n"


def test_an_explanation_has_type_confidence_and_value(
    tmp_path: Path, letter: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([letter, "--policy", policy(tmp_path), "--explain"]) == 0
    assert [line.split(maxsplit=2) for line in capfd.readouterr().out.splitlines()] == [
        ["EMAIL_ADDRESS", "1.00", f"'{MAIL}'"],
        ["CREDIT_CARD", "1.00", "'4111 1111 1111 1111'"],
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", f"id,mail\n7,{MAIL}\n8,{MAIL}\n"),
        ("a.json", f'[{{"mail": "{MAIL}"}}, {{"mail": "{MAIL}"}}]'),
        ("a.xml", f"<a><mail>{MAIL}</mail><mail>{MAIL}</mail></a>"),
        ("a.yaml", f"first: {MAIL}\nsecond: {MAIL}\n"),
    ],
)
def test_each_value_is_explained_once_whatever_the_format(
    tmp_path: Path, name: str, content: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(content)
    assert main([f"{tmp_path}/{name}", "--policy", policy(tmp_path), "--explain"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["EMAIL_ADDRESS"] * 2
    assert all(MAIL in line for line in lines)


def test_a_copy_is_written_where_it_is_wanted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", MAIL)
    assert main([f"{tmp_path}/a.zip", "--policy", policy(tmp_path), "--out", f"{tmp_path}/b.zip"]) == 0
    with zipfile.ZipFile(tmp_path / "b.zip") as swept:
        assert swept.read("a.txt") == b"[EMAIL_ADDRESS]"
    assert capfd.readouterr().out == ""


def test_a_file_that_cannot_be_swept_has_an_exit_code_and_no_copy(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4\x00\xff")
    assert main([f"{tmp_path}/a.pdf", "--policy", policy(tmp_path), "--out", f"{tmp_path}/b.pdf"]) == 3
    assert "(binary)" in capfd.readouterr().err
    assert not (tmp_path / "b.pdf").exists()


def test_the_policy_of_a_workflow_is_taken(tmp_path: Path, letter: str, capfd: pytest.CaptureFixture[str]) -> None:
    workflow = "kind: Workflow\nname: w\npii_policy: {mode: redact, stages: [inputs], categories: [CREDIT_CARD]}\n"
    assert main([letter, "--policy", policy(tmp_path, workflow)]) == 0
    assert capfd.readouterr().out == f"Write to {MAIL}, card [CREDIT_CARD]\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mode: mask", "mode must be one of: off, detect, redact"),
        ("min_confidence: 2", "min_confidence must be a number from 0 to 1"),
        ("model: openai:gpt-5", "model must be local"),
        ("colour: red", "colour is not a field of a policy"),
        ("[", "cannot be read: it is no YAML"),
    ],
)
def test_what_is_no_policy_is_refused(
    tmp_path: Path, letter: str, text: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([letter, "--policy", policy(tmp_path, text)])
    assert ended.value.code == 2
    assert reason in capfd.readouterr().err


def test_it_runs_where_nothing_of_the_service_can_be_imported(tmp_path: Path, letter: str) -> None:
    """The library alone is on the path, beside what it depends on."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "redaction").symlink_to(Path(__file__).parents[3] / "redaction")
    code = (
        "import sys; parts = {'backend', 'contract', 'deploy', 'edge', 'console', 'telemetry', 'workflow_api'};"
        "sys.modules.update(dict.fromkeys(parts)); from redaction.command import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, letter, "--policy", policy(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path / "path", capture_output=True, text=True, check=True)
    assert done.stdout == "Write to [EMAIL_ADDRESS], card [CREDIT_CARD]\n"
