"""A client of the API, generated from its description by openapi-python-client as somebody else would."""

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

# In an environment of its own (`make venv`), because it takes no typer as new as the service's.
GENERATOR: Final = Path(sys.prefix) / "generator" / "bin" / "openapi-python-client"
PACKAGE: Final = "generated_workflow_client"


@dataclass(frozen=True)
class GeneratedClient:
    """The generated package, and what the generator complained of."""

    complaints: str

    def package(self, *names: str) -> Any:
        """A module of the package."""
        return importlib.import_module(".".join([PACKAGE, *names]))

    def operation(self, tag: str, name: str) -> Any:
        """The module of an operation, with `sync_detailed`."""
        return self.package("api", tag, name)


def generated_project(description: Any, folder: Path, settings: dict[str, Any]) -> Path:
    """A project of its own, made with these settings of the generator."""
    if not GENERATOR.exists():
        pytest.skip("needs openapi-python-client: make venv")
    document, config = folder / "openapi.json", folder / "config.json"
    document.write_text(json.dumps(description))
    config.write_text(json.dumps({**settings, "post_hooks": []}))
    done = subprocess.run(
        [GENERATOR, "generate", "--path", document, "--config", config, "--output-path", folder / "project"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "project"


@contextmanager
def generated(description: Any, folder: Path) -> Iterator[GeneratedClient]:
    """A client of what the description describes, which can be imported while the context lasts."""
    if not GENERATOR.exists():
        pytest.skip("needs openapi-python-client: make venv")
    document, config = folder / "openapi.json", folder / "config.json"
    document.write_text(json.dumps(description))
    # Nobody reads the code here, so it need not be formatted.
    config.write_text(json.dumps({"post_hooks": []}))
    target = folder / PACKAGE
    done = subprocess.run(
        [GENERATOR, "generate", "--path", document, "--config", config, "--meta", "none", "--output-path", target],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sys.path.insert(0, str(folder))
    try:
        yield GeneratedClient(done.stderr)
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]
        shutil.rmtree(target)
