"""The redaction manifest of a run in words."""

import json
from typing import Any, Final

_MODES: Final = {
    "redact": "Personal data is replaced by its type in brackets.",
    "detect": "Personal data is counted, and nothing is replaced.",
}
_STAGES: Final = {"inputs": "The inputs", "steps": "What steps leave", "outputs": "The outputs"}
_STATUSES: Final = {
    "pending": "are still to be swept",
    "completed": "were swept",
    "failed": "could not be swept",
    "skipped": "were not there to sweep",
}
_COUNTS: Final = (
    ("withheld_files", "file could not be swept and was withheld", "files could not be swept and were withheld"),
    (
        "unsearched_files",
        "file was released though it could not be searched in full",
        "files were released though they could not be searched in full",
    ),
    (
        "binary_files",
        "file is neither text nor a table: not searched",
        "files are neither text nor tables: unsearched",
    ),
    ("emptied_values", "value was emptied as a whole", "values were emptied as a whole"),
    ("model_calls", "call of a model was made", "calls of a model were made"),
    ("model_skipped", "text was not shown to the model any more", "texts were not shown to the model any more"),
)


def sentences(manifest: str) -> list[str]:
    """Returns sentences that say what the redaction of a run found and did, of its manifest as JSON."""
    found: dict[str, Any] = json.loads(manifest)
    said = [_MODES.get(found.get("mode", ""), "")]
    if found.get("model"):
        said.append(f"The model {found['model']} is asked too.")
    said += [_stage(stage) for stage in found.get("stages", ())]
    categories = found.get("categories") or {}
    if categories:
        said.append("Found: " + ", ".join(f"{count:,} {name}" for name, count in categories.items()) + ".")
    counts = found.get("counts") or {}
    said += [
        f"{counts[name]:,} {one if counts[name] == 1 else more}." for name, one, more in _COUNTS if counts.get(name)
    ]
    return [sentence for sentence in said if sentence]


def _stage(stage: dict[str, Any]) -> str:
    what = _STAGES.get(stage["stage"], stage["stage"])
    status = _STATUSES.get(stage["status"], stage["status"])
    if stage["status"] in {"pending", "skipped"}:
        return f"{what} {status}."
    values, files = stage["values"], stage["files"]
    counted = f"{values:,} value{'' if values == 1 else 's'} found"
    return f"{what} {status}: {counted}" + (f", {files:,} file{'' if files == 1 else 's'} read." if files else ".")
