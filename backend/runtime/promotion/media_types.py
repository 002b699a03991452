"""The media type of an output, from its name."""

import mimetypes
from typing import Final

UNKNOWN: Final = "application/octet-stream"

# The library's own table only: the host's files would make the answer depend on the machine.
_TYPES: Final = mimetypes.MimeTypes()
for _ending, _type in {
    ".csv": "text/csv",
    ".jsonl": "application/jsonl",
    ".md": "text/markdown",
    ".nq": "application/n-quads",
    ".nt": "application/n-triples",
    ".parquet": "application/vnd.apache.parquet",
    ".ttl": "text/turtle",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}.items():
    _TYPES.add_type(_type, _ending)
_OF_ENCODING: Final = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}


def media_type(path: str) -> str:
    """Returns the media type, `application/octet-stream` where the name does not show it."""
    # Not a URL: a colon in a file's name is only a character.
    found, encoding = _TYPES.guess_type("x/" + path.rpartition("/")[2])
    if encoding is not None:
        return _OF_ENCODING.get(encoding, UNKNOWN)
    return found or UNKNOWN
