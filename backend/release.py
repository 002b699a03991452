"""The release of the product and the version of the contract that it serves (SPEC.md, Versioning)."""

from typing import Final

RELEASE: Final = "1.0.139"
API_VERSION: Final = "2026-09-24"
FIRST_RELEASE_WITH_API: Final = "1.0.139"
