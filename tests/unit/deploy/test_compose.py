"""deploy/compose: everything on one machine, in containers."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from tests.unit.deploy.described import DEPLOY, drains, pinned, seconds, settings_of, understood

FOLDER = DEPLOY / "compose"
# Variables have their defaults.
DOCUMENT = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, Any] = yaml.safe_load(DOCUMENT)["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("workflow-api:")}
SERVING = {name: service for name, service in OURS.items() if "command" in service}


def test_it_is_a_compose_file() -> None:
    # Anchors are YAML's, and merged by every reader of compose files; this one wants them merged.
    PyCompose.from_yaml(yaml.safe_dump(yaml.safe_load(DOCUMENT))).validate()


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_every_image_is_pinned(service: dict[str, Any]) -> None:
    assert pinned(service["image"])


@pytest.mark.parametrize("service", OURS.values(), ids=OURS)
def test_a_part_has_no_rights_that_it_does_not_need(service: dict[str, Any]) -> None:
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.keys() & {"user", "privileged", "cap_add"}
    written = [entry.partition(":")[0] for entry in (*service["tmpfs"], *service.get("volumes", []))]
    assert "/tmp" in written  # noqa: S108 - in the container


def test_no_port_is_reachable_from_other_machines() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port["host_ip"] == "127.0.0.1" for port in ports)


@pytest.mark.parametrize("service", SERVING.values(), ids=SERVING)
def test_a_part_uses_existing_commands_and_settings(service: dict[str, Any]) -> None:
    command = understood(service["command"])
    settings = settings_of(FOLDER / "settings.toml", service["environment"])
    assert seconds(service["stop_grace_period"]) > drains(settings, command)
    asked = service.get("healthcheck", {}).get("test")
    if asked:
        assert understood(asked[2:]) == "health"


@pytest.mark.parametrize("service", SERVING.values(), ids=SERVING)
def test_files_that_settings_name_are_mounted(service: dict[str, Any]) -> None:
    settings = settings_of(FOLDER / "settings.toml", service["environment"])
    mounted = {volume.split(":")[1] for volume in service["volumes"] if ":" in volume}
    secrets = {f"/run/secrets/{name}" for name in service.get("secrets", [])}
    objects = service["environment"].get("AWS_SHARED_CREDENTIALS_FILE")
    keys, files = {
        "edge": ([settings.edge.backend_tls.key], [settings.edge.redis_url]),
        "console": ([settings.console.backend_tls.key], []),
        "backend": ([settings.backend.tls.key, settings.admin.backend_tls.key], [settings.backend.database, objects]),
        "worker": ([], [settings.backend.database, objects]),
    }[service["command"][0]]
    assert {str(file).removeprefix("file:") for file in files} == secrets
    assert {str(key and key.parent) for key in keys} == mounted


def test_secrets_are_generated_once(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "compose", ignore=shutil.ignore_patterns("secrets"))
    shutil.copytree(DEPLOY / "container", tmp_path / "container")
    made = tmp_path / "compose" / "secrets"

    def prepare() -> dict[str, bytes]:
        subprocess.run([tmp_path / "compose" / "prepare.sh"], capture_output=True, check=True)
        return {str(path.relative_to(made)): path.read_bytes() for path in made.rglob("*") if path.is_file()}

    first = prepare()
    assert prepare() == first
    named = {source["file"].removeprefix("./secrets/") for source in yaml.safe_load(DOCUMENT)["secrets"].values()}
    assert named <= first.keys()
    assert made.stat().st_mode & 0o077 == 0
    assert (made / "authority").stat().st_mode & 0o077 == 0
    # Users of the containers come to the rest.
    assert all((made / name).stat().st_mode & 0o004 for name in first if not name.startswith("authority/"))
