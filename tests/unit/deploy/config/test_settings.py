import dataclasses
from pathlib import Path

import pytest

from backend.isolation.confined.frames import encode
from backend.settings import ModelProvider
from deploy.config.addresses import Address
from deploy.config.settings import Settings, backend_settings, edge_settings
from deploy.config.source import TABLES, Setting, known_settings, read_settings
from deploy.failures import CommandError
from tests.unit.deploy.config.problems import problems

DOCUMENT = (Path(__file__).parents[4] / "docs" / "settings.md").read_text(encoding="utf-8")


def test_without_sources_every_setting_has_its_default() -> None:
    assert read_settings({}) == Settings()


GOOD_VALUES = {
    "data": "/data",
    "deployment_id": "plant-7",
    "log_level": "info,edge=debug",
    "log_format": "json",
    "edge.http": "127.0.0.1:1",
    "edge.backend": "127.0.0.1:2",
    "edge.app_domain": "api.example.org",
    "edge.client_address": "header:X-Address",
    "edge.traceparent": "link",
    "edge.redis_url": "redis://localhost",
    "console.listen": "127.0.0.1:3",
    "console.backend": "127.0.0.1:4",
    "console.client_address": "load_balancer",
    "console.hosts": "console.example.org",
    "backend.grpc": "127.0.0.1:5",
    "backend.database": "postgresql://user@host/name",
    "runtime.sandbox": "bwrap",
    "runtime.network": "full",
    "edge.processes": "0",
    "runtime.engine": "dbos",
    "runtime.memory_mb": "2000",
    "packages.index_url": "https://one.example.org/simple",
    "packages.extra_index_url": "https://two.example.org/simple",
    "packages.wheels": "/wheels",
    "packages.folder": "/packages",
    "webhooks.private_networks": "10.0.0.0/8",
    "runtime.mcp_private_networks": "10.0.0.0/8",
    "runtime.mcp_hosts": "tools.example.org,mcp.example.com",
    "oidc.issuer": "https://login.example.org",
    "oidc.client_id": "console",
    "oidc.client_secret": "oidc",
    "oidc.roles": "staff=viewer",
    "oidc.role_claim": "roles",
    "oidc.email_domains": "example.org",
    "oidc.label": "Sign in",
    "oidc.scopes": "openid",
    "objects.store": "s3",
    "objects.folder": "/objects",
    "objects.bucket": "bucket",
    "objects.prefix": "plant-7/",
    "objects.endpoint_url": "https://s3.example.org",
    "objects.region": "eu-central-1",
    "objects.sse": "aws:kms",
    "objects.kms_key_id": "key",
    "metrics.listen": "127.0.0.1:6",
    "traces.endpoint": "http://localhost:4318",
}


def good_value(setting: Setting) -> str:
    """Returns a value other than the default, as an environment variable holds it."""
    if ".backend_tls." in setting.name or setting.name.startswith("backend.tls."):
        return {"key_password": "env:PASSWORD", "server_name": "backend"}.get(setting.name.rpartition(".")[2], "/file")
    if setting.kind is bool:
        return str(setting.default is False).lower()
    if setting.kind in {int, float}:
        return GOOD_VALUES.get(setting.name) or f"{2 if setting.default is None else setting.default + 1}"  # type: ignore[operator]  # a number
    return GOOD_VALUES[setting.name]


def held(settings: object, name: str) -> object:
    for part in name.split("."):
        settings = getattr(settings, part)
    return settings


def test_every_setting_is_read_from_the_file_and_from_its_variable(tmp_path: Path) -> None:
    values = {setting: good_value(setting) for setting in known_settings()}
    written = {
        setting.name: value if setting.kind in {int, float, bool} else f'"{value}"' for setting, value in values.items()
    }
    tables = '[secrets]\noidc = "env:OIDC"\n[identities]\n"dns:edge" = ["edge"]\n'
    tables_only, complete = tmp_path / "tables.toml", tmp_path / "settings.toml"
    tables_only.write_text(tables)
    complete.write_text("".join(f"{name} = {value}\n" for name, value in written.items()) + tables)

    by_file = read_settings({}, config=complete)
    by_variable = read_settings({setting.variable: value for setting, value in values.items()}, config=tables_only)

    assert by_file == by_variable
    assert [each.name for each in values if held(by_file, each.name) == held(Settings(), each.name)] == []
    assert backend_settings(by_file, tmp_path).packages.extra_index_url == "https://two.example.org/simple"


