"""Finds the example workflows: beside the code in a checkout, inside the package when installed."""

from pathlib import Path
from typing import Final

from deploy.failures import CommandError

_PACKAGE: Final = Path(__file__).resolve().parent.parent

MANIFESTS: Final = ("environments.yaml", "text-digest.yaml", "invoice-totals.yaml", "reviewed-report.yaml")


def examples_folder() -> Path:
    """Returns the folder of the examples."""
    for folder in (_PACKAGE / "examples", _PACKAGE.parent / "examples"):
        if (folder / MANIFESTS[0]).is_file():
            return folder
    raise CommandError("The example workflows are not part of this installation: serve without --demo.")
