"""Values of secrets that a step may get."""

from pathlib import Path

import pytest

from backend.common.secrets import SecretError, Secrets
from backend.runtime.execution.step_secrets import ALL_BYTES, LARGEST_BYTES, read_values


def test_the_secrets_of_a_step_are_bounded_together(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"key-{number}").write_text(str(number) * LARGEST_BYTES)
    secrets = Secrets({f"key-{number}": f"file:{tmp_path}/key-{number}" for number in range(3)})

    assert sum(map(len, read_values(secrets, ["key-0", "key-1"]).values())) == ALL_BYTES
    with pytest.raises(SecretError, match="more than 16,384 bytes together"):
        read_values(secrets, ["key-0", "key-1", "key-2"])
