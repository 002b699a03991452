"""The steps of docs/clients.md run as they are written, against the real service."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import Caller
from tests.support.npm_package import Package, node_options
from tests.support.page import blocks_of
from tests.support.service import Service

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "clients.md"
GENERATOR = "openapi-generator-cli==7.26.0"
FILES = {"digest/digest.md", "top-words/top-words.csv", "result.json"}


def snippet(language: str, begin: str = "") -> str:
    """Returns the only block of the page in a language that begins like this."""
    [found] = [block.body for block in blocks_of(PAGE) if block.language == language and block.body.startswith(begin)]
    return found


@pytest.fixture(scope="module")
def digesting(service: Service, caller: Caller) -> dict[str, str]:
    """The environment of a caller of a service that has the example."""
    service.admin.apply((ROOT / "examples" / "text-digest.yaml").read_text(encoding="utf-8"))
    host, port = caller.address
    exported = snippet("bash", "export ")
    own = {"127.0.0.1:8080": f"{host}:{port}", "ak_…": caller.key, "ake_…": caller.external_id}
    for shown, value in own.items():
        assert shown in exported
        exported = exported.replace(shown, value)
    variables = dict(variable.split("=", 1) for variable in shlex.split(exported)[1:])
    return {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python"), **variables}


def run(folder: Path, environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def erased(caller: Caller) -> dict[str, Any]:
    """The newest run, which the steps erased at their end."""
    newest = caller.get("/runs", limit=1).json()["items"][0]
    record = caller.run(newest["run_id"])
    assert record["status"] == "completed"
    assert record["data_purged_at"] is not None
    return record


def files_of(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def test_the_steps_in_curl(digesting: dict[str, str], caller: Caller, tmp_path: Path) -> None:
    for program in ("curl", "jq"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    printed = run(tmp_path, digesting, "bash", "-c", snippet("bash", "set -e"))
    assert json.loads(printed[: printed.rindex("}") + 1])["result"]["words"] == 6
    assert printed.strip().endswith(erased(caller)["data_purged_at"])
    assert files_of(tmp_path / "run.zip") == FILES


def test_the_steps_in_curl_end_at_a_refusal(digesting: dict[str, str], tmp_path: Path) -> None:
    for program in ("curl", "jq"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    refused = 'curl() { [[ "$*" != */runs/run_* ]] || return 22; command curl "$@"; }\n'
    with pytest.raises(AssertionError):
        run(tmp_path, digesting, "bash", "-c", refused + snippet("bash", "set -e"))


def test_the_steps_in_python(digesting: dict[str, str], caller: Caller, tmp_path: Path) -> None:
    printed = run(tmp_path, digesting, sys.executable, "-c", snippet("python"))
    assert "run.completed" in printed
    assert "'words': 6" in printed
    assert (tmp_path / "made" / "digest" / "digest.md").is_file()
    erased(caller)


def test_the_steps_in_typescript(digesting: dict[str, str], caller: Caller, tmp_path: Path) -> None:
    package = Package(tmp_path)
    project = package.project(tmp_path / "project")
    (project / "steps.ts").write_text(snippet("typescript"))
    package.compile(project)
    printed = run(project, {**digesting, **node_options()}, "node", "steps.js")
    assert "run.completed" in printed
    assert "words: 6" in printed
    assert (project / "made" / "digest" / "digest.md").is_file()
    erased(caller)


ANNOTATIONS = {
    "Nonnull": "{}",
    "Nullable": "{}",
    "Generated": '{ String[] value() default {}; String date() default ""; String comments() default ""; }',
}
"""Annotations of generated Java, which no program needs when it runs."""


@pytest.fixture(scope="module")
def generated(digesting: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder with clients in Go and Java, generated as the page says, and the generator's archive."""
    if shutil.which("javac") is None:
        pytest.skip("needs a JDK")
    folder = tmp_path_factory.mktemp("generated")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder / "tool")]
    if subprocess.run([*install, GENERATOR], capture_output=True, check=False, timeout=240).returncode:
        pytest.skip("needs a registry of Python packages")
    archive = folder / "tool" / "openapi_generator_cli" / "openapi-generator.jar"
    command = f'openapi-generator-cli() {{ java -jar {archive} "$@"; }}\n'
    run(folder, digesting, "bash", "-euo", "pipefail", "-c", command + snippet("bash", "openapi-generator-cli "))
    return folder, archive


@pytest.mark.optional
def test_the_steps_in_java(generated: tuple[Path, Path], digesting: dict[str, str]) -> None:
    folder, archive = generated
    steps = f"public class Steps {{ public static void main(String[] given) throws Exception {{\n{snippet('java')}}} }}"
    (folder / "java" / "Steps.java").write_text(f"import flows.*;\nimport java.util.Map;\n{steps}")
    annotations = folder / "java" / "javax" / "annotation"
    annotations.mkdir(parents=True)
    for name, body in ANNOTATIONS.items():
        (annotations / f"{name}.java").write_text(f"package javax.annotation; public @interface {name} {body}")
    sources = [
        *(str(path) for path in (folder / "java" / "src" / "main").rglob("*.java")),
        *(str(path) for path in annotations.glob("*.java")),
        str(folder / "java" / "Steps.java"),
    ]
    run(folder, digesting, "javac", "-proc:none", "-nowarn", "-cp", str(archive), "-d", "classes", *sources)
    assert "words=6" in run(folder, digesting, "java", "-cp", f"{archive}:classes", "Steps")


@pytest.mark.optional
def test_the_steps_in_go_name_what_is_generated(generated: tuple[Path, Path]) -> None:
    folder, _ = generated
    code = "\n".join(path.read_text() for path in (folder / "go").glob("*.go"))
    called = set(re.findall(r"\.(\w+)\(", snippet("go"))) - {"Getenv", "Background", "Get"}
    assert {"NewAPIClient", "ListWorkflows", "StartRun", "GetRun", "Execute"} <= called
    assert [name for name in called if not re.search(rf"func (\([^)]*\) )?{name}\(", code)] == []
    assert "FinishedAt NullableTime" in code
