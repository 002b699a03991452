"""Checksums of identifiers; each function takes the text as found, with its separators."""

import functools
import hashlib
import re
import socket
import string
from collections.abc import Sequence
from typing import Final

_NOT_DIGITS: Final = re.compile(r"[^0-9]")
_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BECH32_VALUES: Final = bytes.maketrans(b"qpzry9x8gf2tvdw0s3jn54khce6mua7l", bytes(range(32)))
_BECH32_GENERATORS: Final = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
# Contribution of the five highest bits of a checksum to the next one.
_BECH32_STEPS: Final = tuple(
    functools.reduce(int.__xor__, (one for bit, one in enumerate(_BECH32_GENERATORS) if top >> bit & 1), 0)
    for top in range(32)
)
_IBAN_LENGTHS: Final = {
    entry[:2]: int(entry[2:])
    for entry in (  # noqa: SIM905 - a table is read more easily as words
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 "
        "ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 "
        "LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 "
        "PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 "
        "YE30"
    ).split()
}
_VERHOEFF_PRODUCT: Final = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip
_LUHN_DOUBLED: Final = bytes.maketrans(b"0123456789", b"0246813579")
_IBAN_LETTERS: Final = {ord(letter): str(int(letter, 36)) for letter in string.ascii_uppercase}
_VERHOEFF_ORDER: Final = ("0123456789", "1576283094", "5803796142", "8916043527",
                          "9453126870", "4286573901", "2793806415", "7046913258")  # fmt: skip


def _verhoeff_pairs(place: int) -> dict[bytes, tuple[int, ...]]:
    """Returns the next row of each row for two digits, the first at `place` from the end."""
    one, two = _VERHOEFF_ORDER[place : place + 2]
    return {
        f"{first}{second}".encode(): tuple(
            int(_VERHOEFF_PRODUCT[int(_VERHOEFF_PRODUCT[row][int(one[first])])][int(two[second])]) for row in range(10)
        )
        for first in range(10)
        for second in range(10)
    }


_VERHOEFF_ROWS: Final = tuple(tuple(int(_VERHOEFF_PRODUCT[row][by]) for row in range(10)) for by in range(10))
_VERHOEFF_PAIRS: Final = {place: _verhoeff_pairs(place) for place in (0, 2, 4, 6)}


def digits(text: str) -> str:
    """Returns only the digits of a text."""
    return _NOT_DIGITS.sub("", text)


def luhn(text: str) -> bool:
    """Checks the check digit of cards and many national numbers."""
    return _luhn(digits(text).encode())


def _luhn(number: bytes) -> bool:
    return (sum(number[-1::-2]) + sum(number[-2::-2].translate(_LUHN_DOUBLED)) - 48 * len(number)) % 10 == 0


def card_length(text: str) -> int:
    """Returns the length of the payment card number at the beginning, by prefix, length and check digit; else 0."""
    number = text.encode().translate(None, b" -")
    return _written(text, length) if (length := _card_digits(number[:19])) else 0


@functools.lru_cache(maxsize=4096)
def _card_digits(number: bytes) -> int:
    """Returns the number of leading digits that are a payment card's number; else 0."""
    doubled = number.translate(_LUHN_DOUBLED)
    size = len(number)
    for length in _card_lengths(number[:4]):
        if (
            length <= size
            and (sum(number[length - 1 :: -2]) + sum(doubled[length - 2 :: -2]) - 48 * length) % 10 == 0
            and number[:length].strip(number[:1])
        ):
            return length
    return 0


def _written(text: str, count: int) -> int:
    """Returns the length of the first `count` letters and digits; 0 for two separators in a row."""
    found = _groups(count).match(text)
    return 0 if found is None else found.end()


@functools.cache
def _groups(count: int) -> re.Pattern[str]:
    return re.compile(f"[0-9A-Za-z](?:[ -]?[0-9A-Za-z]){{{count - 1}}}")


@functools.lru_cache(maxsize=10_000)
def _card_lengths(prefix: bytes) -> Sequence[int]:
    two, three, four = int(prefix[:2]), int(prefix[:3]), int(prefix)
    if prefix[:1] == b"4":
        return 19, 16, 13
    if 51 <= two <= 55 or 2221 <= four <= 2720:
        return (16,)
    if two in {34, 37}:
        return (15,)
    if 300 <= three <= 305 or two in {36, 38, 39}:
        return 16, 14
    if four == 6011 or two in {62, 65} or 644 <= three <= 649 or 3528 <= four <= 3589:
        return 19, 18, 17, 16
    return (19, 18, 16, 15, 14, 13, 12) if two in {50, 56, 57, 58, 60, 63, 67} else ()


