"""Messages to operators: what is sent, to whom, and once. (docs/operators-guide.md)"""

from concurrent.futures import ThreadPoolExecutor

from backend.common.clock import DAY_MS
from backend.services.health import sql as health_sql
from backend.services.health.finding_notifications import FindingNotifier
from backend.services.health.sql import ProcessRow
from backend.services.notifications import sql
from backend.services.notifications.notifier import BACK_OFF_MS
from backend.services.notifications.rules import NotificationEvent
from backend.storage.database import Tx
from tests.services.conftest import TestClock
from tests.services.notifications.conftest import NotifiedWorld
from tests.support.poll import until
from tests.support.smtp_server import MailServer, mail_server
from tests.support.webhook_receiver import Receiver

PLANTED = "Erika Mustermann 4711"


def test_a_failed_run_is_told_by_mail_with_a_link(notified: NotifiedWorld, mail: MailServer) -> None:
    notified.target("operators", mail.url)
    notified.notify()
    run_id = notified.failed()
    until(lambda: mail.mails, "a mail")
    [message] = mail.mails
    assert message["Subject"] == f"[dep-test] Run {run_id} of workflow Plain failed."
    assert f"https://console.example.org/runs/{run_id}" in message.get_content()
    assert mail.recipients == [["ops@example.org"]]


def test_a_waiting_run_is_told_with_its_step_and_nothing_of_its_values(
    notified: NotifiedWorld, mail: MailServer, receiver: Receiver
) -> None:
    notified.target("operators", mail.url)
    notified.target("chat", receiver.url, "slack")
    notified.target("team", receiver.url, "teams")
    notified.notify()
    run_id = notified.started("Gated", input_text=PLANTED, client_reference=PLANTED)
    notified.park(run_id, notified.begin(run_id), "review")
    until(lambda: mail.mails and len(receiver.received) == 2, "three messages")
    texts = [mail.mails[0].as_string(), *(each.body.decode() for each in receiver.received)]
    assert all(f"Run {run_id} of workflow Gated waits for an approval at step review." in text for text in texts)
    assert not any(PLANTED in text for text in texts)


def test_errors_of_agents_are_not_told(notified: NotifiedWorld, mail: MailServer) -> None:
    notified.target("operators", mail.url)
    notified.notify()
    run_id = notified.started()
    notified.begin(run_id)
    notified.close(run_id, "failed", error_code="step_failed", error_message=PLANTED)
    until(lambda: mail.mails, "a mail")
    assert PLANTED not in mail.mails[0].as_string()


def test_a_target_gets_the_events_and_workflows_that_it_names_alone(notified: NotifiedWorld, mail: MailServer) -> None:
    notified.target("others", mail.url, workflows=("Gated",), to=("gated@example.org",))
    notified.target("waits", mail.url, events=("run.waiting_for_approval",), to=("waits@example.org",))
    notified.target("all", mail.url)
    notified.notify()
    notified.failed()
    last = notified.failed("Gated")
    until(lambda: sum(last in str(each["Subject"]) for each in mail.mails) == 2, "mails of the last run")
    assert sorted(to for [to] in mail.recipients) == ["gated@example.org", "ops@example.org", "ops@example.org"]


def test_completed_runs_are_not_told(notified: NotifiedWorld, mail: MailServer) -> None:
    notified.target("operators", mail.url)
    notified.notify()
    notified.finished()
    assert notified.count("notifications") == 0


def test_a_message_that_was_refused_is_sent_again_later(
    notified: NotifiedWorld, mail: MailServer, clock: TestClock
) -> None:
    notified.target("operators", mail.url)
    mail.refuses = True
    notified.notify()
    notified.failed()
    until(lambda: notified.dump("notification_targets")[0].error == "answer", "a failure")
    mail.refuses = False
    clock.advance(seconds=6)
    until(lambda: mail.mails, "a mail")
    until(lambda: notified.dump("notification_targets")[0].error is None, "a success")


