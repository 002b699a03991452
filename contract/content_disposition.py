"""The `Content-Disposition` header, which names the file of a download."""

import re
from typing import Final
from urllib.parse import quote

_UNQUOTABLE: Final = re.compile(r"[^ !#-\[\]-~]|%")


def content_disposition(file_name: str) -> str:
    """Returns `attachment` with the file name in both forms of RFC 6266."""
    fallback = _UNQUOTABLE.sub("_", file_name)
    return f"attachment; filename=\"{fallback}\"; filename*=UTF-8''{quote(file_name, safe='!#$&+^`|')}"
