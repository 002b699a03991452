"""deploy/container: the image that all parts are made of."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.unit.deploy.described import DEPLOY, ROOT, pinned, understood

DOCKERFILE = DEPLOY / "container" / "Dockerfile"


def instructions(name: str) -> list[str]:
    joined = DOCKERFILE.read_text().replace("\\\n", " ")
    return [line.removeprefix(name).strip() for line in joined.splitlines() if line.startswith(f"{name} ")]


def test_hadolint_reports_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    checked = subprocess.run([hadolint, "--no-color", DOCKERFILE], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_base_images_are_pinned() -> None:
    assert all(pinned(image.split()[0]) for image in instructions("FROM"))


def test_it_runs_unprivileged_below_an_init_process() -> None:
    user, _, group = instructions("USER")[-1].partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert json.loads(instructions("ENTRYPOINT")[-1]) == ["/usr/bin/tini", "--", "workflow-api"]


def test_its_command_and_health_check_exist() -> None:
    assert understood(json.loads(instructions("CMD")[-1])) == "serve"
    asked = json.loads(instructions("HEALTHCHECK")[-1].partition("CMD ")[2])
    assert asked[0] == "workflow-api"
    assert understood(asked[1:]) == "health"


def test_the_build_context_holds_only_what_the_image_needs() -> None:
    kept, *rest = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert kept == "*"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {path.split("/")[0] for path in (*wheel["packages"], *wheel["force-include"])}
    needed |= {"pyproject.toml", "LICENSE", "README.md"}
    needed |= {f"requirements/{name}.txt" for name in ("build", "image", "slim")}
    taken = {line.removeprefix("!") for line in rest if line.startswith("!")}
    modules = {f"deploy/{path.name}" for path in DEPLOY.iterdir() if (path / "__init__.py").exists()}
    assert taken - {"deploy/*.py", "deploy/py.typed"} == (needed - {"deploy"}) | modules


def test_every_part_gets_a_certificate_of_its_own(tmp_path: Path) -> None:
    made = [str(DEPLOY / "container" / "certificates.sh"), str(tmp_path), "backend", "other"]
    subprocess.run(made, capture_output=True, check=True)
    from cryptography import x509

    from deploy.config.settings import ServerTls
    from deploy.transport.certificates import CertificateFiles

    for part, names in {
        "backend": ["backend", "other"],
        "edge": ["edge.workflow-api"],
        "admin": ["admin.workflow-api"],
        "probe": ["probe.workflow-api"],
    }.items():
        folder = tmp_path / part
        pem = CertificateFiles(ServerTls(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")).current()
        certificate = x509.load_pem_x509_certificate(pem.certificate)
        borne = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert borne.get_values_for_type(x509.DNSName) == names
        assert (folder / "tls.key").stat().st_mode & 0o077 == 0
    before = (tmp_path / "edge" / "ca.crt").read_bytes(), (tmp_path / "edge" / "tls.crt").read_bytes()
    subprocess.run(made, capture_output=True, check=True)
    assert (tmp_path / "edge" / "ca.crt").read_bytes() == before[0]
    assert (tmp_path / "edge" / "tls.crt").read_bytes() != before[1]


def test_the_image_has_the_local_model() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {re.split(r"[<>=]", one)[0] for one in project["project"]["optional-dependencies"]["pii-model"]}
    pins = (ROOT / "requirements" / "image.txt").read_text()
    assert needed <= set(re.findall(r"^([a-z0-9-]+)==", pins, re.MULTILINE))
