"""Log lines and the metric about the end of a certificate."""

import logging
from pathlib import Path

import pytest

from deploy.config.settings import ServerTls
from deploy.transport.certificate_watch import CertificateWatch, watched_certificate
from deploy.transport.certificates import CertificateFiles
from telemetry import MetricsRegistry
from tests.support.authority import Authority
from tests.support.poll import until

OURS = Authority("ours")


def files_in(folder: Path) -> CertificateFiles:
    return CertificateFiles(ServerTls(folder / "certificate.pem", folder / "key.pem", folder / "ca.pem"))


DAY = 86_400


def test_a_certificate_that_ends_soon_is_logged_once_at_14_days_and_at_1_and_once_that_it_was_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    OURS.issue("edge.test", days=20).write(tmp_path, OURS.pem)
    watch = CertificateWatch("edge", files_in(tmp_path))
    logged = []
    for days in (20, 13, 0.5, 20):
        OURS.issue("edge.test", days=days).write(tmp_path, OURS.pem)
        for _ in range(2):
            watch.check()
        [family] = watch.measured()
        [sample] = family.samples
        assert (family.name, sample.labels) == ("workflow_api_certificate_expires_seconds", {"part": "edge"})
        assert days * DAY - 60 < sample.value <= days * DAY
        logged.append([(record.levelname, record.message.partition(" (")[0]) for record in caplog.records])
        caplog.clear()
    soon = "The certificate of the edge expires soon"
    assert logged[:3] == [[], [("WARNING", soon)], [("ERROR", soon)]]
    [(level, replaced)] = logged[3]
    assert (level, replaced.partition(";")[0]) == ("WARNING", "The certificate of the edge was replaced")


def test_an_authority_that_ends_first_counts_as_the_end_of_a_certificate(tmp_path: Path) -> None:
    """The authority of tests is valid for 90 days."""
    OURS.issue("edge.test", days=300).write(tmp_path, OURS.pem)
    [family] = CertificateWatch("edge", files_in(tmp_path)).measured()
    assert family.samples[0].value < 91 * DAY


def test_a_check_that_fails_does_not_end_the_watch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_FIRST_SECONDS", "_PAUSE_SECONDS"):
        monkeypatch.setattr(f"deploy.transport.certificate_watch.{name}", 0.01)
    OURS.issue("edge.test", days=20).write(tmp_path, OURS.pem)
    files = files_in(tmp_path)
    outcomes = iter([OSError("the certificate cannot be read"), None])

    def check(_: CertificateWatch) -> None:
        error = next(outcomes, None)
        if error is not None:
            raise error

    monkeypatch.setattr(CertificateWatch, "check", check)
    with watched_certificate("edge", files, MetricsRegistry()):
        until(lambda: "The watch of the certificate goes on" in caplog.messages, "the next check")
    assert caplog.messages[0] == "The watch of the certificate fails: the certificate cannot be read"
