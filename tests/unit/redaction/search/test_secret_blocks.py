"""Private keys are found whole in every form, and what holds them stays legal."""

import base64
import json
import tomllib
from collections.abc import Callable
from configparser import ConfigParser
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from redaction.redactor import Redactor
from redaction.search.secret_blocks import find_blocks
from tests.support.work import calls_of
from tests.unit.redaction.conftest import SweepFile

_MADE_UP = "BggqhkjOPQMBB1aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789+/BggqhkjOPQMB"
_FORMS: dict[str, Callable[[str], str]] = {
    "lf": lambda key: key,
    "crlf": lambda key: key.replace("\n", "\r\n"),
    "cr": lambda key: key.replace("\n", "\r"),
    "blanks": lambda key: key.replace("\n", " "),
    "indented": lambda key: "".join(f"      {line}\n" for line in key.splitlines()),
    "quoted": lambda key: "".join(f"> {line}\n" for line in key.splitlines()),
    "commented": lambda key: "".join(f"// {line}\n" for line in key.splitlines()),
    "logged": lambda key: "".join(f"2026-01-02 10:00:00 INFO {line}\n" for line in key.splitlines()),
    "escaped": lambda key: key.replace("\n", "\\n"),
    "escaped-twice": lambda key: key.replace("\n", "\\\\r\\\\n"),
    "form": lambda key: key.replace(" ", "+").replace("\n", "%0A"),
}
_PRIVATE: dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey] = {
    "rsa": rsa.generate_private_key(65537, 2048),
    "ec": ec.generate_private_key(ec.SECP256R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
}


def _pem(kind: str, form: PrivateFormat, *, encrypted: bool = False) -> str:
    encryption = BestAvailableEncryption(b"secret") if encrypted else NoEncryption()
    return _PRIVATE[kind].private_bytes(Encoding.PEM, form, encryption).decode()


_TEXTS = {
    "pkcs1": _pem("rsa", PrivateFormat.TraditionalOpenSSL),
    "pkcs8": _pem("ec", PrivateFormat.PKCS8),
    "encrypted": _pem("rsa", PrivateFormat.PKCS8, encrypted=True),
    "proc-type": _pem("rsa", PrivateFormat.TraditionalOpenSSL, encrypted=True),
    "openssh": _pem("ed25519", PrivateFormat.OpenSSH),
}
_TEXTS |= {
    "ssh2": _TEXTS["pkcs8"]
    .replace("-----BEGIN ", "---- BEGIN SSH2 ")
    .replace("-----END ", "---- END SSH2 ")
    .replace("KEY-----", "KEY ----"),
    "pgp": _TEXTS["pkcs8"].replace("PRIVATE KEY", "PGP PRIVATE KEY BLOCK"),
}


def _ini(text: str) -> Any:
    parser = ConfigParser()
    parser.read_string(text)
    return parser["a"]


def _lines(key: str) -> list[str]:
    return [line for line in key.splitlines()[1:-1] if ":" not in line and line]


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("key", _TEXTS)
def test_everything_between_the_beginning_of_a_key_and_its_end_goes(engine: Redactor, key: str, form: str) -> None:
    swept = engine.text("before\n" + _FORMS[form](_TEXTS[key]) + "\nafter")
    assert swept.startswith("before\n")
    assert swept.endswith("after")
    assert not [line for line in _lines(_TEXTS[key]) if line in swept]
    assert "PRIVATE" not in swept


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("key", ["pkcs1", "openssh"])
@pytest.mark.parametrize("part", [slice(0, 290), slice(150, None)], ids=["at-its-end", "at-its-beginning"])
def test_a_key_that_is_cut_goes_too(engine: Redactor, key: str, form: str, part: slice) -> None:
    swept = engine.text(_FORMS[form](_TEXTS[key])[part])
    assert not [line for line in _lines(_TEXTS[key])[1:-1] if line[:32] in swept and form != "logged"]


@pytest.mark.parametrize("breaks", ["", "\n", "\n      ", "\\n"], ids=["none", "lines", "indented", "escaped"])
@pytest.mark.parametrize("before", ["EC PARAMETERS", "CERTIFICATE"])
def test_an_encoded_key_goes_behind_other_blocks_too(engine: Redactor, before: str, breaks: str) -> None:
    block = f"-----BEGIN {before}-----\n" + f"{_MADE_UP}\n" * (1 if before == "EC PARAMETERS" else 40)
    block += f"-----END {before}-----\n"
    encoded = base64.b64encode((block + _TEXTS["pkcs8"]).encode()).decode()
    lines = [encoded[place : place + 76] for place in range(0, len(encoded), 76)]
    swept = engine.text(f"before {breaks.join(lines)} and then after")
    assert swept.startswith("before ")
    assert swept.endswith(" after")
    assert not [line for line in lines if line in swept]
    public = base64.b64encode(block.encode()).decode()
    assert find_blocks(f"before {public} and then after") == []


@pytest.mark.parametrize(
    "text",
    [
        "Look for -----BEGIN PRIVATE KEY----- in the file.\nThen go on with the next chapter.",
        "PuTTY writes a line with its version.\n\nPrivate notes stay.",
    ],
)
def test_the_name_of_a_key_without_its_data_stays(engine: Redactor, text: str) -> None:
    assert engine.text(text) == text


@pytest.mark.parametrize("key", ["pkcs1", "openssh"])
def test_files_of_a_grammar_with_a_key_stay_legal(engine: Redactor, sweep_file: SweepFile, key: str) -> None:
    text = _TEXTS[key]
    files = {
        "key.yaml": f"key: |\n  {text.rstrip().replace(chr(10), chr(10) + '  ')}\nport: 1\n",
        "key.toml": f'key = """\n{text}"""\nport = 1\n',
        "key.json": json.dumps({"key": text, "port": 1}),
        "key.ipynb": json.dumps({"key": [*text.splitlines(keepends=True)], "port": 1}),
        "key.ini": f"[a]\nkey = {text.rstrip().replace(chr(10), chr(92) + 'n')}\nport = 1\n",
    }
    read: dict[str, Callable[[str], Any]] = {
        "key.yaml": yaml.safe_load,
        "key.toml": tomllib.loads,
        "key.json": json.loads,
        "key.ipynb": json.loads,
        "key.ini": _ini,
    }
    for name, content in files.items():
        _, swept = sweep_file(engine, name, content.encode())
        assert swept is not None
        assert int(read[name](swept.decode())["port"]) == 1, name
        assert not [line for line in _lines(text) if line in swept.decode()], name


def _swept_line_by_line(engine: Redactor, text: str) -> str:
    above = swept = ""
    for line in text.splitlines(keepends=True):
        part, above = engine.lines(above, line)
        swept += part
    return swept


@pytest.mark.parametrize("width", [16, 63, 76])
@pytest.mark.parametrize("prefix", ["", "> ", "2026-01-02 10:00:{:02} INFO "])
@pytest.mark.parametrize("other", ["", "{}GET /health 200\n"], ids=["alone", "among-other-lines"])
def test_a_key_that_is_printed_line_by_line_is_hidden_in_each_part(
    engine: Redactor, width: int, prefix: str, other: str
) -> None:
    begin, *lines, end = _TEXTS["pkcs1"].splitlines()
    data = "".join(lines)
    lines = [data[place : place + width] for place in range(0, len(data), width)]
    printed = [prefix.format(number % 60) + line for number, line in enumerate([begin, *lines, end])]
    text = f"\n{other.format(prefix.format(7))}".join(printed) + "\n"
    swept = _swept_line_by_line(engine, "Starting\n" + text + prefix.format(8) + "Done aB3dEfGh12345678\n")
    assert swept.startswith("Starting\n")
    assert swept.endswith("Done aB3dEfGh12345678\n")
    assert not [line for line in lines if len(line) >= 16 and line in swept]
    assert swept.count("GET /health 200") == (len(printed) - 1 if other else 0)


def test_lines_below_the_name_of_a_key_without_its_data_stay(engine: Redactor) -> None:
    text = "Look for -----BEGIN PRIVATE KEY----- in the file.\nThen:\naB3dEfGh12345678\n"
    assert _swept_line_by_line(engine, text) == text


@pytest.mark.parametrize(
    "unit",
    [
        "-----BEGIN PRIVATE KEY-----\n\n",
        "-----BEGIN PRIVATE KEY-----\na b\n",
        "-----BEGIN PRIVATE KEY-----\n",
        "-----END PRIVATE KEY-----\n",
        "LS0tLS ",
        "LS0tLSaB1defghijklmnopq\n",
        "aB1defghijklmnopq\n-----END",
    ],
)
def test_texts_of_many_marks_cost_linear_time(unit: str) -> None:
    find_blocks(unit)
    half = calls_of(lambda: find_blocks(unit * 1_000))
    whole = calls_of(lambda: find_blocks(unit * 2_000))
    assert whole < 2.3 * half + 100
