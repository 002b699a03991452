"""Private numbers of keys that are written as objects or elements are found in every form; public ones stay."""

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from redaction.formats.outcome import BATCH
from redaction.redactor import Redactor
from redaction.search.key_members import find_members
from tests.support.work import calls_of
from tests.unit.redaction.conftest import SweepFile

_SHORT = "GawgguFyGrWKav7AX4VKUg"
_LONG = "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"
_KEYS: dict[str, dict[str, Any]] = {
    "ec": {"crv": "P-256", "d": _LONG, "kty": "EC", "x": "gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0"},
    "oct": {"kty": "oct", "k": _SHORT, "kid": "one"},
    "primes": {"kty": "RSA", "n": "AQAB", "oth": [{"r": _LONG, "d": _LONG[1:], "t": _SHORT}, {"r": _LONG[2:]}]},
}
_PRIVATE = {"d", "p", "q", "dp", "dq", "qi", "k", "r", "t"}


@cache
def _key(kind: str) -> dict[str, Any]:
    """Returns the key of a kind; the one of RSA takes up to seconds to make, so only where a test uses it."""
    if kind != "rsa":
        return _KEYS[kind]
    made = RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 4096), as_dict=True)
    return {name: made[name] for name in sorted(made)}


def _secrets(key: object) -> list[str]:
    if isinstance(key, list):
        return [secret for one in key for secret in _secrets(one)]
    if not isinstance(key, dict):
        return []
    inner = [secret for one in key.values() for secret in _secrets(one)]
    return inner + [text for name, text in key.items() if name in _PRIVATE and isinstance(text, str)]


_TEXTS: dict[str, Callable[[object], str]] = {
    "line": lambda key: f"loaded {json.dumps(key)} from the store",
    "lines": lambda key: f"loaded\n{json.dumps(key, indent=2)}\nfrom the store",
    "python": lambda key: f"key={key!r}",
    "escaped": lambda key: f"body={json.dumps(json.dumps(key))}",
    "escaped-lines": lambda key: f"body={json.dumps(json.dumps(key, indent=1))}",
    "cut": lambda key: json.dumps(key).rstrip("}"),
}


@pytest.mark.parametrize("form", _TEXTS)
@pytest.mark.parametrize("key", ["rsa", *_KEYS])
def test_private_members_of_a_json_web_key_are_secrets_in_any_text(engine: Redactor, key: str, form: str) -> None:
    swept = engine.text(_TEXTS[form](_key(key)))
    assert not [secret for secret in _secrets(_key(key)) if secret in swept]
    assert "kty" in swept
    assert form != "line" or swept.endswith(" from the store")


@pytest.mark.parametrize("key", ["rsa", *_KEYS])
def test_private_members_of_a_json_web_key_are_secrets_in_files(
    engine: Redactor, sweep_file: SweepFile, key: str
) -> None:
    value = {
        "keys": [_key(key)],
        "d": "plain",
        "text": f"see {json.dumps(_key(key))}",
        "json": json.dumps(_key(key)),
    }
    files: dict[str, tuple[str, Callable[[str], object]]] = {
        "keys.json": (json.dumps(value), json.loads),
        "keys.jsonl": (json.dumps(value) + "\n", json.loads),
        "keys.yaml": (yaml.safe_dump(value), yaml.safe_load),
        "flow.yaml": (yaml.safe_dump(value, default_flow_style=True), yaml.safe_load),
    }
    for name, (content, read) in files.items():
        _, swept = sweep_file(engine, name, content.encode())
        assert swept is not None
        parsed = read(swept.decode())
        assert isinstance(parsed, dict)
        assert parsed["d"] == "plain"
        assert _secrets(parsed["keys"]) == ["[SECRET]"] * len(_secrets(_key(key))), name
        assert not [secret for secret in _secrets(_key(key)) if secret in swept.decode()], name
        public = {name: text for name, text in _key(key).items() if name in {"kty", "crv", "kid"}}
        assert public.items() <= parsed["keys"][0].items()
    assert _secrets(engine.value(value)["keys"]) == ["[SECRET]"] * len(_secrets(_key(key)))


def test_keys_of_a_set_longer_than_what_is_swept_together_are_all_found(
    engine: Redactor, sweep_file: SweepFile
) -> None:
    content = json.dumps({"keys": [_key("rsa"), _KEYS["ec"]] * 200})
    _, swept = sweep_file(engine, "keys.json", content.encode())
    assert swept is not None
    assert set(_secrets(json.loads(swept))) == {"[SECRET]"}


