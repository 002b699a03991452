"""Settings that are addresses: of gRPC, the database and Redis."""

from pathlib import Path

import pytest

from backend.common.secrets import SecretError, Secrets
from deploy.config.addresses import Address
from deploy.config.secret_references import redis_address
from deploy.config.settings import backend_settings, console_settings
from deploy.config.source import read_settings
from tests.unit.deploy.config.problems import problems

TLS = {f"WORKFLOW_API_BACKEND_TLS_{name}": "/f" for name in ("CERTIFICATE", "KEY", "CA")}


@pytest.mark.parametrize(
    ("given", "name", "reason"),
    [
        ({"BACKEND_GRPC": "0.0.0.0:9090"}, "backend.grpc", "must be on this machine"),
        ({"BACKEND_GRPC": "10.0.0.1:9090"}, "backend.grpc", "must be on this machine"),
        ({"EDGE_BACKEND": "backend.internal:9090"}, "edge.backend", "must be on this machine"),
        ({"EDGE_BACKEND": "127.0.0.1:9090,192.0.2.1:9090"}, "edge.backend", "must be on this machine"),
        ({"BACKEND_TLS_CERTIFICATE": "/c"}, "backend.tls.key", "must be given too"),
        ({"EDGE_BACKEND_TLS_CERTIFICATE": "/c", "EDGE_BACKEND_TLS_KEY": "/k"}, "edge.backend_tls.ca", "must be given"),
        ({"CONSOLE_BACKEND": "backend.internal:9090"}, "console.backend", "must be on this machine"),
        ({"CONSOLE_BACKEND_TLS_CA": "/a"}, "console.backend_tls.certificate", "must be given too"),
        ({"ADMIN_BACKEND_TLS_CA": "/a"}, "admin.backend_tls.certificate", "must be given too"),
    ],
)
def test_grpc_off_this_machine_needs_a_complete_certificate(given: dict[str, str], name: str, reason: str) -> None:
    reported = problems({f"WORKFLOW_API_{variable}": value for variable, value in given.items()})
    assert reported[name].startswith(reason)


@pytest.fixture
def identities(tmp_path: Path) -> Path:
    file = tmp_path / "identities.toml"
    file.write_text('[identities]\n"dns:edge.internal" = ["edge"]\n')
    return file


def test_a_unix_socket_takes_no_certificate(identities: Path) -> None:
    assert list(problems({"WORKFLOW_API_BACKEND_GRPC": "unix:/run/grpc.sock", **TLS}, identities)) == ["backend.grpc"]


def test_with_a_certificate_and_identities_grpc_may_listen_anywhere(identities: Path) -> None:
    settings = read_settings({"WORKFLOW_API_BACKEND_GRPC": "0.0.0.0:9090", **TLS}, config=identities)
    assert settings.backend.grpc == Address("0.0.0.0", 9090)
    assert settings.identities == {"dns:edge.internal": ("edge",)}


def test_a_certificate_needs_identities() -> None:
    assert list(problems(TLS)) == ["identities"]


