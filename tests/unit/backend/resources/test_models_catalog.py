import sys

import pytest

from backend.common.secrets import Secrets, how_to_set
from backend.resources.models import Models, ModelUnusableError
from backend.settings import ModelProvider

SECRETS = Secrets({"ours": "env:OURS", "theirs": "env:THEIRS"}, {"OURS": "sk-ours", "THEIRS": "sk-theirs"})
HERE = "http://127.0.0.1:1/v1"
DEFAULTS = {"openai": ModelProvider("ours", "http://127.0.0.1:2/v1"), "openai-chat": ModelProvider("ours")}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that the library would read."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:3/v1")


@pytest.mark.parametrize(
    ("model", "api_key", "base_url", "key", "address"),
    [
        ("openai:gpt-5", None, None, "sk-ours", "http://127.0.0.1:2/v1"),
        ("openai:gpt-5", "theirs", None, "sk-theirs", "http://127.0.0.1:2/v1"),
        ("openai:gpt-5", "theirs", HERE, "sk-theirs", HERE),
        ("openai-chat:gpt-5", None, None, "sk-ours", "https://api.openai.com/v1"),
        ("openai-responses:gpt-5", "theirs", None, "sk-theirs", "https://api.openai.com/v1"),
        ("openai:gpt-5", None, HERE, "no-key", HERE),
    ],
)
def test_key_and_address_are_the_agents_else_the_deployments(
    model: str, api_key: str | None, base_url: str | None, key: str, address: str
) -> None:
    made = Models(SECRETS, DEFAULTS).make(model, api_key=api_key, base_url=base_url)
    assert made.key == key
    client = made.model.provider.client  # type: ignore[union-attr]
    assert (client.api_key, str(client.base_url)) == (key, f"{address}/")
    assert key not in repr(made) or key == "no-key"


@pytest.mark.parametrize(
    ("model", "cause", "message"),
    [
        ("anthropic:claude", "ModelNotConfigured", "neither the agent nor the deployment names an api_key"),
        ("nobody:some", "ModelNotConfigured", "the model 'nobody:some' cannot be used: Unknown provider: nobody"),
        ("openai-codex:gpt-5", "ModelNotConfigured", "models of 'openai-codex' cannot be called with api_key"),
        ("test:test", "ModelNotConfigured", "the model 'test:test' cannot be used: Unknown provider: test"),
    ],
)
def test_a_model_that_cannot_be_called_is_told(model: str, cause: str, message: str) -> None:
    with pytest.raises(ModelUnusableError) as error:
        Models(SECRETS, {}).make(model, api_key=None if model.startswith("anthropic") else "ours")
    assert error.value.type == cause
    assert str(error.value).startswith(message)
    assert "sk-" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone", f"this deployment has no secret named 'gone': {how_to_set('gone')}"),
        ("odd", "the secret 'odd' holds something other than a key"),
    ],
)
def test_a_key_that_cannot_be_had_names_the_secret(name: str, message: str) -> None:
    secrets = Secrets({"odd": "env:ODD"}, {"ODD": "sk-two\nlines"})
    with pytest.raises(ModelUnusableError) as error:
        Models(secrets, {}).make("openai:gpt-5", api_key=name)
    assert (error.value.type, str(error.value)) == ("SecretUnavailable", message)


def test_without_the_optional_part_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai.models", None)
    with pytest.raises(ModelUnusableError, match=r"pip install 'workflow-api\[llm\]'") as error:
        Models(SECRETS, DEFAULTS).make("openai:gpt-5")
    assert error.value.type == "ModelNotConfigured"
