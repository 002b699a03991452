from hashlib import sha256

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from edge.admission.keyring import Key, Keyring
from workflow_api.v1.edge_pb2 import KeyMirror, MirroredKey
from workflow_api.v1.keys_pb2 import AllowedHours
from workflow_api.v1.options_pb2 import SCOPE_RUNS_READ

NOW = 1_790_000_000_000
SECRET = "s" * 32
OLD_SECRET = "o" * 32
EXTERNAL = "ake_" + "e" * 32
BEARER = f"Bearer ak_abcdef.{SECRET}"


def stamp(at_ms: int) -> Timestamp:
    return Timestamp(seconds=at_ms // 1000, nanos=at_ms % 1000 * 1_000_000)


def digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def mirrored(**other: object) -> MirroredKey:
    fields: dict[str, object] = {
        "key_id": "ak_abcdef",
        "deployment_id": "dep",
        "secret_sha256": digest(SECRET),
        "external_id_sha256": digest(EXTERNAL),
        "scopes": [SCOPE_RUNS_READ],
        "expires_at": stamp(NOW + 1),
        "rate_limit_rpm": 60,
    }
    return MirroredKey(**{**fields, **other})  # type: ignore[arg-type]


def mirror(*keys: MirroredKey, **other: object) -> KeyMirror:
    fields: dict[str, object] = {
        "deployment_id": "dep",
        "governed": True,
        "api_enabled": True,
        "any_key_ever": True,
        "revision": 1,
    }
    return KeyMirror(**{**fields, **other}, keys=keys)  # type: ignore[arg-type]


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def keyring(*keys: MirroredKey, time: Time | None = None, **flags: object) -> Keyring:
    made = Keyring(120, time or Time())
    assert made.take(mirror(*keys, **flags), made.now())
    return made


def identify(ring: Keyring, bearer: str = BEARER, external: str = EXTERNAL, now_ms: int = NOW) -> Key | None:
    return ring.identify([bearer], [external], now_ms)


def test_both_credentials_identify_the_key() -> None:
    key = identify(keyring(mirrored()))
    assert key is not None
    assert (key.key_id, key.rate_limit, key.scopes) == ("ak_abcdef", 60, frozenset({SCOPE_RUNS_READ}))


def test_the_scheme_is_matched_case_insensitively() -> None:
    assert identify(keyring(mirrored()), f"bEARER ak_abcdef.{SECRET}")


@pytest.mark.parametrize(
    ("key_id", "secret", "external"),
    [
        ("ak_aB3def", "s" * 16, "e" * 8),
        ("ak_" + "Z9" * 32, "A-z_0" * 51 + "x", "Ext_id-9" * 32),
        ("ak_0123456789ab", "s" * 43, "ake_" + "0" * 32),
    ],
    ids=["shortest", "longest", "as issued"],
)
def test_credentials_at_the_bounds_of_their_forms_are_accepted(key_id: str, secret: str, external: str) -> None:
    ring = keyring(mirrored(key_id=key_id, secret_sha256=digest(secret), external_id_sha256=digest(external)))
    assert identify(ring, f"Bearer {key_id}.{secret}", external)


@pytest.mark.parametrize(
    "bearer",
    [
        "",
        "Bearer",
        "Bearer ",
        f"ak_abcdef.{SECRET}",
        f"Basic ak_abcdef.{SECRET}",
        f"Bearer ak_abcdef{SECRET}",
        f"Bearer ak_abcde.{SECRET}",
        f"Bearer ak_{'a' * 65}.{SECRET}",
        f"Bearer ak_unknown.{SECRET}",
        f"Bearer AK_abcdef.{SECRET}",
        "Bearer ak_abcdef." + "s" * 15,
        "Bearer ak_abcdef." + "s" * 257,
        f"Bearer ak_abcdef.{SECRET[:-1]}x",
        f"Bearer ak_abcdef.{SECRET}.x",
        f"Bearer ak_abcdef.{SECRET}\n",
        f"Bearer ak_abcdef.{SECRET} x",
        f"Bearer ak_abcdef.{SECRET[:-1]}é",
        f"Bearer ak_abcdef.{SECRET[:-1]}\udcc3",
        f"Bearer ak_abc\u0661ef.{SECRET}",
        f"Bearer ak_abcdef.{OLD_SECRET}",
    ],
    ids=repr,
)
def test_a_wrong_bearer_identifies_nobody(bearer: str) -> None:
    assert identify(keyring(mirrored()), bearer) is None


@pytest.mark.parametrize(
    "external", ["", "ake_eee", EXTERNAL + "f", EXTERNAL.upper(), "e" * 257, EXTERNAL[:-1] + "\udcff"], ids=repr
)
def test_a_wrong_external_id_identifies_nobody(external: str) -> None:
    assert identify(keyring(mirrored()), external=external) is None


def test_a_missing_or_repeated_credential_identifies_nobody() -> None:
    ring = keyring(mirrored())
    assert ring.identify([], [EXTERNAL], NOW) is None
    assert ring.identify([BEARER], [], NOW) is None
    assert ring.identify([BEARER, BEARER], [EXTERNAL], NOW) is None
    assert ring.identify([BEARER], [EXTERNAL, EXTERNAL], NOW) is None


def test_a_key_ends_at_its_expiry() -> None:
    assert identify(keyring(mirrored()), now_ms=NOW + 1) is None


def test_a_revoked_key_identifies_nobody() -> None:
    assert identify(keyring(mirrored(revoked=True))) is None


def test_a_key_of_another_deployment_identifies_nobody() -> None:
    assert identify(keyring(mirrored(deployment_id="other"))) is None


def test_old_and_new_secret_work_during_the_overlap_only() -> None:
    ring = keyring(
        mirrored(
            previous_secret_sha256=digest(OLD_SECRET),
            previous_secret_expires_at=stamp(NOW + 1),
            expires_at=stamp(NOW + 10),
        )
    )
    old = f"Bearer ak_abcdef.{OLD_SECRET}"
    assert identify(ring)
    assert identify(ring, old)
    assert identify(ring, now_ms=NOW + 1)
    assert identify(ring, old, now_ms=NOW + 1) is None


def test_a_new_copy_replaces_every_key() -> None:
    ring = keyring(mirrored())
    assert ring.take(mirror(revision=2), ring.now())
    assert identify(ring) is None


def test_a_key_that_changed_has_its_new_rules_and_the_others_keep_theirs() -> None:
    ring = keyring(mirrored(), mirrored(key_id="ak_fedcba"))
    assert ring.take(mirror(mirrored(rate_limit_rpm=7), mirrored(key_id="ak_fedcba"), revision=2), ring.now())
    changed, kept = identify(ring), identify(ring, f"Bearer ak_fedcba.{SECRET}")
    assert changed is not None
    assert kept is not None
    assert (changed.rate_limit, kept.rate_limit) == (7, 60)
    assert ring.take(mirror(mirrored(), revision=3, deployment_id="other"), ring.now())
    assert identify(ring) is None


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({}, None),
        ({"governed": False}, "not_governed"),
        ({"governed": False, "api_enabled": False}, "not_governed"),
        ({"api_enabled": False}, "not_enabled"),
        ({"any_key_ever": False}, "not_enabled"),
    ],
)
def test_the_deployments_flags_close_the_api(flags: dict[str, bool], reason: str | None) -> None:
    assert keyring(mirrored(), time=None, **flags).closed_reason() == reason