@pytest.mark.parametrize("name", ["keys.json", "keys.jsonl", "keys.log", "keys.js"])
@pytest.mark.parametrize("before", [700, 1400, 2100, 2800])
def test_a_key_between_two_parts_of_a_long_file_is_found(
    engine: Redactor, sweep_file: SweepFile, name: str, before: int
) -> None:
    # The first part of a file ends at some place within the key.
    long = [{"note": "word " * 10}] * 9000
    text = json.dumps(long)[: BATCH - before].rpartition("}")[0] + "}, "
    content = text + json.dumps({"inner": _key("rsa")}, indent=1) + ', {"note": "last word"}' * 500 + "]\n"
    _, swept = sweep_file(engine, name, content.encode())
    assert swept is not None
    assert not [secret for secret in _secrets(_key("rsa")) if secret in swept.decode()]
    assert len(re.findall(r"\[SECRET\]", swept.decode())) == len(_secrets(_key("rsa")))


def test_members_of_other_objects_stay(engine: Redactor) -> None:
    text = '{"d": "M10Zabc1", "k": "GawgguFyGrWKav7AX4VKUg", "q": "shoes"} {"kty": "RSA", "n": "AQAB", "e": "AQAB"}'
    assert engine.text(text) == text
    assert engine.value({"d": "M10Zabc1", "p": {"kty": "RSA"}}) == {"d": "M10Zabc1", "p": {"kty": "RSA"}}


_XML = (
    "<doc><P>A paragraph</P><RSAKeyValue><Modulus>{n}</Modulus><Exponent>AQAB</Exponent><P>{p}</P><Q>{q}</Q>"
    "<DP>{dp}</DP>\n<DQ>{dq}</DQ><InverseQ>{qi}</InverseQ><D>{d}</D></RSAKeyValue></doc>"
)


@pytest.mark.parametrize("prefix", ["", "ds:"])
def test_private_elements_of_a_key_in_xml_are_secrets(engine: Redactor, sweep_file: SweepFile, prefix: str) -> None:
    numbers = {
        name: text.replace("-", "+").replace("_", "/") + "==" for name, text in _key("rsa").items() if name != "key_ops"
    }
    text = _XML.format(**numbers)
    if prefix:
        text = text.replace("<", "<ds:").replace("<ds:/", "</ds:").replace("<ds:doc", "<ds:doc xmlns:ds='urn:ds'")
    secrets = [numbers[name] for name in ("p", "q", "dp", "dq", "qi", "d")]
    _, swept = sweep_file(engine, "key.xml", text.encode())
    assert swept is not None
    assert "A paragraph" in "".join(ET.fromstring(swept).itertext())  # noqa: S314 - made above
    for found in (swept.decode(), engine.text(text), engine.text(text.replace("<", "&lt;"))):
        assert not [secret for secret in secrets if secret in found]
        assert "A paragraph" in found


@pytest.mark.parametrize(
    ("name", "text", "secret"),
    [
        (
            "wg0.conf",
            "[Interface]\nPrivateKey = {}\nListenPort = 51820\n",
            "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=",
        ),
        ("wg.txt", "  PrivateKey = {}\n", "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="),
        ("wg.txt", "PresharedKey={}\n", "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="),
        ("minisign.key", "untrusted comment: minisign encrypted secret key\n{}\n", "RWRTY0Iy" + "aB3dEfGh" * 25),
        ("age.txt", "# created: today\n{}\n", "AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" * 2),
    ],
)
def test_keys_of_one_line_are_secrets(
    engine: Redactor, sweep_file: SweepFile, name: str, text: str, secret: str
) -> None:
    _, swept = sweep_file(engine, name, text.format(secret).encode())
    assert swept is not None
    assert secret[8:-2] not in swept.decode()
    assert "[SECRET]" in swept.decode()


@pytest.mark.parametrize(
    "unit", ['{"kty":', '"d":"aB1d",', 'kty: "', "\\\\\\\\'kty", "<RSAKeyValue><D>", "kty d   :   ", "}kty:d:{"]
)
def test_texts_of_many_members_cost_linear_time(unit: str) -> None:
    find_members(unit)
    half = calls_of(lambda: find_members(unit * 1_000))
    assert calls_of(lambda: find_members(unit * 2_000)) < 2.3 * half + 100
