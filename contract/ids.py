"""Forms of ids, by which text of a caller is known to be one before it goes into a log line or a header."""

import re
from typing import Final

ANY_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
"""Any id, also that of a request that its caller chose (contract 4.1)."""

RUN_ID: Final = re.compile(r"run_[0-9a-z]{26}")
"""Id of a run (contract 2.6)."""
KEY_ID: Final = re.compile(r"ak_[A-Za-z0-9]{6,64}")
"""The id of an API key, which is what comes before the dot of the key itself."""