def test_a_message_of_a_process_that_died_while_it_sent_is_sent_by_another(
    notified: NotifiedWorld, mail: MailServer, clock: TestClock
) -> None:
    notified.target("operators", mail.url)
    notified.notify()
    notified.stop()
    notified.failed()
    database = notified.services.database
    assert database.write(lambda tx: sql.claim(tx, "operators", "clm_dead", clock(), clock() + 20_000))
    assert database.write(lambda tx: sql.claim(tx, "operators", "clm_other", clock(), clock() + 20_000)) is None
    clock.advance(seconds=21)
    notified.notify()
    until(lambda: mail.mails, "a mail")


def test_a_target_that_does_not_answer_holds_up_no_other(notified: NotifiedWorld, mail: MailServer) -> None:
    with mail_server() as slow:
        slow.gate.clear()
        notified.target("slow", slow.url)
        notified.target("operators", mail.url)
        notified.notify(timeout_seconds=1.0)
        for _ in range(3):
            notified.failed()
        until(lambda: len(mail.mails) == 3, "mails of the other target")
        until(lambda: slow.attempts, "an attempt")
        assert not slow.mails
        found = until(
            lambda: [each for each in notified.dump("notification_targets") if each.error == "timeout"], "a time-out"
        )
        assert [each.name for each in found] == ["slow"]


def test_private_addresses_get_no_message_unless_the_settings_name_them(
    notified: NotifiedWorld, receiver: Receiver
) -> None:
    notified.target("chat", receiver.url, "slack")
    notifier = notified.notify(private_networks=())
    assert notifier.send_test("chat") == "address"
    assert not receiver.received


def test_redirects_are_not_followed(notified: NotifiedWorld, receiver: Receiver) -> None:
    receiver.status, receiver.location = 302, receiver.url
    notified.target("chat", receiver.url, "slack")
    assert notified.notify().send_test("chat") == "redirect"
    assert len(receiver.received) == 1


def test_a_password_is_not_sent_unencrypted(notified: NotifiedWorld, mail: MailServer) -> None:
    notified.target("operators", mail.url.replace("//", "//user:password@"))
    assert notified.notify().send_test("operators") == "tls"


def test_an_address_of_another_kind_is_refused_without_being_quoted(notified: NotifiedWorld, mail: MailServer) -> None:
    notified.target("chat", mail.url, "slack")
    assert notified.notify().send_test("chat") == "secret"


def test_a_low_disk_is_told_once_an_hour(notified: NotifiedWorld, mail: MailServer, clock: TestClock) -> None:
    notified.target("operators", mail.url)
    notified.notify()
    findings = FindingNotifier(notified.services)
    for minutes in (0, 30, 31):
        clock.advance(seconds=60 * minutes)
        now = clock()
        row = ProcessRow("proc_1", "backend", "front", 7, "1", now, now, data_total=10**12, data_free=10**8)
        notified.services.database.write(lambda tx: health_sql.report(tx, row))  # noqa: B023 - called at once
        findings.round()
    assert notified.count("notifications") == 2
    until(lambda: len(mail.mails) == 2, "two mails")
    assert "The disk of the data folder on front has 0.1 GB free" in str(mail.mails[0]["Subject"])


def test_a_certificate_and_a_key_that_expire_are_told_once_a_day(
    notified: NotifiedWorld, mail: MailServer, clock: TestClock
) -> None:
    notified.target("operators", mail.url, events=("certificate.expiring", "key.expiring"))
    notified.notify()
    expiring = "certificate.expiring"
    findings = FindingNotifier(notified.services)
    for _ in range(2):
        now = clock()
        row = ProcessRow("proc_1", "edge", "front", 7, "1", now, now, certificate_expires_at=now + 3 * DAY_MS)
        notified.services.database.write(lambda tx: health_sql.report(tx, row))  # noqa: B023 - called at once
        findings.round()
        clock.advance(hours=2)
    assert [each.event for each in notified.dump("notifications")] == [expiring]
    [key] = notified.dump(f"api_keys WHERE key_id = '{notified.key}'")
    clock.advance(seconds=(key.expires_at - clock()) / 1000 - 3_600)
    findings.round()
    until(lambda: any(f"({notified.key}) expires in" in str(each["Subject"]) for each in mail.mails), "a mail")


