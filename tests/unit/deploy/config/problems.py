"""Problems that the settings of a test are refused with."""

from pathlib import Path

import pytest

from deploy.config.source import read_settings
from deploy.failures import CommandError


def problems(
    environment: dict[str, str], config: Path | None = None, given: dict[str, object] | None = None
) -> dict[str, str]:
    with pytest.raises(CommandError) as failed:
        read_settings(environment, config=config, given=given)
    return {problem["name"]: problem["reason"] for problem in failed.value.details}
