"""Targets of `[notifications]`. (docs/settings.md)"""

from pathlib import Path

import pytest

from deploy.config.settings import Settings, backend_settings
from deploy.config.source import read_settings
from deploy.failures import CommandError

GOOD = {
    "kind": '"email"',
    "url": '"mail"',
    "from": '"service@example.org"',
    "to": '["ops@example.org"]',
    "events": '["run.failed"]',
}


def read(folder: Path, head: str, **fields: str | None) -> Settings:
    given = {name: value for name, value in (GOOD | fields).items() if value is not None}
    file = folder / "settings.toml"
    lines = [head, "[notifications.operators]", *(f"{name} = {value}" for name, value in given.items())]
    file.write_text("\n".join([*lines, "[secrets]", 'mail = "env:MAIL"']))
    return read_settings({}, config=file)


def test_links_lead_to_the_first_host_of_the_console(tmp_path: Path) -> None:
    settings = read(tmp_path, '[console]\nhosts = "console.example.org"\n')
    notifications = backend_settings(settings, tmp_path).notifications
    assert notifications.console_url == "https://console.example.org"
    assert (notifications.targets["operators"].url, notifications.targets["operators"].to) == (
        "mail",
        ("ops@example.org",),
    )


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("kind", '"pager"', "kind"),
        ("url", '"smtps://user:password@host"', "must have as url the name of a secret"),
        ("url", '"missing"', "must have as url a name that [secrets] holds"),
        ("events", '["run.completed"]', "'run.completed' is none"),
        ("events", None, "must have events"),
        ("to", "[]", "must have as to"),
        ("from", '"a@b\\nBcc: c@d"', "must have as from"),
        ("subject", '"${result}"', "must not use ${result} in subject"),
        ("text", '"5 $"', "must have in text a $ only"),
        ("colour", '"red"', "must not have colour"),
    ],
)
def test_a_field_that_is_not_valid_is_named_and_no_address_is_quoted(
    tmp_path: Path, field: str, value: str | None, reason: str
) -> None:
    with pytest.raises(CommandError) as refused:
        read(tmp_path, "", **{field: value})
    [problem] = refused.value.details
    assert problem["name"] == "notifications.operators"
    assert reason in problem["reason"]
    assert "password" not in problem["reason"]
