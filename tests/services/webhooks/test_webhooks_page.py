"""The code and the commands on docs/webhooks.md work as they stand there, and its example is what is sent."""

import inspect
import json
import os
import re
import subprocess
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import WebhookVerificationError

from backend.services.webhooks import sender
from deploy.cli.main import run
from deploy.cli.webhooks import EVENTS
from deploy.config.source import read_settings
from tests.services.webhooks.hooked import WebhookWorld, arrived
from tests.support.webhook_receiver import ReceivedMessage, Receiver
from workflow_api.v1 import webhooks_pb2
from workflow_api_testing import TestBackend

PAGE = (Path(__file__).parents[3] / "docs" / "webhooks.md").read_text(encoding="utf-8")
[VERIFICATION] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SIGNING, SENDING = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
[EXAMPLE] = re.findall(r"^```http\n(POST .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
[SETTINGS] = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"workflow-api (webhooks [^`\n]+)", PAGE)


def sent(hooked: WebhookWorld, receiver: Receiver) -> tuple[webhooks_pb2.WebhookWithSecret, ReceivedMessage]:
    """A webhook, and the message of a run that has ended."""
    made = hooked.hook(receiver.url)
    hooked.finished(client_reference="order-7")
    hooked.deliver()
    arrived(receiver, 1)
    return made, receiver.received[0]


def shell(
    script: str, folder: Path, made: webhooks_pb2.WebhookWithSecret, message: ReceivedMessage, **more: str
) -> str:
    (folder / "body.json").write_bytes(message.body)
    variables = {
        "SECRET": made.secret,
        "WEBHOOK_ID": message.headers["webhook-id"],
        "WEBHOOK_TIMESTAMP": message.headers["webhook-timestamp"],
    }
    done = subprocess.run(
        ["sh", "-euc", script],
        cwd=folder,
        env={**os.environ, **variables, **more},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def verified(secret: str, message: ReceivedMessage) -> Any:
    scope: dict[str, Any] = {}
    exec(VERIFICATION.replace("whsec_…", secret), scope)  # noqa: S102 - the block is of this repository
    return scope["received"](message.headers, message.body)


def test_a_message_has_the_form_of_the_example(hooked: WebhookWorld, receiver: Receiver) -> None:
    head, _, body = EXAMPLE.partition("\n\n")
    shown = json.loads(body.replace("\n", ""))
    _, message = sent(hooked, receiver)
    assert {line.partition(":")[0] for line in head.splitlines()[1:]} <= message.headers.keys()
    assert message.json.keys() == shown.keys()
    assert message.json["data"].keys() == shown["data"].keys()
    assert message.headers["webhook-id"][:4] == "msg_"


def test_the_receiver_of_the_page_takes_a_message_and_no_forged_or_old_one(
    hooked: WebhookWorld, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, message = sent(hooked, receiver)

    class Now(datetime):
        at = int(message.headers["webhook-timestamp"])

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.fromtimestamp(cls.at, tz)

    # The clock of the test stands still, somewhere else.
    monkeypatch.setattr("standardwebhooks.webhooks.datetime", Now)
    assert verified(made.secret, message) == message.json
    forged = ReceivedMessage(message.path, message.headers, message.body.replace(b"completed", b"cancelled"))
    with pytest.raises(WebhookVerificationError, match="signature"):
        verified(made.secret, forged)
    Now.at += 301
    with pytest.raises(WebhookVerificationError, match="old"):
        verified(made.secret, message)


def test_the_signature_by_hand_is_that_of_the_message(hooked: WebhookWorld, receiver: Receiver, tmp_path: Path) -> None:
    made, message = sent(hooked, receiver)
    signature = shell(SIGNING, tmp_path, made, message)
    assert message.headers["webhook-signature"] == f"v1,{signature}"
    sending = SENDING.replace("https://shop.example.org/hooks/runs", receiver.url)
    shell(sending, tmp_path, made, message, SIGNATURE=signature)
    again = receiver.received[-1]
    assert len(receiver.received) == 2
    names = ("content-type", "webhook-id", "webhook-timestamp", "webhook-signature")
    assert [again.headers[name] for name in names] == [message.headers[name] for name in names]
    assert again.body == message.body


def test_the_commands_of_the_page_administer_a_webhook(
    hooked: WebhookWorld, receiver: Receiver, backend: TestBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    made, message = sent(hooked, receiver)
    names = {"KEY_ID": hooked.key, "WEBHOOK_ID": made.webhook.webhook_id, "MESSAGE_ID": message.message_id}
    hooked.attempted(names["WEBHOOK_ID"], 1)
    assert {each.split()[1] for each in COMMANDS} == {"create", "rotate", "resume", "deliveries", "redeliver"}
    for each in COMMANDS:
        words = [names.get(word, word) for word in each.split()]
        code = run((*words, "--grpc", backend.address))
        printed = capsys.readouterr()
        assert code == 0, printed.err
        assert ("whsec_" in printed.out) == (words[1] in {"create", "rotate"})
    arrived(receiver, 2)
    assert receiver.received[1].message_id == message.message_id


def test_the_tables_of_the_page_are_complete() -> None:
    rows = set(re.findall(r"^\| `([a-z_.]+)` \|", PAGE, re.MULTILINE))
    errors = set(
        re.findall(r"Outcome\(\s*\w+, (.*?\"\w+\".*?)\)$", inspect.getsource(sender), re.MULTILINE | re.DOTALL)
    )
    words = {word for error in errors for word in re.findall(r"\"(\w+)\"", error)}
    assert rows == {"type", "last_error"} | set(EVENTS) | words


def test_the_setting_of_the_page_is_read(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(SETTINGS, encoding="utf-8")
    assert read_settings({}, config=settings).webhooks.private_networks == ("10.2.0.0/16", "fd00:2::/64")
