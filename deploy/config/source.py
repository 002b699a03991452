"""Reads the settings from a TOML file, the environment and the command line, and checks them against each other.

Each source overrides the sources named before it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from deploy.config.addresses import Addresses, BackendAddress, UnixSocket
from deploy.config.secret_references import redis_secret_name
from deploy.config.settings import CHECK, INTERNAL, TABLE, ServerTls, Settings, SettingsSource
from deploy.failures import CommandError

_MOST_TARGETS: Final = 20
NEEDS_TLS: Final = "must be on this machine (127.0.0.1:9090, unix:/path) where no certificate is given"


def contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yields the name of each setting that contradicts others, and the requirement."""
    for provider, model in settings.models.items():
        if model.api_key is not None and model.api_key not in settings.secrets:
            # The value is not quoted: it may be the key itself.
            yield f"models.{provider}", "must have as api_key a name that [secrets] holds"
    for name, target in settings.notifications.items():
        if target.url not in settings.secrets:
            yield f"notifications.{name}", "must have as url a name that [secrets] holds"
    if len(settings.notifications) > _MOST_TARGETS:
        yield "notifications", f"must have at most {_MOST_TARGETS} targets"
    yield from _worker_contradictions(settings)
    yield from _edge_contradictions(settings)
    yield from _oidc_contradictions(settings)
    backend = settings.backend
    yield from _grpc_contradictions("backend.grpc", backend.grpc, "backend.tls", backend.tls)
    for part, caller in (("edge", settings.edge), ("console", settings.console)):
        tls = caller.backend_tls
        yield from _grpc_contradictions(f"{part}.backend", caller.backend, f"{part}.backend_tls", tls)
        if isinstance(caller.backend, Addresses) and tls.given and tls.server_name is None:
            yield f"{part}.backend_tls.server_name", "must be given: several backends share one certificate name"
    yield from _tls_contradictions("admin.backend_tls", settings.admin.backend_tls)
    if backend.tls.given and not settings.identities:
        yield "identities", "must say who may call what, where backend.tls gives a certificate"
    if settings.identities and not backend.tls.given:
        yield "identities", "must not be given without backend.tls: plain gRPC does not identify callers"


def _worker_contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.runtime.engine != "dbos":
        return
    if settings.backend.database is None:
        yield "runtime.engine", "dbos needs PostgreSQL: set backend.database, or leave the engine local"
    if settings.objects.store == "folder" and settings.objects.folder is None:
        yield "objects.store", "workers need the same objects: use s3, or set objects.folder to a folder they share"


def _edge_contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    secret = redis_secret_name(settings.edge.redis_url or "")
    if secret is not None and secret not in settings.secrets:
        yield "edge.redis_url", f"must name a secret that [secrets] holds; '{secret}' is none"


def _oidc_contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    oidc = settings.oidc
    needed = ("issuer", "client_id", "client_secret", "roles")
    missing = [name for name in needed if getattr(oidc, name) is None]
    if len(missing) == len(needed):
        return
    for name in missing:
        yield f"oidc.{name}", "must be given too: sign-in with a provider needs issuer, client_id, client_secret, roles"
    if oidc.client_secret is not None and oidc.client_secret not in settings.secrets:
        # The value is not quoted: it may be the secret itself.
        yield "oidc.client_secret", "must be a name that [secrets] holds"
    if oidc.roles is not None:
        # Imported only for this setting.
        from contract.roles import ROLE_NAMES

        known = tuple(ROLE_NAMES.values())
        for role in set(oidc.roles.values()) - set(known):
            yield "oidc.roles", f"must map to {' or '.join(known)}; '{role}' is no role"


def _grpc_contradictions(
    name: str, address: BackendAddress, tls_name: str, tls: ServerTls
) -> Iterator[tuple[str, str]]:
    yield from _tls_contradictions(tls_name, tls)
    if not tls.given and not address.is_local:
        yield name, f"{NEEDS_TLS} in {tls_name}"
    if tls.given and isinstance(address, UnixSocket):
        yield name, f"must be HOST:PORT where {tls_name} gives a certificate: a socket is kept by its folder"


def _tls_contradictions(name: str, tls: ServerTls) -> Iterator[tuple[str, str]]:
    files = {"certificate": tls.certificate, "key": tls.key, "ca": tls.ca}
    missing = [f"{name}.{file}" for file, path in files.items() if path is None]
    if missing and tls.given:
        yield missing[0], "must be given too: a certificate goes with its key and with the authorities of the others"


PREFIX: Final = "WORKFLOW_API_"
CONFIG_VARIABLE: Final = "WORKFLOW_API_CONFIG"

# Variables with the prefix that are no settings: of the settings file, administrators' backend, Python client and
# tests.
_CLIENT: Final = frozenset({"WORKFLOW_API_URL", "WORKFLOW_API_KEY", "WORKFLOW_API_EXTERNAL_ID"})
_RESERVED: Final = frozenset({CONFIG_VARIABLE, "WORKFLOW_API_GRPC", *_CLIENT})
_RESERVED_PREFIX: Final = "WORKFLOW_API_TEST_"
_BOOLEANS: Final = {"true": True, "false": False}

