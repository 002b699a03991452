import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer

from deploy.cli.main import PlainCommand, run

_PROGRAM = """
import sys
from deploy.cli.main import run
code = run(sys.argv[1:])
sys.exit("pydantic" in sys.modules or code != 1)
"""


@pytest.mark.parametrize(
    "arguments",
    [["serve", "--config", "missing.toml"], ["keys", "show", "ak_0123456789ab", "--json", "--grpc", "127.0.0.1:1"]],
    ids=" ".join,
)
def test_texts_flags_and_paths_are_read_without_pydantic(arguments: list[str]) -> None:
    ended = subprocess.run([sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended


def test_a_value_has_the_kind_of_its_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    app = typer.Typer()

    @app.command(cls=PlainCommand)
    def read(
        text: Annotated[str, typer.Argument()],
        path: Annotated[Path | None, typer.Option()] = None,
        absent: Annotated[Path | None, typer.Option()] = None,
        flag: Annotated[bool, typer.Option(envvar="FLAG_OF_A_TEST")] = True,
        number: Annotated[int, typer.Option()] = 0,
        several: Annotated[list[str] | None, typer.Option()] = None,
    ) -> None:
        seen.extend([text, path, absent, flag, number, several])

    # A variable gives a flag as text.
    monkeypatch.setenv("FLAG_OF_A_TEST", "false")
    app(["7", "--path", "a/b", "--number", "3", "--several", "x", "--several", "y"], standalone_mode=False)
    assert seen == ["7", Path("a/b"), None, False, 3, ["x", "y"]]


def test_a_number_that_no_field_holds_is_refused_with_its_option_and_the_bounds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for value in ("99999999999999999999", str(2**31), "-99999999999999999999"):
        assert run(["runs", "list", "--limit", value]) == 2
        message = (
            f"Invalid value for '--limit': {value} is out of range: at most 2,147,483,647, at least -2,147,483,647."
        )
        assert capsys.readouterr().err.strip() == message
