"""Command `redact FILE --policy P`: writes the redacted copy of a file, or explains the values found in it."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from redaction.model import ModelError
from redaction.policy import Policy
from redaction.redactor import Redactor

_LONGEST_SHOWN: Final = 60
_WITHHELD: Final = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code: 3 for a file that must be withheld."""
    parser = argparse.ArgumentParser(
        prog="redact", description="Replaces personal data in a file; writes the swept copy to standard output."
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--policy", type=Path, required=True, metavar="P", help="YAML or JSON file with a policy")
    parser.add_argument("--explain", action="store_true", help="list what is found instead: type, confidence and value")
    parser.add_argument("--out", type=Path, metavar="COPY", help="write the swept copy there")
    given = parser.parse_args(arguments)
    try:
        policy = Policy.of({name: value for name, value in read_policy(given.policy).items() if name != "stages"})
        return _swept(given.file, policy, given.out, explain=given.explain)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    except ModelError as error:
        parser.exit(1, f"The model could not be asked: {type(error.__cause__).__name__}.\n")


def read_policy(path: Path) -> dict[str, Any]:
    """Returns the policy in a YAML file, which is a policy or the manifest of a workflow, unchecked.

    Raises:
        ValueError: the file cannot be read, or does not hold exactly one policy; the text is for people.
    """
    try:
        documents = [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if isinstance(one, dict)]
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no YAML"
        raise ValueError(f"{path} cannot be read: {reason}") from None
    found = [one["pii_policy"] for one in documents if isinstance(one.get("pii_policy"), dict)]
    found = found or [one for one in documents if "kind" not in one]
    if len(found) != 1:
        raise ValueError(f"{path} has {len(found)} PII policies instead of one")
    policy: dict[str, Any] = found[0]
    return policy


def _swept(file: Path, policy: Policy, out: Path | None, *, explain: bool) -> int:
    found: list[tuple[str, str, float]] = []
    redactor = Redactor(policy, on_found=lambda *value: found.append(value))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "swept"
        outcome = redactor.file(file, copy, file.name)
        if outcome.withheld:
            sys.stderr.write(f"{file} cannot be swept ({outcome.reason}).\n")
            return _WITHHELD
        if explain:
            sys.stdout.writelines(_explained(found))
        content = (copy if copy.exists() else file).read_bytes()
        if out is not None:
            out.write_bytes(content)
        elif not explain:
            sys.stdout.buffer.write(content)
    return 0


def _explained(found: Sequence[tuple[str, str, float]]) -> Iterator[str]:
    """Yields a line for each value found, in the order of reading."""
    for entity, value, score in found:
        shown = value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}\u2026"
        yield f"{entity:<16} {score:.2f}  {shown!r}\n"


if __name__ == "__main__":
    sys.exit(main())