@pytest.mark.parametrize(
    "value", ["", "\0", "~nobody-has-this-name/x", "nan", "[::", "²", 10**400, -1, True, [], "a" * 9_000]
)
def test_a_value_is_read_or_refused_whatever_it_is(value: object) -> None:
    for setting in known_settings():
        try:
            setting.read(value)
        except ValueError as refused:
            assert str(refused).startswith("must "), setting.name  # noqa: PT017 - reading it is no failure either


def test_a_later_source_overrides_an_earlier_one(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('log_level = "info"\n[edge]\nhttp = "127.0.0.1:1"\n[runtime]\nstep_slots = 1\n')
    environment = {"WORKFLOW_API_EDGE_HTTP": "127.0.0.1:2", "WORKFLOW_API_RUNTIME_STEP_SLOTS": "2"}

    settings = read_settings(environment, config=file, given={"edge.http": "127.0.0.1:3", "data": None})

    assert settings.log_level == "info"
    assert settings.runtime.step_slots == 2
    assert settings.edge.http == Address("127.0.0.1", 3)
    assert settings.data is None


def test_the_variable_names_the_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('deployment_id = "plant-7"\n')
    assert read_settings({"WORKFLOW_API_CONFIG": str(file)}).deployment_id == "plant-7"


def test_all_unknown_names_are_reported_together(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('colour = "red"\n[edge]\nhtp = "127.0.0.1:1"\n[server]\nport = 1\n')

    reported = problems({"WORKFLOW_API_EDGE_HTPP": "x", "HOME": "/"}, file)

    assert set(reported) == {"colour", "edge.htp", "server.port", "WORKFLOW_API_EDGE_HTPP"}
    assert reported["edge.htp"] == "is no setting; did you mean edge.http?"
    assert reported["WORKFLOW_API_EDGE_HTPP"] == "is no setting; did you mean WORKFLOW_API_EDGE_HTTP?"


@pytest.mark.parametrize("variable", ["WORKFLOW_API_GRPC", "WORKFLOW_API_KEY", "WORKFLOW_API_TEST_POSTGRES"])
def test_reserved_variables_are_no_settings(variable: str) -> None:
    assert read_settings({variable: "x"}) == Settings()


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("EDGE_HTTP", "8080", "must be HOST:PORT"),
        ("EDGE_HTTP", "localhost:65536", "must be HOST:PORT"),
        ("BACKEND_GRPC", "unix:grpc.sock", "must be unix: and an absolute path"),
        ("BACKEND_GRPC", f"unix:/{'a' * 107}", "must be unix: and an absolute path of at most 107 bytes"),
        ("EDGE_BACKEND", "backend", "must be HOST:PORT"),
        ("EDGE_BACKEND", "127.0.0.1:9090,backend:9090", "must all be IPv4 or all IPv6"),
        ("EDGE_BACKEND", "127.0.0.1:9090,[::1]:9090", "must all be IPv4 or all IPv6"),
        ("EDGE_BACKEND", "127.0.0.1:9090,", "must be HOST:PORT"),
        ("EDGE_BACKEND_TLS_SERVER_NAME", "a/b", "must be a host's name"),
        ("EDGE_CLIENT_ADDRESS", "header:", "must be peer, load_balancer or header:<Name>"),
        (
            "EDGE_PROCESSES",
            "2",
            "must be 0 or 1, or left out: several edges of one machine are several `workflow-api edge`",
        ),
        (
            "SERVE_EDGES",
            "2",
            "must be 0 or 1, or left out: several edges of one machine are several `workflow-api edge`",
        ),
        ("EDGE_REDIS_URL", "localhost:6379", "must be redis://HOST:PORT"),
        ("EDGE_REDIS_URL", "redis://:pass/word@localhost", "must be redis://HOST:PORT"),
        ("EDGE_REDIS_URL", "redis://localhost/0?password=x", "must be redis://HOST:PORT"),
        ("EDGE_REDIS_URL", "secret:a b", "must be redis://HOST:PORT"),
        ("RUNTIME_SANDBOX", "off", "must be auto or bwrap or landlock or none"),
        ("RUNTIME_NETWORK", "some", "must be none or full"),
        ("RUNTIME_STEP_SLOTS", "0", "must be from 1 to 256"),
        ("RUNTIME_STEP_SLOTS", "1.0", "must be a whole number"),
        ("CONSOLE_HTTPS", "yes", "must be true or false"),
        ("CONSOLE_LISTEN", "8081", "must be HOST:PORT"),
        ("EDGE_DRAIN_SECONDS", "nan", "must be from 0 to 3600"),
        ("DEPLOYMENT_ID", "a b", "must be 1 to 128 of"),
        ("DATA", "", "must be a text that is not empty"),
        ("OBJECTS_STORE", "gcs", "must be folder or s3"),
        ("OBJECTS_BUCKET", "No", "must be 3 to 63 of"),
        ("OBJECTS_PREFIX", "a", "must be a path that ends with a slash"),
        ("OBJECTS_PREFIX", "/a/", "must be a path that ends with a slash"),
        ("OBJECTS_ENDPOINT_URL", "localhost:9000", "must be an http or https address"),
        ("OBJECTS_SSE", "kms", "must be none or AES256 or aws:kms"),
        ("LOG_LEVEL", "loud", "must be debug or info or warning or error"),
        ("LOG_LEVEL", "info,edge.requsts=debug", "names edge.requsts, which is no part of the service"),
        ("LOG_FORMAT", "xml", "must be auto or json or text"),
    ],
)
def test_a_refused_value_is_reported_with_the_allowed_ones(variable: str, value: str, reason: str) -> None:
    reported = problems({f"WORKFLOW_API_{variable}": value})
    assert reported[f"WORKFLOW_API_{variable}"].startswith(reason)


