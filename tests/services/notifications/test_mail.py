"""E-mail to operators: which answers of a server count, and how an attempt ends."""

import ssl
from pathlib import Path

import pytest

from backend.common.clock import DAY_MS
from tests.services.conftest import TestClock
from tests.services.notifications.conftest import NotifiedWorld
from tests.support.authority import Authority
from tests.support.poll import until
from tests.support.smtp_server import MailServer, mail_server

BOTH = ("gone@example.org", "ops@example.org")


def test_a_mail_that_one_recipient_took_is_not_sent_again_and_names_the_failure(
    notified: NotifiedWorld, mail: MailServer, clock: TestClock
) -> None:
    notified.target("operators", mail.url, to=BOTH)
    mail.gone = ("gone@example.org",)
    notified.notify()
    notified.failed()
    [target] = until(
        lambda: [each for each in notified.dump("notification_targets") if each.error], "the outcome of the attempt"
    )
    assert (target.error, target.delivered_at) == ("recipients", target.failed_at)
    assert [each.due_at for each in notified.dump("notifications")] == [None]
    assert mail.recipients == [["ops@example.org"]]


def test_a_mail_that_no_recipient_took_is_sent_again(notified: NotifiedWorld, mail: MailServer) -> None:
    notified.target("operators", mail.url, to=BOTH)
    mail.gone = BOTH
    notified.notify()
    notified.failed()
    until(lambda: notified.dump("notification_targets")[0].error == "recipients", "a failure")
    [message] = notified.dump("notifications")
    assert 0 < message.due_at - notified.clock() < DAY_MS


@pytest.mark.parametrize("farewell", ["421 too busy", None])
def test_a_mail_counts_as_taken_whatever_the_answer_to_the_farewell(
    notified: NotifiedWorld, mail: MailServer, farewell: str | None
) -> None:
    notified.target("operators", mail.url)
    mail.farewell = farewell
    assert notified.notify(timeout_seconds=0.5).send_test("operators") is None
    assert len(mail.mails) == 1


def test_an_attempt_ends_while_the_server_still_greets(notified: NotifiedWorld, mail: MailServer) -> None:
    notified.target("operators", mail.url)
    mail.greets = False
    assert notified.notify(timeout_seconds=0.5).send_test("operators") == "timeout"
    until(lambda: mail.lost, "the end of the connection")


@pytest.mark.parametrize(("trusted", "outcome"), [(True, None), (False, "tls")])
def test_a_mail_over_tls_is_sent_to_servers_with_a_trusted_certificate_alone(
    notified: NotifiedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool, outcome: str | None
) -> None:
    authority = Authority()
    files = authority.issue("127.0.0.1").write(tmp_path / "certificates", authority.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "certificate.pem", files / "key.pem")
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(files / "ca.pem"))
    with mail_server(context) as encrypted:
        notified.target("operators", encrypted.url)
        assert notified.notify().send_test("operators") == outcome
        assert len(encrypted.mails) == (outcome is None)