def iban_length(text: str) -> int:
    """Returns the length of the IBAN at the beginning, by country's length and remainder modulo 97; else 0."""
    wanted = _IBAN_LENGTHS.get(text[:2].upper(), 0)
    number = text.encode().translate(None, b" -")[:wanted]
    if not wanted or len(number) < wanted:
        return 0
    account = number[4:].decode()
    if not account.isdigit():
        account = account.upper().translate(_IBAN_LETTERS)
    country, check = number[:2].decode().upper(), number[2:4].decode()
    written = f"{account}{_IBAN_LETTERS[ord(country[0])]}{_IBAN_LETTERS[ord(country[1])]}{check}"
    if int(written) % 97 != 1:
        return 0
    return _written(text, wanted)


def ipv4(text: str) -> bool:
    """Checks for four octets without leading zeros."""
    return _is_address(socket.AF_INET, text)


def ipv6(text: str) -> bool:
    """Checks for an IPv6 address with at least four hexadecimal digits; shorter matches are mostly code."""
    return len(text) - text.count(":") - text.count(".") >= 4 and _is_address(socket.AF_INET6, text)


def _is_address(family: socket.AddressFamily, text: str) -> bool:
    try:
        socket.inet_pton(family, text)
    except OSError:
        return False
    return True


def base58check(text: str) -> bool:
    """Checks a Bitcoin address of the old form."""
    number = 0
    for character in text:
        number = number * 58 + _BASE58.index(character)
    try:
        payload = number.to_bytes(25, "big")
    except OverflowError:
        return False
    return hashlib.sha256(hashlib.sha256(payload[:21]).digest()).digest()[:4] == payload[21:]


def bech32(text: str) -> bool:
    """Checks a Bitcoin address of the newer forms (BIP 173 and 350)."""
    prefix, _, data = text.lower().rpartition("1")
    check = 1
    spread = [*(ord(one) >> 5 for one in prefix), 0, *(ord(one) & 31 for one in prefix)]
    for value in (*spread, *data.encode().translate(_BECH32_VALUES)):
        check = (check & 0x1FFFFFF) << 5 ^ value ^ _BECH32_STEPS[check >> 25]
    return check in {1, 0x2BC830A3}


def verhoeff(text: str) -> bool:
    """Checks the check digit of an Aadhaar number."""
    number = text.encode().translate(None, b" -")[::-1]
    row = 0
    for place in range(0, len(number), 4):
        row = _verhoeff_four(number[place : place + 4], place & 4)[row]
    return row == 0


@functools.lru_cache(maxsize=20_000)
def _verhoeff_four(number: bytes, place: int) -> tuple[int, ...]:
    """Returns the next row of each row for up to four digits, the first at `place` from the end."""
    first, second = _VERHOEFF_PAIRS[place][number[:2]], _VERHOEFF_PAIRS[place + 2][number[2:]]
    return _VERHOEFF_ROWS[second[first[0]]]


def medicare(text: str) -> bool:
    """Checks an Australian Medicare number: its ninth digit by the first eight."""
    values = [int(digit) for digit in digits(text)]
    return sum(value * weight for value, weight in zip(values, (1, 3, 7, 9) * 2, strict=False)) % 10 == values[8]


def dea(text: str) -> bool:
    """Checks a licence of the United States' Drug Enforcement Administration."""
    values = [int(digit) for digit in text[2:]]
    return (sum(values[0:6:2]) + 2 * sum(values[1:6:2])) % 10 == values[6]


def singaporean(text: str) -> bool:
    """Checks the last letter of a Singaporean NRIC or FIN."""
    one, two, three, four, five, six, seven = text[1:8].encode()
    total = 2 * one + 7 * two + 6 * three + 5 * four + 4 * five + 3 * six + 2 * seven - 29 * 48
    total += {"T": 4, "G": 4, "M": 3}.get(text[0], 0)
    if text[0] == "M":
        return "KLJNPQRTUWX"[10 - total % 11] == text[8]
    return ("JZIHGFEDCBA" if text[0] in "ST" else "XWUTRQPNMLK")[total % 11] == text[8]