@pytest.mark.parametrize("line", ["step_slots = true", "step_slots = 1.0", "step_slots = []", "sandbox = 1"])
def test_a_value_of_the_wrong_type_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"[runtime]\n{line}\n")
    assert list(problems({}, file)) == [f"runtime.{line.split(maxsplit=1)[0]}"]


def test_secrets_and_models_are_read_from_their_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.toml"
    (tmp_path / "key").write_text("from-the-file\n")
    file.write_text(
        f'[secrets]\nopenai = "env:PLANT_KEY"\ninbox = "file:{tmp_path}/key"\n'
        '[models.openai]\napi_key = "openai"\nbase_url = "http://127.0.0.1:8000/v1"\n'
    )
    monkeypatch.setenv("PLANT_KEY", "from-the-variable")

    backend = backend_settings(read_settings({}, config=file), tmp_path)

    assert (backend.secrets.get("openai"), backend.secrets.get("inbox")) == ("from-the-variable", "from-the-file")
    assert backend.models == {"openai": ModelProvider("openai", "http://127.0.0.1:8000/v1")}
    assert "from-the" not in repr(backend)


@pytest.mark.parametrize(
    ("entry", "name", "reason"),
    [
        ('[secrets]\na = "sk-1234"', "secrets.a", "must be env:VARIABLE or file:/path"),
        ('[secrets]\na = "file:key"', "secrets.a", "must be env:VARIABLE or file:/path"),
        ('[secrets]\na = "env:A B"', "secrets.a", "must be env:VARIABLE or file:/path"),
        ("[secrets]\na.b = 1", "secrets.a", "must be env:VARIABLE or file:/path"),
        ('[secrets]\n"a b" = "env:A"', "secrets.a b", "must have a name of"),
        ("secrets = 1", "secrets", "must be a table: [secrets]"),
        ('[identities]\n"edge" = ["edge"]', "identities.edge", "must be named dns:<name in lower case> or uri:<URI>"),
        ('[identities]\n"dns:Edge" = ["edge"]', "identities.dns:Edge", "must be named dns:<name in lower case>"),
        ('[identities]\n"uri:" = ["edge"]', "identities.uri:", "must be named"),
        ('[identities]\n"dns:edge" = "edge"', "identities.dns:edge", "must be a list of what it may call"),
        ('[identities]\n"dns:edge" = [1]', "identities.dns:edge", "must be a list of what it may call"),
        ('[identities]\n"dns:edge" = ["edge"]', "identities", "must not be given without backend.tls"),
        ('[models]\nopenai = "openai"', "models.openai", "must be a table of api_key and base_url"),
        ('[models.openai]\nkey = "openai"', "models.openai", "must be a table of api_key and base_url"),
        ('[models.openai]\nbase_url = "localhost"', "models.openai", "must have as base_url an http"),
        ('[models.openai]\napi_key = "sk-1234"', "models.openai", "must have as api_key a name that [secrets] holds"),
        ('[backend.tls]\nkey_password = "sk-1234"', "backend.tls.key_password", "must be env:VARIABLE or file:/path"),
        ('[edge]\nredis_url = "secret:a"', "edge.redis_url", "must name a secret that [secrets] holds; 'a' is none"),
        ('[models.Open]\napi_key = "a"', "models.Open", "must be named as models name their provider"),
    ],
)
def test_an_entry_of_a_table_that_is_not_allowed_is_named(tmp_path: Path, entry: str, name: str, reason: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"{entry}\n")
    reported = problems({}, file)
    assert list(reported) == [name]
    assert reported[name].startswith(reason)
    assert "sk-1234" not in str(reported)


