import logging
from pathlib import Path

import pytest

from deploy.certificates import CertificateFiles, CertificateUnusable
from deploy.settings import ServerTls
from tests.support.authority import Authority, Issued

OURS = Authority()


def tls(folder: Path) -> ServerTls:
    return ServerTls(folder / "certificate.pem", folder / "key.pem", folder / "ca.pem")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return OURS.issue("backend.test").write(tmp_path, OURS.pem)


def test_files_are_read_as_they_are(folder: Path) -> None:
    first = CertificateFiles(tls(folder)).first
    files = [(folder / name).read_bytes() for name in ("certificate.pem", "key.pem", "ca.pem")]
    assert [first.certificate, first.key, first.ca] == files
    assert "PRIVATE" not in repr(first)


def test_nothing_is_new_until_a_file_changes(folder: Path) -> None:
    files = CertificateFiles(tls(folder))
    assert files.renewed() is None

    other = OURS.issue("backend.test")
    other.write(folder, OURS.pem)

    renewed = files.renewed()
    assert renewed is not None
    assert (renewed.certificate, renewed.key) == (other.certificate, other.key)
    assert files.renewed() is None


def test_files_that_do_not_fit_yet_change_nothing(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    files, other = CertificateFiles(tls(folder)), OURS.issue("backend.test")
    caplog.set_level(logging.WARNING)

    (folder / "certificate.pem").write_bytes(other.certificate)
    assert files.renewed() is None
    assert files.renewed() is None
    (told,) = caplog.messages
    assert told.startswith("The certificate in use stays: The key in")

    (folder / "key.pem").write_bytes(other.key)
    renewed = files.renewed()
    assert renewed is not None
    assert renewed.key == other.key


def test_files_that_are_gone_change_nothing(folder: Path) -> None:
    files = CertificateFiles(tls(folder))
    (folder / "key.pem").unlink()
    assert files.renewed() is None


@pytest.mark.parametrize(
    ("issued", "authority", "message"),
    [
        (Issued(b"", b""), OURS.pem, "certificate.pem holds no certificate in PEM"),
        (OURS.issue("a"), b"-----BEGIN", "ca.pem holds no certificate in PEM"),
        (Issued(OURS.issue("a").certificate, b"secret"), OURS.pem, "key.pem holds no private key in PEM"),
        (OURS.issue("a", password="secret"), OURS.pem, "key.pem holds no private key in PEM"),
        (Issued(OURS.issue("a").certificate, OURS.issue("a").key), OURS.pem, "is not that of the certificate"),
        (OURS.issue("a", days=-1), OURS.pem, "expired at"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(tmp_path: Path, issued: Issued, authority: bytes, message: str) -> None:
    with pytest.raises(CertificateUnusable, match=message) as failed:
        CertificateFiles(tls(issued.write(tmp_path, authority)))
    assert "secret" not in failed.value.message


def test_a_file_that_is_missing_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CertificateUnusable, match=r"certificate\.pem cannot be read: No such file"):
        CertificateFiles(tls(tmp_path))
