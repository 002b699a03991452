"""Log lines and the metric about the end of a certificate."""

import logging
from pathlib import Path

import pytest

from deploy.config.settings import ServerTls
from deploy.transport.certificate_watch import CertificateWatch
from deploy.transport.certificates import CertificateFiles
from tests.support.authority import Authority

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