@pytest.mark.parametrize(
    "value", ["postgresql://app@db.example.org:5432/runs?sslmode=verify-full", "postgres://app@db/runs", "env:DATABASE"]
)
def test_the_database_is_an_address_without_a_password_or_a_reference(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE", "postgresql://app:planted@db/runs")
    settings = backend_settings(read_settings({"WORKFLOW_API_BACKEND_DATABASE": value}), tmp_path)
    assert settings.database == ("postgresql://app:planted@db/runs" if value == "env:DATABASE" else value)
    assert "planted" not in repr(settings)


@pytest.mark.parametrize(
    "value",
    [
        "postgresql://app:planted@db/runs",
        "postgresql://app@db/runs?sslmode=require&password=planted",
        "postgresql://app@db/runs?sslpassword=planted",
        "postgresql://app:pla/nted@db/runs",
        "mysql://app@db/runs",
        "postgresql://app@db",
        "file:relative",
        "runs",
    ],
)
def test_another_database_is_refused_without_quoting_its_password(value: str) -> None:
    reported = problems({"WORKFLOW_API_BACKEND_DATABASE": value})
    assert list(reported) == ["WORKFLOW_API_BACKEND_DATABASE"]
    assert "planted" not in str(reported)


@pytest.mark.parametrize(
    "password",
    [
        "planted@",
        "pla/nted",
        "pla:nted",
        "pla nted",
        "pla#nted",
        "pla?nted",
        "planted@db:9/",
        "planted%",
        "%zzplanted",
        "planted%00",
    ],
)
def test_an_address_that_the_driver_would_quote_in_parts_is_refused(
    password: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE", f"postgresql://app:{password}@db/runs")
    settings = read_settings({"WORKFLOW_API_BACKEND_DATABASE": "env:DATABASE"})
    with pytest.raises(SecretError, match=r"what backend\.database refers to must be an address") as failed:
        backend_settings(settings, tmp_path)
    assert "pla" not in str(failed.value)


@pytest.mark.parametrize(
    "rest", ["db/runs", "/runs", "db1:5432,db2:5433/runs", "[::1]:5432/runs", "%2Frun%2Fpostgresql/runs"]
)
def test_every_form_of_a_libpq_address_is_accepted(rest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE", f"postgresql://app:p%40ss@{rest}?application_name=a")
    settings = read_settings({"WORKFLOW_API_BACKEND_DATABASE": "env:DATABASE"})
    assert backend_settings(settings, tmp_path).database == f"postgresql://app:p%40ss@{rest}?application_name=a"


@pytest.mark.parametrize("url", ["redis://localhost", "rediss://plant@redis.example.org:6380/12", "redis://[::1]:6379"])
def test_the_address_of_redis_holds_no_password(url: str) -> None:
    assert read_settings({"WORKFLOW_API_EDGE_REDIS_URL": url}).edge.redis_url == url
    reported = problems(
        {"WORKFLOW_API_EDGE_REDIS_URL": url.replace("//", "//plant:open-sesame@").replace("@plant", "")}
    )
    assert "open-sesame" not in str(reported)


@pytest.mark.parametrize("setting", ["secret:redis", "file:{}/redis", "env:REDIS"])
def test_the_address_of_redis_may_be_a_reference(tmp_path: Path, setting: str) -> None:
    given = setting.format(tmp_path)
    (tmp_path / "redis").write_text("rediss://:open-sesame@localhost\n")
    secrets = Secrets({"redis": f"file:{tmp_path}/redis"}, {"REDIS": "rediss://:open-sesame@localhost"})
    file = tmp_path / "settings.toml"
    file.write_text(f'[secrets]\nredis = "env:REDIS"\n[edge]\nredis_url = "{given}"\n')
    assert read_settings({}, config=file).edge.redis_url == given
    assert redis_address(given, secrets) == "rediss://:open-sesame@localhost"


@pytest.mark.parametrize(("setting", "name"), [("secret:other", "other"), ("env:OTHER", "edge.redis_url")])
def test_a_refused_address_of_redis_is_not_quoted(setting: str, name: str) -> None:
    secrets = Secrets({"other": "env:OTHER"}, {"OTHER": "open-sesame"})
    with pytest.raises(SecretError, match=f"'{name}' is no redis:// or rediss:// address") as failed:
        redis_address(setting, secrets)
    assert "open-sesame" not in str(failed.value)


@pytest.mark.parametrize("text", ["127.0.0.1:8080", "[::1]:0", "localhost:9090"])
def test_an_address_is_printed_as_it_is_written(text: str) -> None:
    assert str(read_settings({"WORKFLOW_API_EDGE_HTTP": text}).edge.http) == text


@pytest.mark.parametrize(
    ("listen", "given", "https"),
    [
        ("127.0.0.1:8081", {}, False),
        ("[::1]:8081", {}, False),
        ("0.0.0.0:8081", {}, True),
        ("10.0.0.1:8081", {}, True),
        ("127.0.0.1:8081", {"WORKFLOW_API_CONSOLE_HTTPS": "true"}, True),
        ("0.0.0.0:8081", {"WORKFLOW_API_CONSOLE_HTTPS": "false"}, False),
    ],
)
def test_a_console_off_loopback_uses_https_by_default(listen: str, given: dict[str, str], https: bool) -> None:
    settings = read_settings({"WORKFLOW_API_CONSOLE_LISTEN": listen, **given})
    assert settings.console.listen is not None
    assert console_settings(settings, settings.console.listen).https is https


def test_the_hosts_of_a_console_are_names_without_ports() -> None:
    settings = read_settings({"WORKFLOW_API_CONSOLE_HOSTS": "Console.Example.org, ::1"})
    assert console_settings(settings, Address("127.0.0.1", 1)).hosts == ("console.example.org", "::1")
    for wrong in ("console.example.org:443", "a,,b", "https://a", "*", "a b"):
        assert list(problems({"WORKFLOW_API_CONSOLE_HOSTS": wrong})) == ["WORKFLOW_API_CONSOLE_HOSTS"]
