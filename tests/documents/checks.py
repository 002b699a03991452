"""Checks blocks of manifests, settings and configuration by what reads them, without starting anything."""

import json
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from backend.services.workflows.manifests.attachments import Attachments
from backend.services.workflows.manifests.loader import ManifestText, check_manifests
from deploy.config.source import read_settings
from deploy.failures import CommandError
from tests.support.content_checks import UNBOUNDED
from tests.support.page import ROOT

_DEPLOY: Final = ROOT / "deploy"
_FUNCTION: Final = b"def run(context):\n    return None\n"


def toml_problem(body: str, folder: Path) -> object:
    """Reads settings as every part of the service does."""
    file = folder / "settings.toml"
    file.write_text(body, encoding="utf-8")
    variables = dict.fromkeys(re.findall(r'database = "env:(\w+)"', body), "postgresql:///workflows")
    try:
        read_settings(variables, config=file)
    except CommandError as error:
        return error.to_text()
    return None


def yaml_problem(body: str, folder: Path) -> object:
    """Reads manifests, or a part of one, as `apply` does; other files by the rules of the program that they are for."""
    if body.startswith("rule_files:"):
        return _prometheus_problem(body, folder)
    if "\nkind: Kustomization\n" in body:
        return _overlay_problem(yaml.safe_load(body))
    if "\njobs:\n" in body:
        return _job_problem(yaml.safe_load(body))
    if body.startswith("mode: "):
        body = f"pii_policy:\n{textwrap.indent(body, '  ')}"
    if not re.search(r"^kind: ", body, re.MULTILINE):
        body = f"kind: Workflow\nname: Part\n{body}"
    files = dict.fromkeys(re.findall(r"^code_file: (\S+)", body, re.MULTILINE), _FUNCTION)
    for source, module in re.findall(r"^source: (?:\./)?(\S+)\nentrypoint: (\w+):run", body, re.MULTILINE):
        files[f"{source}/{module}.py"] = _FUNCTION
    return check_manifests([ManifestText("page", body, Attachments(files))], UNBOUNDED).problems or None


def _prometheus_problem(body: str, folder: Path) -> object:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    shutil.copy(_DEPLOY / "monitoring" / "alerts.yaml", folder)
    (folder / "prometheus.yml").write_text(body, encoding="utf-8")
    return _said_by("promtool", "check", "config", folder / "prometheus.yml")


def _job_problem(workflow: Mapping[str, Any]) -> object:
    """Each step of a job of GitHub Actions uses an action or runs a command, and the job says where it runs."""
    jobs = list(workflow["jobs"].values())
    unplaced = [job for job in jobs if "runs-on" not in job]
    return unplaced + [step for job in jobs for step in job["steps"] if ("uses" in step) == ("run" in step)] or None


def _overlay_problem(overlay: Mapping[str, Any]) -> object:
    """Compares what an overlay changes with what the base has."""
    base = yaml.safe_load((_DEPLOY / "kubernetes" / "kustomization.yaml").read_text(encoding="utf-8"))
    problems = [path for path in overlay["resources"] if (ROOT / path.removeprefix("../../")) != _DEPLOY / "kubernetes"]
    for field in ("images", "configMapGenerator"):
        known = {each["name"] for each in base[field]}
        problems += [each["name"] for each in overlay[field] if each["name"] not in known]
    return problems or None


def nginx_problem(body: str, folder: Path) -> object:
    """Has nginx read its configuration, with a certificate where the page leaves that out."""
    for program in ("nginx", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    names = folder / "key.pem", folder / "cert.pem"
    made = ("openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=localhost")
    assert _said_by(*made, "-keyout", names[0], "-out", names[1]) is None
    certificate = "" if "ssl_certificate" in body else "ssl_certificate cert.pem; ssl_certificate_key key.pem;"
    config = folder / "nginx.conf"
    config.write_text(
        f"pid {folder}/pid; events {{}} http {{ access_log off; {certificate}\n{body}}}", encoding="utf-8"
    )
    return _said_by("nginx", "-t", "-q", "-e", folder / "log", "-c", config)


def json_problem(body: str, _: Path) -> object:
    """Parses the text, and compares settings of an assistant's tools with the scripts that the client installs."""
    servers = json.loads(body).get("mcpServers", {})
    scripts = (ROOT / "clients" / "python" / "pyproject.toml").read_text(encoding="utf-8")
    return [each["command"] for each in servers.values() if f"\n{each['command']} = " not in scripts] or None


def _said_by(*command: str | Path) -> str | None:
    """Returns what a command said where it failed."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ended.stdout + ended.stderr if ended.returncode else None


CHECKS: Final[Mapping[str, Callable[[str, Path], object]]] = {
    "json": json_problem,
    "nginx": nginx_problem,
    "toml": toml_problem,
    "yaml": yaml_problem,
}
"""By language: what is wrong with a block, looked at in an empty folder; None for nothing."""
