"""Values that redacting workflows read and write, by which the auditor finds what a policy should have replaced."""

import io
import json
import re
import zipfile
from typing import Final

PLANTED: Final = "@planted.example"
"""What every planted value holds."""

GIVEN_TEXT: Final = re.compile(r"text of (?:operation|console|caller)")
"""What every run is given as its text begins like this: pages of the console show it until the run is erased."""


def planted_value(number: int) -> str:
    return f"caller{number}{PLANTED}.org"


def holds_planted(body: bytes) -> bool:
    """Whether an answer or a file holds a planted value; the text that a caller gave is shown to it as it was."""
    if body.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return any(holds_planted(archive.read(name)) for name in archive.namelist())
    if PLANTED.encode() not in body:
        return False
    try:
        shown = json.loads(body)
    except ValueError:
        return True
    return PLANTED in json.dumps({**shown, "input_text": None} if isinstance(shown, dict) else shown)
