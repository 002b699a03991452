import pytest

from backend.isolation.sandbox import Sandbox, SandboxUnavailableError, choose_sandbox
from deploy.serve import early_sandbox as module
from deploy.serve.early_sandbox import early_sandbox


def test_a_sandbox_that_nobody_takes_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Sandbox] = []

    def choose(setting: str) -> Sandbox:
        made.append(choose_sandbox(setting))
        return made[0]

    monkeypatch.setattr(module, "choose_sandbox", choose)
    with early_sandbox("none"):
        pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        made[0].close()


def test_who_takes_it_closes_it() -> None:
    with early_sandbox("none") as take:
        sandbox = take()
    sandbox.close()


def test_that_none_works_is_told_to_who_takes_it() -> None:
    with early_sandbox("other") as take, pytest.raises(SandboxUnavailableError):
        take()