def test_targets_that_leave_the_settings_leave_with_their_messages(notified: NotifiedWorld) -> None:
    notified.target("operators", "smtp://127.0.0.1:1")
    notified.notify()
    notified.failed()
    notified.stop()
    notified.notify(targets={})
    assert (notified.count("notifications"), notified.count("notification_targets")) == (0, 0)


def test_messages_for_a_dead_target_are_bounded(notified: NotifiedWorld) -> None:
    notified.target("operators", "smtp://127.0.0.1:1")
    notified.notify()
    notified.stop()
    run_id = notified.failed()

    def fill(tx: Tx) -> None:
        for _ in range(sql.MOST_PENDING + 5):
            sql.notify_of_run(tx, NotificationEvent.RUN_FAILED, run_id, notified.clock())

    notified.services.database.write(fill)
    assert notified.count("notifications") == sql.MOST_PENDING


def test_messages_of_other_workflows_take_no_place_of_a_target(notified: NotifiedWorld) -> None:
    notified.target("operators", "smtp://127.0.0.1:1", workflows=("Gated",))
    notified.notify()
    notified.stop()
    other = notified.failed()

    def fill(tx: Tx) -> None:
        for _ in range(sql.MOST_PENDING):
            sql.notify_of_run(tx, NotificationEvent.RUN_FAILED, other, notified.clock())

    notified.services.database.write(fill)
    wanted = notified.failed("Gated")
    assert [each.run_id for each in notified.dump("notifications")] == [wanted]


def test_schedules_are_told_to_targets_of_their_workflow_and_findings_to_all(notified: NotifiedWorld) -> None:
    notified.target("operators", "smtp://127.0.0.1:1", workflows=("Gated", "Other"))
    notified.notify()
    notified.stop()
    ids = {each.name: each.workflow_id for each in notified.dump("workflows")}

    def work(tx: Tx) -> None:
        for workflow_id in (ids["Plain"], ids["Gated"], "wf_gone"):
            event, now = NotificationEvent.SCHEDULE_FAILED, notified.clock()
            sql.notify(tx, event, f"of {workflow_id}", {}, now, workflow_id=workflow_id)
        sql.notify(tx, NotificationEvent.DISK_LOW, "disk", {}, notified.clock())

    notified.services.database.write(work)
    assert {each.subject for each in notified.dump("notifications")} == {f"of {ids['Gated']}", "disk"}


def test_a_target_gets_the_workflows_of_the_newest_settings(notified: NotifiedWorld) -> None:
    for workflows, count in (((), 1), (("Gated",), 1), (("Gated", "Plain"), 2)):
        notified.target("operators", "smtp://127.0.0.1:1", workflows=workflows)
        notified.notify()
        notified.stop()
        notified.failed()
        assert notified.count("notifications") == count


def test_a_message_whose_attempts_never_end_is_given_up(
    notified: NotifiedWorld, mail: MailServer, clock: TestClock
) -> None:
    notified.target("operators", mail.url)
    notified.notify()
    notified.stop()
    notified.failed()
    for _ in range(len(BACK_OFF_MS) + 1):
        database = notified.services.database
        assert database.write(lambda tx: sql.claim(tx, "operators", "clm_dead", clock(), clock() + 20_000))
        clock.advance(seconds=21)
    notified.notify()
    until(lambda: notified.dump("notification_targets")[0].error == "unfinished", "the end of the message")
    assert [each.due_at for each in notified.dump("notifications")] == [None]
    assert not mail.mails


def test_a_test_message_that_a_stop_interrupts_fails(notified: NotifiedWorld, mail: MailServer) -> None:
    notified.target("operators", mail.url)
    mail.gate.clear()
    # The stop waits for a shorter time than the attempt may take.
    notifier = notified.notify(timeout_seconds=4.0)
    with ThreadPoolExecutor() as threads:
        tested = threads.submit(notifier.send_test, "operators")
        until(lambda: mail.attempts, "an attempt")
        notified.stop()
        assert tested.result(timeout=30) == "stopped"
