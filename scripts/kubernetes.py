"""Writes the manifests in deploy/kubernetes from the chart in deploy/helm; `--check` compares them instead.

Needs Helm, which `make .venv/bin/helm` installs.
"""

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "deploy" / "kubernetes"
CHART: Final = ROOT / "deploy" / "helm"
VALUES: Final = CHART / "examples" / "plain.yaml"
HELM: Final = Path(sys.executable).parent / "helm"

_HEADER: Final = "# Made from the chart in deploy/helm by `make kubernetes`."
_SOURCE: Final = "# Source: workflow-api/templates/"


def rendered(*arguments: str | Path, name: str = "workflow-api") -> str:
    """Returns the manifests of a release of the chart; `arguments` are further ones of `helm template`.

    Raises:
        subprocess.CalledProcessError: Helm refuses the values; its message is in `stderr`.
    """
    command = [HELM, "template", name, CHART, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def manifests() -> Mapping[str, str]:
    """Returns the generated files of deploy/kubernetes, by name."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for template, text in _by_template(rendered("--values", VALUES)):
        files[template].append(text)
    (settings,) = files.pop("settings.yaml")
    texts = {name: f"{_HEADER}\n" + "\n---\n".join(parts) + "\n" for name, parts in files.items()}
    config: Any = yaml.safe_load(settings)
    texts["settings.toml"] = f"{_HEADER}\n{config['data']['settings.toml']}"
    return texts


def _by_template(text: str) -> Iterator[tuple[str, str]]:
    """Yields the file of the template and the text of each document, without the lines that templates leave empty."""
    for document in text.split("\n---\n"):
        lines = [line for line in document.splitlines() if line.strip() and line != "---"]
        source = lines.pop(0).removeprefix(_SOURCE)
        keep = lines if source != "settings.yaml" else document.splitlines()
        yield source, "\n".join(keep)


def main() -> None:
    """Writes the manifests, or compares them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare the files instead of writing them")
    check = parser.parse_args().check
    stale = []
    for name, text in manifests().items():
        file = FOLDER / name
        if not check:
            file.write_text(text, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            stale.append(name)
    if stale:
        sys.exit(f"Not current: {', '.join(stale)}; run make kubernetes")


if __name__ == "__main__":
    main()
