"""Messages to operators: what is sent, to whom, and once. (docs/operators-guide.md)"""

from tests.services.notifications.conftest import NotifiedWorld
from tests.support.poll import until
from tests.support.smtp_server import MailServer


def test_a_failed_run_is_told_by_mail_with_a_link(notified: NotifiedWorld, mail: MailServer) -> None:
    notified.target("operators", mail.url)
    notified.notify()
    run_id = notified.failed()
    until(lambda: mail.mails, "a mail")
    [message] = mail.mails
    assert message["Subject"] == f"[dep-test] Run {run_id} of workflow Plain failed."
    assert f"https://console.example.org/runs/{run_id}" in message.get_content()
    assert mail.recipients == [["ops@example.org"]]
