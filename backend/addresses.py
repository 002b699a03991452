"""Addresses of services, as settings and manifests give them."""

import re
from typing import Final

HTTP_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(?:/[!-~]*)?")
