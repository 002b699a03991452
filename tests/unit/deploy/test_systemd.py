"""deploy/systemd: the parts as units of a machine."""

import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.unit.deploy.described import DEPLOY, drains, settings_of, understood

FOLDER = DEPLOY / "systemd"
UNITS = {path.name: path for path in sorted(FOLDER.glob("*.service"))}
PARTS = {name: path for name, path in UNITS.items() if "Type=exec" in path.read_text()}
TIMERS = {path.name: path for path in sorted(FOLDER.glob("*.timer"))}
PROGRAM = "/opt/workflow-api/bin/workflow-api"
# Of ten, as `systemd-analyze security` counts.
MOST_EXPOSED = {"edge": 1.5, "console": 1.5, "backend": 1.5, "worker": 3.5, "serve": 3.5, "backup": 1.5}


def service(unit: Path) -> dict[str, list[str]]:
    values: dict[str, list[str]] = defaultdict(list)
    for name, value in re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE):
        values[name].append(value)
    return values


def command_of(unit: Path) -> list[str]:
    (line,) = service(unit)["ExecStart"]
    program, *arguments = shlex.split(line)
    assert program == PROGRAM
    return arguments


def analyzed(unit: Path, tmp_path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs systemd-analyze on the units, with the path of the program on this machine."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian: apt-get install systemd)")
    here = tmp_path / unit.name
    here.write_text(unit.read_text().replace(PROGRAM, str(Path(sys.executable).with_name("workflow-api"))))
    return subprocess.run(
        ["systemd-analyze", *arguments, here], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("unit", [*UNITS.values(), *TIMERS.values()], ids=[*UNITS, *TIMERS])
def test_systemd_analyze_reports_nothing(unit: Path, tmp_path: Path) -> None:
    for service_of_timer in UNITS.values() if unit.suffix == ".timer" else ():
        shutil.copy(service_of_timer, tmp_path)
    said = analyzed(unit, tmp_path, "verify", "--man=no")
    ours = [line for line in said.stderr.splitlines() if "workflow-api" in line]
    assert (said.returncode, ours) == (0, [])


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_a_unit_is_exposed_no_more_than_it_needs(unit: Path, tmp_path: Path) -> None:
    most = MOST_EXPOSED[command_of(unit)[0]]
    said = analyzed(unit, tmp_path, "security", "--offline=true", "--no-pager", f"--threshold={round(most * 10)}")
    assert said.returncode == 0, said.stdout[-200:]


def test_the_backup_uses_existing_options_and_the_folder_of_the_service() -> None:
    unit = UNITS["workflow-api-backup.service"]
    arguments = command_of(unit)
    assert understood(arguments) == "backup"
    (folder,) = service(UNITS["workflow-api.service"])["StateDirectory"]
    assert arguments[arguments.index("--data") + 1] == f"/var/lib/{folder}"
    assert TIMERS.keys() == {"workflow-api-backup.timer"}


def test_old_backups_are_deleted_only_after_one_that_succeeded() -> None:
    commands = service(UNITS["workflow-api-backup.service"])
    (deletion,) = commands["ExecStartPost"]
    assert deletion.startswith("/usr/bin/find ")
    assert deletion.endswith("-mtime +14 -delete")
    assert "ExecStartPre" not in commands


@pytest.mark.parametrize("unit", PARTS.values(), ids=PARTS)
def test_a_unit_uses_existing_commands_and_settings(unit: Path) -> None:
    values = service(unit)
    arguments = command_of(unit)
    command = understood(arguments)
    environment = dict(
        variable.replace("%d", f"/run/credentials/{unit.name}").split("=", 1) for variable in values["Environment"]
    )
    settings = settings_of(FOLDER / "settings.toml" if "WORKFLOW_API_CONFIG" in environment else None, environment)
    (stop,) = values["TimeoutStopSec"]
    assert float(stop) > drains(settings, command)
    # Steps end in the service's own order, not by a signal to all of its processes.
    assert values["KillMode"] == ["mixed"]
    # What a process tells of itself stands in other parts of /proc as well.
    assert "ProcSubset" not in values
    loaded = {credential.partition(":")[0] for credential in values["LoadCredential"]}
    named = {value.rpartition("/")[2] for value in environment.values() if "/run/credentials/" in value}
    assert named == loaded