def test_tables_cannot_be_given_by_variables() -> None:
    assert list(problems({"WORKFLOW_API_SECRETS_A": "env:A"})) == ["WORKFLOW_API_SECRETS_A"]


def test_an_option_is_named_as_the_option() -> None:
    assert list(problems({}, given={"edge.http": "nowhere"})) == ["--http"]


@pytest.mark.parametrize("content", ["[edge", "\udcff"])
def test_a_file_that_is_not_toml_is_reported(tmp_path: Path, content: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(content, errors="surrogateescape")
    with pytest.raises(CommandError, match="is not TOML"):
        read_settings({}, config=file)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read: No such file"):
        read_settings({}, config=tmp_path / "missing.toml")


def test_every_part_gets_its_settings(tmp_path: Path) -> None:
    settings = read_settings(
        {
            "WORKFLOW_API_EDGE_HTTP": "[::1]:8081",
            "WORKFLOW_API_EDGE_CLIENT_ADDRESS": "load_balancer",
            "WORKFLOW_API_EDGE_DRAIN_SECONDS": "3",
            "WORKFLOW_API_DEPLOYMENT_ID": "plant-7",
            "WORKFLOW_API_RUNTIME_SANDBOX": "none",
            "WORKFLOW_API_OBJECTS_STORE": "s3",
            "WORKFLOW_API_OBJECTS_BUCKET": "kept",
            "WORKFLOW_API_OBJECTS_PREFIX": "plant-7/",
        }
    )

    edge, backend = edge_settings(settings), backend_settings(settings, tmp_path)

    assert (edge.host, edge.port, edge.client_address, edge.drain_seconds) == ("::1", 8081, "load_balancer", 3.0)
    assert edge.deployment_id == "plant-7"
    assert (backend.data, backend.sandbox, backend.deployment_id) == (tmp_path, "none", "plant-7")
    assert (backend.objects.store, backend.objects.bucket, backend.objects.prefix) == ("s3", "kept", "plant-7/")


def test_settings_have_the_defaults_of_the_parts() -> None:
    """Defaults are stated once, by the parts."""
    settings = Settings()
    assert dataclasses.asdict(edge_settings(settings)) == dataclasses.asdict(type(edge_settings(settings))())
    folder = Path("/folder")
    assert backend_settings(settings, folder) == type(backend_settings(settings, folder))(data=folder)


def test_every_setting_is_documented() -> None:
    rows = {
        setting.name: f"| `{setting.name}` | {'' if setting.default is None else f'`{setting.default}` '}|"
        for setting in known_settings()
    }
    assert {name: row for name, row in rows.items() if row not in DOCUMENT} == {}


def test_every_variable_is_named_after_its_setting() -> None:
    """The page of settings says this rule in place of each variable."""
    variables = {
        setting.variable: f"WORKFLOW_API_{setting.name.upper().replace('.', '_')}" for setting in known_settings()
    }
    assert {given: ruled for given, ruled in variables.items() if given != ruled} == {}


def test_every_documented_setting_exists() -> None:
    known = {setting.name for setting in known_settings()}
    documented = {line.split("`")[1] for line in DOCUMENT.splitlines() if line.startswith("| `")}
    of_tables = {name for name in documented if name.partition(".")[0] in TABLES}
    assert documented - of_tables == known
    assert {name.partition(".")[0] for name in of_tables} == set(TABLES)


def test_a_relative_data_folder_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert backend_settings(Settings(), Path("data")).data == tmp_path / "data"


@pytest.mark.parametrize(("name", "most"), [("result_bytes", 31_457_280), ("output_files", 30_000)])
def test_bounds_of_confined_processes_fit_their_frames(name: str, most: int) -> None:
    spelling = f"WORKFLOW_API_RUNTIME_{name.upper()}"
    assert getattr(read_settings({spelling: str(most)}).runtime, name) == most
    assert set(problems({spelling: str(most + 1)})) == {spelling}
    # The most that quoting adds: a value whose text is quoted once more, and names of 1,024 bytes, all quotes.
    largest = {"value": '"' * most} if name == "result_bytes" else {"names": ['"' * 1_024] * most}
    assert encode({"operation": "judge", "arguments": largest})


PROVIDER = {
    "WORKFLOW_API_OIDC_ISSUER": "https://login.example.org",
    "WORKFLOW_API_OIDC_CLIENT_ID": "console",
    "WORKFLOW_API_OIDC_CLIENT_SECRET": "oidc",
    "WORKFLOW_API_OIDC_ROLES": "a=b=administrator, staff=approver",
}


def test_an_identity_provider_is_read_with_the_order_of_its_roles(tmp_path: Path) -> None:
    secrets = tmp_path / "settings.toml"
    secrets.write_text('[secrets]\noidc = "env:OIDC"\n')
    settings = read_settings({**PROVIDER, "WORKFLOW_API_OIDC_EMAIL_DOMAINS": "Example.org"}, config=secrets)
    provider = backend_settings(settings, tmp_path).oidc
    assert provider is not None
    assert list(provider.roles.items()) == [("a=b", "administrator"), ("staff", "approver")]
    assert (provider.email_domains, provider.role_claim) == (("example.org",), "groups")
    assert backend_settings(Settings(), tmp_path).oidc is None


def test_a_value_with_commas_is_given_a_role_in_quotes(tmp_path: Path) -> None:
    secrets = tmp_path / "settings.toml"
    secrets.write_text('[secrets]\noidc = "env:OIDC"\n')
    roles = '"CN=admins,OU=teams"=administrator, "cn=all staff,dc=example=viewer",staff=approver'
    settings = read_settings({**PROVIDER, "WORKFLOW_API_OIDC_ROLES": roles}, config=secrets)
    assert settings.oidc.roles == {
        "CN=admins,OU=teams": "administrator",
        "cn=all staff,dc=example": "viewer",
        "staff": "approver",
    }


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("ISSUER", "http://login.example.org", "must be an https address"),
        ("ISSUER", "https://login.example.org/?x=1", "must be an https address"),
        ("CLIENT_ID", None, "must be given too"),
        ("CLIENT_SECRET", "another", "must be a name that [secrets] holds"),
        ("CLIENT_SECRET", "s3cret/value", "must be the name of a secret"),
        ("ROLES", "staff", "must be value=role"),
        ("ROLES", "staff=approver,staff=administrator", "must be value=role"),
        ("ROLES", "staff=owner", "'owner' is no role"),
        ("ROLES", "CN=admins,OU=teams=administrator", "'admins' is no role"),
        ("ROLES", '"CN=admins,OU=teams=administrator', "stands in quotes"),
        ("EMAIL_DOMAINS", "@example.org", "must be domains"),
        ("SCOPES", "profile", "openid among them"),
        ("LABEL", "x" * 61, "must be one line"),
        ("TIMEOUT_SECONDS", "13", "must be from 1 to 12"),
    ],
)
def test_a_wrong_setting_of_the_identity_provider_is_named(
    tmp_path: Path, name: str, value: str | None, expected: str
) -> None:
    secrets = tmp_path / "settings.toml"
    secrets.write_text('[secrets]\noidc = "env:OIDC"\n')
    given = {**PROVIDER, f"WORKFLOW_API_OIDC_{name}": value}
    environment = {variable: text for variable, text in given.items() if text is not None}
    with pytest.raises(CommandError) as failed:
        read_settings(environment, config=secrets)
    (problem,) = failed.value.details
    assert problem["name"].lower().endswith(name.lower())
    assert expected in problem["reason"]
    assert "s3cret" not in problem["reason"]