def test_before_the_first_copy_the_keys_are_unreachable() -> None:
    assert Keyring(120).closed_reason() == "keys_table_unreachable"


def test_a_copy_older_than_the_limit_admits_nobody_until_a_sign_of_life() -> None:
    time = Time()
    ring = keyring(mirrored(), time=time)
    time.now += 120
    assert ring.closed_reason() is None
    time.now += 0.1
    assert ring.closed_reason() == "keys_table_unreachable"
    assert ring.take(KeyMirror(revision=1, unchanged=True), time.now)
    assert ring.closed_reason() is None
    assert identify(ring)


def test_a_sign_of_life_of_another_copy_is_not_taken() -> None:
    time = Time()
    ring = keyring(mirrored(), time=time)
    time.now += 121
    assert not ring.take(KeyMirror(revision=2, unchanged=True), time.now)
    assert ring.closed_reason() == "keys_table_unreachable"


def test_an_allow_list_that_cannot_be_read_allows_nobody() -> None:
    key = identify(keyring(mirrored(source_allow_list=["nowhere"])))
    assert key is not None
    assert not key.allows_address("203.0.113.9")


def test_without_an_allow_list_any_address_is_allowed() -> None:
    key = identify(keyring(mirrored()))
    assert key is not None
    assert key.allows_address("")


@pytest.mark.parametrize(
    ("start", "end", "inside"),
    [(8, 18, {*range(8, 18)}), (22, 6, {22, 23, *range(6)}), (0, 23, {*range(23)}), (23, 0, {23})],
)
def test_allowed_hours_begin_inclusive_end_exclusive_and_wrap(start: int, end: int, inside: set[int]) -> None:
    key = identify(keyring(mirrored(allowed_hours=AllowedHours(start_hour=start, end_hour=end))))
    assert key is not None
    midnight = NOW // 86_400_000 * 86_400_000
    for hour in range(24):
        for at in (midnight + hour * 3_600_000, midnight + hour * 3_600_000 + 3_599_999):
            assert key.outside_hours(at) == (None if hour in inside else (start, end))


@pytest.mark.parametrize(
    ("key", "authorization", "found"),
    [
        ({"revoked": True}, [BEARER], ("ak_abcdef", "revoked")),
        ({"expires_at": stamp(NOW)}, [BEARER], ("ak_abcdef", "expired")),
        ({}, [f"Bearer ak_abcdef.{OLD_SECRET}"], ("ak_abcdef", "wrong_credentials")),
        ({}, [f"Bearer ak_unknown.{SECRET}"], ("", "")),
        ({}, ["Bearer ak_abcdef"], ("", "")),
        ({}, [BEARER, BEARER], ("", "")),
        ({}, [], ("", "")),
    ],
    ids=["revoked", "expired", "another secret", "unknown", "malformed", "twice", "none"],
)
def test_refused_credentials_name_a_known_key_for_the_log(
    key: dict[str, object], authorization: list[str], found: tuple[str, str]
) -> None:
    assert keyring(mirrored(**key)).refused(authorization, NOW) == found
