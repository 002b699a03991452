"""Generates `generated/` and the clients' records from `protos/`; with `--check` fails if they differ."""

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import metadata, resources
from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet, MethodOptions
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
GENERATED = ROOT / "generated"
CLIENT = ROOT / "clients" / "python" / "workflow_api_client" / "generated"
TYPESCRIPT = ROOT / "clients" / "typescript" / "src" / "generated"
PACKAGE = Path("workflow_api") / "v1"
# The pauses, about 0.2, 0.6, 1.8 and 5.4 s, outlast a restart. A backend that stops cancels calls that reach it late.
_RETRY_POLICY: Final = {
    "maxAttempts": 5,
    "initialBackoff": "0.2s",
    "backoffMultiplier": 3,
    "maxBackoff": "6s",
    "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
}
VENDORED = (Path("google") / "api", Path("google") / "rpc")


def generate(target: Path) -> None:
    """Compiles every proto of the service into the folder `target`.

    Raises:
        SystemExit: protoc failed; its messages are on standard error.
    """
    package = target / PACKAGE
    package.mkdir(parents=True)
    sources = sorted(str(path.relative_to(PROTOS)) for path in (PROTOS / PACKAGE).glob("*.proto"))
    bundled = resources.files("grpc_tools") / "_proto"
    # protoc searches the PATH for its plugins, which lacks an environment that is not activated.
    tools = Path(sys.executable).parent
    status = protoc.main(
        [
            "protoc",
            f"--proto_path={PROTOS}",
            f"--proto_path={bundled}",
            f"--plugin={tools / 'protoc-gen-mypy'}",
            f"--plugin={tools / 'protoc-gen-mypy_grpc'}",
            f"--python_out={target}",
            f"--grpc_python_out={target}",
            f"--mypy_out=quiet:{target}",
            f"--mypy_grpc_out=quiet:{target}",
            f"--descriptor_set_out={package / 'descriptors.binpb'}",
            "--include_imports",
            "--include_source_info",
            *sources,
        ]
    )
    if status != 0:
        sys.exit(f"protoc failed with status {status}")
    config = service_config((package / "descriptors.binpb").read_bytes())
    (package / "service_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package.parent / "py.typed").touch()


def service_config(descriptors: bytes) -> dict[str, Any]:
    """Returns the gRPC service config for callers: RPCs that the protos declare repeatable are retried, no others."""
    files = FileDescriptorSet.FromString(descriptors).file
    repeatable = [
        {"service": f"{file.package}.{service.name}", "method": method.name}
        for file in files
        if file.package == "workflow_api.v1"
        for service in file.service
        for method in service.method
        if method.options.idempotency_level != MethodOptions.IDEMPOTENCY_UNKNOWN
    ]
    return {
        "loadBalancingConfig": [{"round_robin": {}}],
        "healthCheckConfig": {"serviceName": "liveness"},
        # Retries pause once too many calls fail, so that they do not keep an overloaded backend down.
        "retryThrottling": {"maxTokens": 100, "tokenRatio": 1},
        "methodConfig": [{"name": repeatable, "retryPolicy": _RETRY_POLICY}],
    }


def generate_client(script: str, protos: Path, target: Path) -> None:
    """Writes the generated part of a client by its script, from the protos compiled into `protos`.

    Raises:
        SystemExit: it failed; the messages are on standard error.
    """
    path = os.pathsep.join([str(protos), str(ROOT)])
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / script, target],
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    if done.returncode != 0:
        sys.exit(done.returncode)


def differences(expected: Path, actual: Path) -> list[str]:
    """Returns a line for every file that is missing, left over or different in `actual`."""
    wanted, present = _files(expected), _files(actual)
    return [
        *(f"missing    {name}" for name in sorted(wanted - present)),
        *(f"left over  {name}" for name in sorted(present - wanted)),
        *(
            f"differs    {name}"
            for name in sorted(wanted & present)
            if not filecmp.cmp(expected / name, actual / name, shallow=False)
        ),
    ]


def vendored_differences() -> list[str]:
    """Returns a line for every proto under `protos/google/api` that differs from googleapis-common-protos."""
    installed = {
        Path(file): Path(str(file.locate()))
        for file in metadata.files("googleapis-common-protos") or []
        if Path(file).parent in VENDORED
    }
    return [
        f"differs    {path.relative_to(ROOT)}"
        for path in sorted((PROTOS / "google").rglob("*.proto"))
        if (name := path.relative_to(PROTOS)) not in installed or installed[name].read_bytes() != path.read_bytes()
    ]


def _files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _check(fresh: Mapping[Path, Path]) -> None:
    drift = {target: differences(source, target) for target, source in fresh.items()}
    for target, lines in drift.items():
        if lines:
            place = target.relative_to(ROOT)
            print(f"{place}/ differs from protos/; run `make generate`:", *lines, sep="\n  ", file=sys.stderr)
    vendored = vendored_differences()
    if vendored:
        print("different from the installed googleapis-common-protos:", *vendored, sep="\n  ", file=sys.stderr)
    if any(drift.values()) or vendored:
        sys.exit(1)
    for target, source in fresh.items():
        print(f"{target.relative_to(ROOT)}/ matches protos/ ({len(_files(source))} files)")


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail when something differs")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        fresh = {GENERATED: made / "generated", CLIENT: made / "python", TYPESCRIPT: made / "typescript"}
        generate(fresh[GENERATED])
        generate_client("client_code.py", fresh[GENERATED], fresh[CLIENT])
        generate_client("typescript_code.py", fresh[GENERATED], fresh[TYPESCRIPT])
        if check:
            _check(fresh)
            return
        for target, source in fresh.items():
            for name in _files(target) - _files(source):
                (target / name).unlink()
            shutil.copytree(source, target, dirs_exist_ok=True)
            print(f"wrote {len(_files(target))} files to {target.relative_to(ROOT)}/")


if __name__ == "__main__":
    main()
