import io

import pytest

from deploy.cli.output.terminal import in_status_colour, shows_colours


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_that_do_not_refuse_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert shows_colours(Terminal())
    assert not shows_colours(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not shows_colours(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not shows_colours(Terminal())


def test_a_status_keeps_its_text_in_its_colour() -> None:
    assert in_status_colour("failed  ", "failed", colours=True) == "\x1b[31mfailed  \x1b[0m"
    assert in_status_colour("updated (Agent a changed)", "updated (Agent a changed)", colours=True).startswith(
        "\x1b[33m"
    )
    assert in_status_colour("other", "other", colours=True) == "other"
    assert in_status_colour("failed", "failed", colours=False) == "failed"