TABLES: Final[Mapping[str, Callable[[str, object], object]]] = {
    field.name: field.metadata[TABLE] for field in fields(Settings) if TABLE in field.metadata
}
"""Tables with free names, each with the check of one entry; only a file can hold them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, with the name that a file uses."""

    name: str
    kind: type
    default: object
    check: Any

    @property
    def variable(self) -> str:
        """The setting's environment variable."""
        return PREFIX + self.name.upper().replace(".", "_")

    def read(self, value: object) -> object:
        """Returns the value to keep; raises ValueError with what is allowed."""
        if self.kind is Path:
            value = _path(value)
        elif self.kind is bool:
            value = _boolean(value)
        elif self.kind is float:
            value = _number(value, float)
        elif self.kind is int:
            value = _number(value, int)
        else:
            value = _string(value)
        return self.check(value) if self.check else value


def known_settings(section: Any = Settings, prefix: str = "") -> Iterator[Setting]:
    """Yields every setting except tables with free names; names include the sections, as in `edge.http`."""
    hints = get_type_hints(section)
    for field in fields(section):
        if TABLE in field.metadata or INTERNAL in field.metadata:
            continue
        kind = _kind(hints[field.name])
        if is_dataclass(kind) and CHECK not in field.metadata:
            yield from known_settings(kind, f"{prefix}{field.name}.")
        else:
            yield Setting(prefix + field.name, kind, field.default, field.metadata.get(CHECK))


def _kind(hint: Any) -> Any:
    if get_origin(hint) is Literal:
        return str
    return next((part for part in get_args(hint) if part is not NoneType), hint)


def read_settings(
    environment: Mapping[str, str], *, config: Path | None = None, given: Mapping[str, object] | None = None
) -> Settings:
    """Reads all settings.

    Args:
        environment: The process's variables.
        config: The TOML file; None takes the one that `WORKFLOW_API_CONFIG` names, if any.
        given: Values of the command line by setting name; a value of None is not given.

    Raises:
        CommandError: the details list every unknown name and every value that is not allowed by itself or with others.
    """
    known = {setting.name: setting for setting in known_settings()}
    problems: list[dict[str, str]] = []
    values: dict[str, object] = {}
    config = config or (Path(environment[CONFIG_VARIABLE]) if environment.get(CONFIG_VARIABLE) else None)
    document = _toml(config) if config else {}
    for table, check in TABLES.items():
        if table in document:
            values[table] = _entries(table, document.pop(table), check, problems)
    sources = (
        [(name, name, value) for name, value in _flat(document)],
        _variables(environment, known, problems),
        [(name, f"--{name.rpartition('.')[2]}", value) for name, value in (given or {}).items() if value is not None],
    )
    for source in sources:
        for name, written_as, value in source:
            setting = known.get(name)
            if setting is None:
                problems.append({"name": written_as, "reason": f"is no setting{_nearest(name, known)}"})
                continue
            try:
                values[name] = setting.read(value)
            except ValueError as error:
                problems.append({"name": written_as, "reason": str(error)})
    settings: Settings = _tree(Settings, values | {"source": SettingsSource(config, given or {})})
    if not problems:
        problems += [{"name": name, "reason": reason} for name, reason in contradictions(settings)]
    if problems:
        raise CommandError("A setting is not valid.", code="invalid_settings", details=problems)
    return settings


def _entries(
    table: str, given: object, check: Callable[[str, object], object], problems: list[dict[str, str]]
) -> dict[str, object]:
    if not isinstance(given, Mapping):
        problems.append({"name": table, "reason": f"must be a table: [{table}]"})
        return {}
    entries: dict[str, object] = {}
    for name, value in given.items():
        try:
            entries[name] = check(name, value)
        except ValueError as error:
            problems.append({"name": f"{table}.{name}", "reason": str(error)})
    return entries


def _variables(
    environment: Mapping[str, str], known: Mapping[str, Setting], problems: list[dict[str, str]]
) -> list[tuple[str, str, object]]:
    by_variable = {setting.variable: name for name, setting in known.items()}
    found: list[tuple[str, str, object]] = []
    for variable, value in sorted(environment.items()):
        if not variable.startswith(PREFIX) or variable in _RESERVED or variable.startswith(_RESERVED_PREFIX):
            continue
        if variable in by_variable:
            found.append((by_variable[variable], variable, value))
        else:
            problems.append({"name": variable, "reason": f"is no setting{_nearest(variable, by_variable)}"})
    return found


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else "; docs/settings.md lists them"


def _toml(path: Path) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"The settings file {path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise CommandError(f"The settings file {path} is not TOML: {error}.") from None


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _tree(section: type, values: Mapping[str, object], prefix: str = "") -> Any:
    hints = get_type_hints(section)
    given: dict[str, object] = {}
    for field in fields(section):
        name = prefix + field.name
        if name in values:
            given[field.name] = values[name]
        elif is_dataclass(hints[field.name]) and CHECK not in field.metadata:
            given[field.name] = _tree(hints[field.name], values, f"{name}.")
    return section(**given)


def _string(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text that is not empty")
    return value


def _path(value: object) -> Path:
    text = _string(value)
    if "\0" in text:
        raise ValueError("must be a path, which has no NUL character")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError("must be a path; '~' alone or with the name of a user who has a home folder") from None


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    # Environment variables are always strings.
    if not isinstance(value, str) or value not in _BOOLEANS:
        raise ValueError("must be true or false")
    return _BOOLEANS[value]


def _number(value: object, kind: type[int] | type[float]) -> float:
    # Environment variables are strings; a TOML file has types.
    if isinstance(value, bool) or not isinstance(value, (str, int, kind)):
        value = ""
    try:
        return kind(value)
    except (ValueError, OverflowError):
        raise ValueError("must be a whole number" if kind is int else "must be a number") from None
