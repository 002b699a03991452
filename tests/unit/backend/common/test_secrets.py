from pathlib import Path

import pytest

from backend.common.secrets import SecretError, Secrets


def test_a_secret_is_looked_up_at_each_use(tmp_path: Path) -> None:
    file = tmp_path / "key"
    environment = {"KEY": "one"}
    secrets = Secrets({"of-env": "env:KEY", "of-file": f"file:{file}"}, environment)
    file.write_text("first\r\n")
    assert (secrets.get("of-env"), secrets.get("of-file")) == ("one", "first")
    environment["KEY"] = "two"
    file.write_text("second")
    assert (secrets.get("of-env"), secrets.get("of-file")) == ("two", "second")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "other",
            (
                "this deployment has no secret named 'other': name where it is kept in the settings, as "
                '`other = "env:VARIABLE"` below [secrets]'
            ),
        ),
        ("unset", "the secret 'unset' is not set: what [secrets] of the settings names for it is empty"),
        ("gone", "the secret 'gone' cannot be read: No such file or directory"),
        ("empty", "the secret 'empty' is not set: what [secrets] of the settings names for it is empty"),
        ("large", "the secret 'large' has more than 65,536 bytes"),
        ("bytes", "the secret 'bytes' is not UTF-8 text"),
    ],
)
def test_a_secret_that_cannot_be_had_is_named(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "large").write_text("x" * 65_537)
    (tmp_path / "bytes").write_bytes(b"\xff")
    files = {file: f"file:{tmp_path}/{file}" for file in ("gone", "empty", "large", "bytes")}
    with pytest.raises(SecretError) as error:
        Secrets({"unset": "env:UNSET", **files}).get(name)
    assert str(error.value) == reason


def test_only_names_are_shown() -> None:
    secrets = Secrets({"b": "env:KEY", "a": "file:/run/a"}, {"KEY": "hidden"})
    assert repr(secrets) == "Secrets(a, b)"
