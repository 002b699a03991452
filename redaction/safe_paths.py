"""Safe paths of output files, which stay inside the folder that they are unpacked in, on every system."""

import hashlib
import re
from typing import Final
from urllib.parse import unquote

MAX_PATH_BYTES: Final = 1_024
MAX_PART_BYTES: Final = 255

# Separators, C0 and C1 controls, direction marks and line separators, a drive's colon, surrogates, and a percent sign
# that would read as an encoded character.
_UNSAFE: Final = re.compile(
    r"[/\\\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
    r"|(?<=\A[A-Za-z]):"
    r"|%(?=[0-9A-Fa-f]{2})"
)
# Windows drops these at the end of a name.
_DROPPED: Final = ". "
# An encoded dash: no other name gets one, as dashes are never encoded.
_DIGEST_MARK: Final = "%2D"
_LONGEST_EXTENSION: Final = 16


def safe_path(path: str) -> str:
    """Returns a path with each part encoded by `safe_part`, at most 1,024 bytes; different paths stay different.

    A longer path becomes one part, with a digest of the whole.
    """
    encoded = "/".join(map(safe_part, path.split("/")))
    if len(encoded.encode()) <= MAX_PATH_BYTES:
        return encoded
    return _shortened(encoded.rpartition("/")[2], path)


def safe_part(part: str) -> str:
    """Returns a part with unsafe characters percent-encoded, at most 255 bytes; different parts stay different.

    Encoded are slashes, backslashes, control characters, marks of direction and line, the colon of a drive prefix
    (`C:`), dots and blanks at the end, and a percent sign before two hexadecimal digits.
    """
    stem = part.rstrip(_DROPPED)
    encoded = _UNSAFE.sub(lambda found: _percent(found[0]), stem) + _percent(part[len(stem) :])
    return encoded if len(encoded.encode()) <= MAX_PART_BYTES else _shortened(encoded, part)


def safe_member(name: str) -> str | None:
    """Returns an archive member's safe path, without empty parts and `.`; None for a path with `..` or no parts."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    return None if not parts or ".." in parts else safe_path("/".join(parts))


def plain_part(part: str) -> str:
    """Returns the original of an encoded part, unless it was shortened."""
    return unquote(part)


def _percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def _shortened(encoded: str, original: str) -> str:
    """Returns a name cut to fit, with a digest of the original before the extension."""
    stem, dot, extension = encoded.rpartition(".")
    if not stem or len(extension.encode()) > _LONGEST_EXTENSION:
        stem, dot, extension = encoded, "", ""
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    ending = f"{_DIGEST_MARK}{digest}{dot}{extension}"
    return stem.encode()[: MAX_PART_BYTES - len(ending.encode())].decode(errors="ignore") + ending
