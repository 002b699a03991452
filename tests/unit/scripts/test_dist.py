"""What `make dist` builds, installed where nothing else is: alone with its pins, and without its optional parts."""

import json
import os
import shlex
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.dist import ROOT

pytestmark = pytest.mark.long

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
LINE = "Start a run from another shell:\n"
ASKING = """\
kind: KnowledgeGraph
name: Papers
---
kind: Agent
name: Nothing
type: python
code: "def run(context): pass"
---
kind: Workflow
name: Swept
pii_policy: {mode: redact}
steps: [{step: only, agent: Nothing}]
---
kind: Workflow
name: Published
steps: [{step: only, agent: Nothing}]
publish: [{knowledge_graph: Papers, files: "*.ttl"}]
"""
READ_PARQUET = """
from pathlib import Path
from redaction.formats.outcome import WithheldError
from redaction.formats.preview import preview_of
from backend.runtime.run_redaction import sweep_warning
from redaction.formats.outcome import FileOutcome
Path("table").write_bytes(b"PAR1")
try:
    preview_of(Path("table"), "table", 5)
except WithheldError as error:
    print(sweep_warning(FileOutcome(error.kind, withheld=True, reason=error.reason), "table", "", 0))
"""


def said(*command: str | Path, cwd: Path, **variables: str) -> tuple[int, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WORKFLOW_API", "PYTHON"))}
    done = subprocess.run(
        command, cwd=cwd, env={**kept, **variables}, capture_output=True, text=True, timeout=240, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist") / "made"
    subprocess.run([sys.executable, ROOT / "scripts" / "dist.py", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def commands(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the wheel and what it cannot do without."""
    folder = tmp_path_factory.mktemp("slim") / "environment"
    [wheel] = dist.glob("workflow_api-*.whl")
    pins = ROOT / "requirements" / "slim.txt"
    subprocess.run([sys.executable, ROOT / "scripts" / "install.py", "--into", folder, pins, wheel], check=True)
    return folder / "bin"


@pytest.fixture(scope="module")
def demonstration(commands: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A served demonstration; the line that it prints to paste."""
    folder = tmp_path_factory.mktemp("served")
    free = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--console", "127.0.0.1:0")
    options = ("--demo", "--data", folder / "data", *free)
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            [commands / "workflow-api", "serve", *options], stdout=subprocess.PIPE, stderr=log, text=True
        ) as service,
    ):
        try:
            assert service.stdout is not None
            assert LINE in iter(service.stdout.readline, ""), (folder / "log").read_text()
            yield service.stdout.readline()
        finally:
            service.terminate()


def test_it_has_the_projects_their_components_and_digests(dist: Path) -> None:
    names = {path.name for path in dist.iterdir()}
    projects = ("workflow_api", "workflow_api_client", "workflow_api_protos", "workflow_api_redaction")
    assert names == {
        *(f"{project}-{VERSION}{form}" for project in projects for form in (".tar.gz", "-py3-none-any.whl")),
        f"workflow_api-{VERSION}.cdx.json",
        "SHA256SUMS",
    }
    assert said("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=dist)[0] == 0
    listed = json.loads((dist / f"workflow_api-{VERSION}.cdx.json").read_text())
    assert (listed["bomFormat"], listed["metadata"]["component"]["version"]) == ("CycloneDX", VERSION)
    components = {component["name"] for component in listed["components"]}
    assert components >= {"grpcio", "pyarrow", "dbos"}
    assert components.isdisjoint({"hatchling", "editables", "pip"})


def test_it_serves_a_run_of_the_demonstration(commands: Path, demonstration: str, tmp_path: Path) -> None:
    assert said(commands / "workflow-api", "--version", cwd=tmp_path) == (0, f"{VERSION}\n")
    status, printed = said("bash", "-c", demonstration, cwd=tmp_path)
    assert (status, "completed" in printed) == (0, True), printed


def test_what_a_missing_part_would_do_is_told_with_the_command_that_installs_it(
    commands: Path, demonstration: str, tmp_path: Path
) -> None:
    command = commands / "workflow-api"
    words = shlex.split(demonstration)
    address = words[words.index("--grpc") + 1]
    (tmp_path / "asking.yaml").write_text(ASKING)
    _, applied = said(command, "apply", "asking.yaml", "--grpc", address, cwd=tmp_path)
    assert "The PII policy cannot be applied" in applied
    assert "pip install 'workflow-api[redaction]'" in applied
    assert "Nothing is published to it: " in applied
    assert "Nothing is published to knowledge graphs: " in applied
    assert "pip install 'workflow-api[graphs]'" in applied
    asked = ["graphs", "query", "Papers", "SELECT * { ?s ?p ?o }", "--grpc", address]
    swept = ["redact", "asking.yaml", "--policy", "asking.yaml"]
    for part, arguments in (("graphs", asked), ("redaction", swept)):
        status, refusal = said(command, *arguments, cwd=tmp_path)
        assert (status != 0, f"pip install 'workflow-api[{part}]'" in refusal) == (True, True), refusal
    database = {"WORKFLOW_API_BACKEND_DATABASE": "postgresql://127.0.0.1:1/none"}
    status, refusal = said(command, "serve", "--data", "data", cwd=tmp_path, **database)
    assert (status != 0, "pip install 'workflow-api[cluster]'" in refusal) == (True, True), refusal
    status, warning = said(commands / "python", "-c", READ_PARQUET, cwd=tmp_path)
    assert (status, "pip install 'workflow-api[parquet]'" in warning) == (0, True), warning


@pytest.mark.parametrize("project", ["workflow_api", "workflow_api_redaction"])
def test_a_wheel_with_the_redaction_has_all_of_its_tables(dist: Path, project: str) -> None:
    tables = {path.relative_to(ROOT).as_posix() for path in (ROOT / "redaction").glob("*/*.toml")}
    [wheel] = dist.glob(f"{project}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert "redaction/rules/national.toml" in tables <= set(archive.namelist())


def test_the_wheel_has_the_editor_of_manifests_with_its_licences_and_no_source_of_it(dist: Path) -> None:
    [wheel] = dist.glob("workflow_api-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        bundle = archive.read("console/static/built/manifest-editor.js").decode()
    assert "console/static/built/manifest-editor.js.br" in names
    assert [name for name in names if name.startswith("console/editor/") or "node_modules" in name] == []
    assert "Copyright (C) 2018-2021 by Marijn Haverbeke" in bundle


def test_a_folder_with_content_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, text = said(sys.executable, ROOT / "scripts" / "dist.py", tmp_path, cwd=ROOT)
    assert (code, text) == (1, f"{tmp_path} is not empty: name a new folder\n")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
