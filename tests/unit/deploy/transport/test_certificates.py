import logging
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from deploy.config.settings import ServerTls
from deploy.transport.certificates import CertificateError, CertificateFiles
from tests.support.authority import Authority, IssuedCertificate

OURS = Authority()
_LABEL = "EC PRIVATE KEY"
# Of the curve secp112r1, which nothing uses any more.
_SMALL = "MD4CAQEEDjgygPyTsaM8O9cjO7FBoAcGBSuBBAAGoSADHgAE0XN8D8aAUrsYcsR51EmHTIcyJ7n1NdYyFYVGNg=="
OF_112_BITS = f"-----BEGIN {_LABEL}-----\n{_SMALL[:64]}\n{_SMALL[64:]}\n-----END {_LABEL}-----\n".encode()


def tls(folder: Path) -> ServerTls:
    return ServerTls(folder / "certificate.pem", folder / "key.pem", folder / "ca.pem")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return OURS.issue("backend.test").write(tmp_path, OURS.pem)


def test_the_files_are_read_at_first(folder: Path) -> None:
    first = CertificateFiles(tls(folder)).current()
    files = [(folder / name).read_bytes() for name in ("certificate.pem", "key.pem", "ca.pem")]
    assert [first.certificate, first.key, first.ca] == files
    assert "PRIVATE" not in repr(first)


def test_nothing_is_reloaded_until_a_file_changes(folder: Path) -> None:
    files = CertificateFiles(tls(folder))
    former = files.current()
    assert files.current() is former

    other = OURS.issue("backend.test")
    other.write(folder, OURS.pem)

    renewed = files.current()
    assert (renewed.certificate, renewed.key) == (other.certificate, other.key)
    assert files.current() is renewed


def test_files_that_do_not_fit_yet_change_nothing(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    files, other = CertificateFiles(tls(folder)), OURS.issue("backend.test")
    caplog.set_level(logging.WARNING)
    former = files.current()

    (folder / "certificate.pem").write_bytes(other.certificate)
    assert files.current() is former
    assert files.current() is former
    (reported,) = caplog.messages
    assert reported.startswith("The current certificate stays in use: The key in")

    (folder / "key.pem").write_bytes(other.key)
    assert files.current().key == other.key


def test_files_that_are_gone_change_nothing(folder: Path) -> None:
    files = CertificateFiles(tls(folder))
    former = files.current()
    (folder / "key.pem").unlink()
    assert files.current() is former


@pytest.mark.parametrize(
    ("issued", "authority", "message"),
    [
        (IssuedCertificate(b"", b""), OURS.pem, "certificate.pem holds no certificate in PEM"),
        (OURS.issue("a"), b"-----BEGIN", "ca.pem holds no certificate in PEM"),
        (IssuedCertificate(OURS.issue("a").certificate, b"secret"), OURS.pem, "key.pem holds no private key in PEM"),
        (IssuedCertificate(OURS.issue("a").certificate, OF_112_BITS), OURS.pem, "key.pem is of no supported kind"),
        (OURS.issue("a", password="secret"), OURS.pem, "key.pem has a password: key_password says where it is"),
        (
            IssuedCertificate(OURS.issue("a").certificate, OURS.issue("a").key),
            OURS.pem,
            "is not that of the certificate",
        ),
        (OURS.issue("a", days=-1), OURS.pem, "expired at"),
    ],
)
def test_an_unusable_certificate_is_one_sentence(
    tmp_path: Path, issued: IssuedCertificate, authority: bytes, message: str
) -> None:
    with pytest.raises(CertificateError, match=message) as failed:
        CertificateFiles(tls(issued.write(tmp_path, authority)))
    assert "secret" not in failed.value.message


def test_a_file_that_is_missing_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match=r"certificate\.pem cannot be read: No such file"):
        CertificateFiles(tls(tmp_path))


def sealed(folder: Path, password: Path) -> ServerTls:
    return replace(tls(folder), key_password=f"file:{password}")


def test_a_key_with_a_password_is_decrypted_for_grpc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    OURS.issue("a", password="planted").write(tmp_path, OURS.pem)
    (tmp_path / "password").write_text("planted\n")
    opened = CertificateFiles(sealed(tmp_path, tmp_path / "password")).current()
    assert b"ENCRYPTED" in (tmp_path / "key.pem").read_bytes()
    assert isinstance(load_pem_private_key(opened.key, password=None), ec.EllipticCurvePrivateKey)

    monkeypatch.setenv("KEY_PASSWORD", "planted")
    assert CertificateFiles(replace(tls(tmp_path), key_password="env:KEY_PASSWORD")).current() == opened


def test_a_key_and_its_password_may_be_replaced_one_by_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    password = tmp_path / "password"
    password.write_text("planted")
    OURS.issue("a", password="planted").write(tmp_path, OURS.pem)
    files = CertificateFiles(sealed(tmp_path, password))

    former = files.current()
    OURS.issue("a", password="planted anew").write(tmp_path, OURS.pem)
    assert files.current() is former
    password.write_text("planted anew")
    assert files.current() is not former
    assert "planted" not in caplog.text


@pytest.mark.parametrize(
    ("key_password", "message"),
    [
        ("open-sesame", r"key\.pem holds no private key in PEM that can be opened"),
        ("", r"key\.pem cannot be opened: the secret 'key_password' is not set"),
        (None, r"key\.pem cannot be opened: the secret 'key_password' cannot be read: No such file"),
    ],
)
def test_a_wrong_password_of_the_key_is_one_sentence(tmp_path: Path, key_password: str | None, message: str) -> None:
    OURS.issue("a", password="planted").write(tmp_path, OURS.pem)
    if key_password is not None:
        (tmp_path / "password").write_text(key_password)
    with pytest.raises(CertificateError, match=message) as failed:
        CertificateFiles(sealed(tmp_path, tmp_path / "password"))
    assert "open-sesame" not in failed.value.message


def test_a_password_for_a_key_that_has_none_is_one_sentence(folder: Path) -> None:
    (folder / "password").write_text("planted")
    with pytest.raises(CertificateError, match=r"key\.pem has no password, but one is given"):
        CertificateFiles(sealed(folder, folder / "password"))
