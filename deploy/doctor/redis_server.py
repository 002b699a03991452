"""Check of Redis, in which edges share their counts for rate limits."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

from backend.common.secrets import SecretError, Secrets
from deploy.config.secret_references import redis_address
from deploy.doctor.examination import ExaminedPart, Finding, ServingPart, clock, failed, not_applicable, ok, warning

_SECONDS: Final = 3.0
_OLDEST: Final = 7
_FULL: Final = 0.9
_NAME: Final = "redis"
_UNTIL: Final = "Until it can be used, each edge counts by itself: look at"
_ADDRESS: Final = "the address, user and password that edge.redis_url names"


def check_redis(examined: ExaminedPart) -> Iterator[Finding]:
    """Checks the server that `edge.redis_url` names, by reading."""
    setting = examined.settings.edge.redis_url
    if examined.part not in {ServingPart.SERVE, ServingPart.EDGE}:
        yield not_applicable(_NAME, "Only edges count requests in it.")
        return
    if setting is None:
        yield not_applicable(_NAME, "edge.redis_url names none: each edge counts requests by itself.")
        return
    from redis import Redis
    from redis.exceptions import AuthenticationError, RedisError

    try:
        url = redis_address(setting, Secrets(examined.settings.secrets, examined.environment))
    except SecretError as error:
        remedy = "Correct what edge.redis_url refers to, or run this with the variables of the service."
        yield failed(_NAME, f"The address cannot be read: {error}.", remedy)
        return
    try:
        with closing(Redis.from_url(url, socket_timeout=_SECONDS, socket_connect_timeout=_SECONDS)) as server:
            yield from _findings(server)
    except AuthenticationError:
        yield failed(_NAME, "Redis refuses the user or password, or the lack of one.", f"{_UNTIL} {_ADDRESS}.")
    except RedisError as error:
        yield failed(
            _NAME,
            f"Redis cannot be used: {str(error).rstrip('.')}.",
            f"{_UNTIL} {_ADDRESS}, and the log of Redis.",
        )


def _findings(server: Any) -> Iterator[Finding]:
    from redis.exceptions import NoPermissionError

    second, microseconds = server.time()
    server.eval("return 1", 0)
    try:
        about: dict[str, Any] = server.info()
    except NoPermissionError:
        about = {}
    version = str(about.get("redis_version", ""))
    if about.get("role") not in {None, "master"}:
        yield failed(_NAME, "This Redis is a replica, which takes no writes.", "Name the primary in edge.redis_url.")
    elif version and int(version.partition(".")[0]) < _OLDEST:
        yield warning(_NAME, f"Redis {version} is older than {_OLDEST}.", "Upgrade it.")
    else:
        yield ok(_NAME, f"Redis {version} answers and runs scripts.".replace("  ", " "))
    most, used = int(about.get("maxmemory", 0)), int(about.get("used_memory", 0))
    if most and about.get("maxmemory_policy") == "noeviction" and used > _FULL * most:
        yield warning(
            "redis memory",
            f"Redis uses {used / 1e6:,.0f} of {most / 1e6:,.0f} MB, and refuses writes when they are used up.",
            "Raise maxmemory, or set maxmemory-policy volatile-ttl: losing counts is harmless.",
        )
    yield clock("Redis", second + microseconds / 1e6)
