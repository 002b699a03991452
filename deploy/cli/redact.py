"""`workflow-api redact`: shows the values that a PII policy finds in files, without a server."""

import difflib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from deploy.cli.options import Json
from deploy.cli.output.printing import Form, TableColumn, print_json, print_line, print_lines, print_table
from deploy.failures import CommandError

if TYPE_CHECKING:
    from backend.resources.redaction.confined_redactor import ConfinedRedactor

_LONGEST_TEXT: Final = 1_000_000
_CHANGES_SHOWN: Final = 40
_OWNER: Final = "command"
_MODELS: Final = ("policy", "local", "none")


class _Swept(NamedTuple):
    """Result of the sweep of one file: its outcome, its counts as JSON, and the swept text if it is text."""

    kind: str
    withheld: bool
    reason: str | None
    counts: dict[str, Any]
    text: str | None


def command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files as a step would read or leave them.")],
    policy: Annotated[
        Path,
        typer.Option("--policy", metavar="FILE", help="YAML file with a PII policy, or with a workflow that has one."),
    ],
    model: Annotated[
        str, typer.Option("--model", metavar="|".join(_MODELS), help="Another model than the policy names.")
    ] = _MODELS[0],
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder for the swept copies.")] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show every changed line.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a PII policy would find and replace in files, by the rules alone and with the local model.

    Nothing leaves this machine: a language model that the policy names is not asked.
    """
    given = _policy(policy, model)
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise CommandError(f"There is no file {missing[0]}.", code="invalid_request")
    with tempfile.TemporaryDirectory() as scratch:
        items = _items(files, given, Path(scratch), out, compared=model != "none")
    if as_json:
        print_json({"policy": given, "items": items})
        return
    for item in items:
        _print(item, given, show_all=show_all)


def _policy(path: Path, model: str) -> dict[str, Any]:
    """Reads a policy from a file, in mode `redact` whatever its mode, because the command shows replacements."""
    from backend.services.workflows import pii_policy
    from redaction.command import read_policy

    if model not in _MODELS:
        raise typer.BadParameter(f"must be one of: {', '.join(_MODELS)}", param_hint="--model")
    try:
        given = read_policy(path)
    except ValueError as error:
        raise CommandError(f"{error}.", code="invalid_request") from None
    try:
        policy = pii_policy.normalise(given if model == "policy" else {**given, "model": _named(model)})
    except ValueError as error:
        raise CommandError(f"{path}: {error}.", code="invalid_request") from None
    from backend.common.optional_parts import PII_MODEL, REDACTION
    from redaction.policy import LOCAL

    if not REDACTION.installed:
        raise CommandError(f"The policy cannot be applied: {REDACTION.not_installed}.", code="invalid_request")
    if policy["model"] == LOCAL and not PII_MODEL.installed:
        raise CommandError(f"The policy's model cannot be used: {PII_MODEL.not_installed}.", code="invalid_request")
    return policy


def _named(model: str) -> str | None:
    return None if model == "none" else model


def _items(
    files: list[Path], policy: dict[str, Any], scratch: Path, out: Path | None, *, compared: bool
) -> list[dict[str, Any]]:
    from backend.common.secrets import Secrets
    from backend.resources.models import Models
    from backend.resources.redaction.confined_redactor import ConfinedRedactor
    from backend.settings import RedactionLimits

    # The processes that sweep load the rules and the model once for all files.
    limits = RedactionLimits(processes=1)
    redactor = ConfinedRedactor(Models(Secrets(), {}), scratch=scratch / "redaction", limits=limits)
    try:
        return [_item(redactor, file, policy, scratch, out, compared=compared) for file in files]
    finally:
        redactor.close()


def _item(
    redactor: "ConfinedRedactor", file: Path, policy: dict[str, Any], scratch: Path, out: Path | None, *, compared: bool
) -> dict[str, Any]:
    from backend.common.optional_parts import PII_MODEL
    from redaction.policy import LOCAL

    replacing = {**policy, "mode": "redact"}
    rules = _swept(redactor, {**replacing, "model": None}, file, scratch / "by-rules")
    asked = policy["model"] == LOCAL
    with_model = None
    if asked or (compared and PII_MODEL.installed):
        with_model = _swept(redactor, {**replacing, "model": LOCAL}, file, scratch / "with-model")
    chosen, copy = (with_model, scratch / "with-model") if asked and with_model else (rules, scratch / "by-rules")
    if out is not None and copy.exists():
        out.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(copy, out / file.name)
    counts = chosen.counts
    withholds = policy["mode"] == "redact"
    if not withholds:
        # Files that cannot be searched are released.
        counts = {**counts, "withheld_files": 0, "unsearched_files": counts["withheld_files"]}
    return {
        "file": str(file),
        "kind": chosen.kind,
        "withheld": chosen.withheld and withholds,
        "reason": chosen.reason,
        "counts": counts,
        "by_rules": rules.counts["categories"],
        "with_local_model": None if with_model is None else with_model.counts["categories"],
        "text": chosen.text,
    }


def _swept(redactor: "ConfinedRedactor", policy: dict[str, Any], file: Path, target: Path) -> _Swept:
    from backend.resources.redaction.confined_redactor import RedactionError

    target.unlink(missing_ok=True)
    try:
        outcome, counts = redactor.file(policy, file, target, file.name, owner=_OWNER)
    except RedactionError as error:
        raise CommandError(f"{file} could not be swept: {error}.") from None
    return _Swept(outcome.kind, outcome.withheld, outcome.reason, counts.as_dict(), _text(target))


def _text(path: Path) -> str | None:
    """Returns the content of a file of text that is short enough to show."""
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= _LONGEST_TEXT else None
    except (OSError, UnicodeError):
        return None


def _print(item: dict[str, Any], policy: dict[str, Any], *, show_all: bool) -> None:
    counts = item["counts"]
    if item["reason"]:
        became = "cannot be searched, and would be withheld" if policy["mode"] == "redact" else "cannot be searched"
        print_line(f"{item['file']}: {became} ({item['reason']}).")
        return
    print_line(f"{item['file']}: {counts['values']:,} values found, read as {item['kind']}{_mode(policy)}.")
    for count, became in (
        ("withheld_files", "would be withheld"),
        ("unsearched_files", "would be released unsearched"),
    ):
        if counts[count]:
            print_line(f"Files inside that cannot be searched, and {became}: {counts[count]:,}.")
    if counts["model_skipped"]:
        print_line(f"The model did not read {counts['model_skipped']:,} pieces: max_model_calls is used up.")
    models = item["with_local_model"] or {}
    rows = [
        {"type": kind, "rules": item["by_rules"].get(kind, 0), "model": models.get(kind, 0)}
        for kind in sorted(item["by_rules"].keys() | models.keys())
    ]
    columns = [TableColumn("TYPE", "type"), TableColumn("BY RULES", "rules", Form.NUMBER)]
    if item["with_local_model"] is not None:
        columns.append(TableColumn("WITH THE LOCAL MODEL", "model", Form.NUMBER))
    if rows:
        print_table(rows, columns, none="")
    original = _text(Path(item["file"]))
    if original is None or item["text"] is None:
        return
    changes = list(_changes(original, item["text"]))
    print_lines("\n".join(changes if show_all else changes[: 2 * _CHANGES_SHOWN]))
    if len(changes) > 2 * _CHANGES_SHOWN and not show_all:
        print_line(f"... and {len(changes) // 2 - _CHANGES_SHOWN:,} more changed lines (--all shows them)")


def _mode(policy: dict[str, Any]) -> str:
    return "" if policy["mode"] == "redact" else f"; with mode {policy['mode']} nothing is replaced"


def _changes(original: str, swept: str) -> Iterator[str]:
    """Yields the changed lines before and after; a sweep changes lines and moves none."""
    before, after = original.splitlines(), swept.splitlines()
    if len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True), 1):
            if old != new:
                yield f"{number:>5} - {old}"
                yield f"{number:>5} + {new}"
        return
    yield from (line for line in difflib.ndiff(before, after) if line[:1] in "-+")
