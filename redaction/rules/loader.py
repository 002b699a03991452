"""Loads the rules of all tables, with the functions that tables name; short functions are defined here."""

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import phonenumbers
from stdnum.au import abn, acn, tfn
from stdnum.br import cpf
from stdnum.de import idnr
from stdnum.es import dni, nie
from stdnum.fi import hetu
from stdnum.fr import nir
from stdnum.gb import nhs
from stdnum.ie import pps
from stdnum.in_ import gstin
from stdnum.it import codicefiscale
from stdnum.kr import brn
from stdnum.nl import bsn
from stdnum.pl import pesel
from stdnum.pt import cc as citizen_card
from stdnum.pt import nif as portuguese_nif
from stdnum.se import personnummer
from stdnum.th import pin

from redaction.rules import addresses, checksums, persons
from redaction.rules.addresses import is_version
from redaction.rules.regional_phones import in_regions, is_other_number
from redaction.rules.rule import Rule
from redaction.rules.tables import Table, read_rules, table

# Placeholders of secrets, and expressions that read a secret from elsewhere.
_NO_SECRET: Final = re.compile(
    r"[$%{\[(<]|.*(?:\(|\[|\{\{|&[a-z])|(?i:none|null|true|false|undefined|required|optional|changeme|example|password|"
    r"passwd|secret|token|user|xxx+|\*+|\.+|redacted)(?![0-9A-Za-z])"
)
_NAMES_A_SECRET: Final = re.compile("[A-Za-z]+(?:[-_./:][A-Za-z]+)*[.!?:]?")

# Values of short names that are no passwords: names of modes, counts, sizes, fields of objects.
_NO_SHORT_SECRET: Final = re.compile(
    "[a-z]+[0-9]?(?:[-_./:][a-z0-9]+)*|[0-9]+(?:[.,/:-][0-9]+)*(?:[a-zA-Z%]{1,4}|(?:of|/|x)[0-9]+)?|[A-Z]+[-_]?[0-9]+|"
    "[a-z][A-Za-z0-9]*(?:\\.[a-z_][A-Za-z0-9_]*)+"
)
_MIXED: Final = re.compile("(?=[^0-9]*[0-9])[^A-Za-z]*[A-Za-z]")
_MIXED_WORD: Final = re.compile("(?<![^ ])(?=[^ ]{0,40}[0-9])(?=[^ ]{0,40}[A-Za-z])[^ ]{4,}(?![^ ])")

# Regions whose national numbers begin with a zero.
_REGIONS: Final = ("DE", "FR", "GB", "IT", "NL", "AT", "CH", "BE", "SE", "IE", "AU")
_SIGN_WORDS: Final = frozenset(table("spoken").pieces["signs"].split("|"))
_WIDENINGS: Final[Mapping[str, Callable[[str, int], int]]] = {
    "email_start": addresses.email_start,
    "name_start": persons.name_start,
}
_REFUTATIONS: Final[Mapping[str, Callable[[str, int], bool]]] = {
    "file_or_version": addresses.is_file_or_version,
    "other_number": is_other_number,
    "version": is_version,
}
_REGIONAL: Final[Mapping[str, Callable[[str, int, int, Collection[str]], bool]]] = {"in_regions": in_regions}

FAMILIES: Final = ("everywhere", "dates", "phones", "places", "secrets", "national", "persons", "spoken", "chats")
"""Names of the tables with rules, in the order in which their rules are tried."""

_KEYS: Final = frozenset(field.name for field in dataclasses.fields(Rule))


def is_password(text: str) -> bool:
    """Returns whether a text may be a password: it is no placeholder."""
    return _NO_SECRET.match(text) is None


def is_base64(text: str) -> bool:
    """Returns whether a text has letters of both cases and a digit, unlike hexadecimal digits and most paths."""
    return text.lower() != text != text.upper() and any(map(str.isdigit, text))


def may_be_secret(text: str) -> bool:
    """Returns whether a text may be a secret: it is no placeholder, and is not just words."""
    return is_password(text) and _NAMES_A_SECRET.fullmatch(text) is None and len(set(text)) > 3


def is_short_named(text: str) -> bool:
    """Returns whether a text is a secret under an ambiguous short name such as `pass`."""
    return may_be_secret(text) and _NO_SHORT_SECRET.fullmatch(text) is None and _MIXED.match(text) is not None


def is_key(text: str) -> bool:
    """Returns whether a text has letters of both cases and a digit."""
    return is_short_named(text) and text.lower() != text != text.upper()


def is_quoted_secret(text: str) -> bool:
    """Returns whether a text of several words is a secret; few words need one with letters and digits."""
    return may_be_secret(text) and text.count(" ") < 5 and _MIXED_WORD.search(text) is not None


def _national_numbers() -> re.Pattern[str]:
    """Returns a pattern of the fixed and mobile numbers of the regions, with their leading zero."""
    plans = []
    for region in _REGIONS:
        plan = phonenumbers.PhoneMetadata.metadata_for_region(region)
        assert plan is not None
        zero = "0" if plan.national_prefix == "0" else ""
        plans += [
            f"{zero}(?:{kind.national_number_pattern})"
            for kind in (plan.fixed_line, plan.mobile)
            if kind is not None and kind.national_number_pattern
        ]
    return re.compile("|".join(plans), re.ASCII)


_NATIONAL: Final = _national_numbers()


def _has_digits(fewest: int, most: int) -> Callable[[str], bool]:
    """Returns a check that the number of digits of a text is within bounds."""
    return lambda text: fewest <= len(checksums.digits(text)) <= most


def _length_of_digits(fewest: int, most: int) -> Callable[[str], int]:
    """Returns a function for the length of a text's leading whole groups with a number of digits within bounds."""
    groups = re.compile(rf"(?:[^0-9]*[0-9]){{{fewest},{most}}}(?![0-9])")

    def length(text: str) -> int:
        found = groups.match(text)
        return 0 if found is None else found.end()

    return length


def _is_national(text: str) -> bool:
    return _NATIONAL.fullmatch(checksums.digits(text)) is not None


def _ssn(text: str) -> bool:
    number = checksums.digits(text)
    return number[:3] not in {"000", "666"} and number[0] != "9" and number[3:5] != "00" and number[5:] != "0000"


def _nino(text: str) -> bool:
    return text[:2] not in {"BG", "GB", "KN", "NK", "NT", "TN", "ZZ"}


def _spanish(text: str) -> bool:
    return bool(dni.is_valid(text.replace(".", "").replace(" ", "").rjust(9, "0")))


def _mixed(text: str) -> bool:
    """Returns whether the text has a digit."""
    return not text.isalpha()


def _is_spoken_person(text: str) -> bool:
    """Returns whether the local part of an address in words is more than a role."""
    first, second, _ = text.lower().split(" ", 2)
    return first not in addresses.ROLES or second in _SIGN_WORDS


_CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    # Checks of python-stdnum, by country.
    "au.abn": abn.is_valid,
    "au.acn": acn.is_valid,
    "au.tfn": tfn.is_valid,
    "br.cpf": cpf.is_valid,
    "de.idnr": idnr.is_valid,
    "es.dni": dni.is_valid,
    "es.nie": nie.is_valid,
    "fi.hetu": hetu.is_valid,
    "fr.nir": nir.is_valid,
    "gb.nhs": nhs.is_valid,
    "ie.pps": pps.is_valid,
    "in.gstin": gstin.is_valid,
    "it.codicefiscale": codicefiscale.is_valid,
    "kr.brn": brn.is_valid,
    "nl.bsn": bsn.is_valid,
    "pl.pesel": pesel.is_valid,
    "pt.cc": citizen_card.is_valid,
    "pt.nif": portuguese_nif.is_valid,
    "se.personnummer": personnummer.is_valid,
    "th.pin": pin.is_valid,
    # Checks of other numbers.
    "base58check": checksums.base58check,
    "bech32": checksums.bech32,
    "dea": checksums.dea,
    "ipv4": addresses.is_strong_ipv4,
    "ipv6": checksums.ipv6,
    "luhn": checksums.luhn,
    "medicare": checksums.medicare,
    "mixed": _mixed,
    "national_phone": _is_national,
    "nino": _nino,
    "singaporean": checksums.singaporean,
    "spanish": _spanish,
    "ssn": _ssn,
    "verhoeff": checksums.verhoeff,
    "7_to_12_digits": _has_digits(7, 12),
    "8_to_20_digits": _has_digits(8, 20),
    "10_to_17_digits": _has_digits(10, 17),
    # Checks of names.
    "account_name": persons.is_account,
    "chat_name": persons.is_name,
    "person_name": persons.may_be_person,
    "spoken_person": _is_spoken_person,
    # Checks of secrets.
    "base64": is_base64,
    "key": is_key,
    "password": is_password,
    "quoted_secret": is_quoted_secret,
    "secret": may_be_secret,
    "short_named_secret": is_short_named,
}


_TRIMS: Final[Mapping[str, Callable[[str], int]]] = {
    "card_length": checksums.card_length,
    "iban_length": checksums.iban_length,
    "url_length": addresses.url_length,
    "7_to_15_digits": _length_of_digits(7, 15),
    "9_to_12_digits": _length_of_digits(9, 12),
}


FUNCTIONS: Final[Mapping[str, Mapping[str, Callable[..., Any]]]] = {
    "check": _CHECKS,
    "trim": _TRIMS,
    "widen": _WIDENINGS,
    "refuted": _REFUTATIONS,
    "regional": _REGIONAL,
}
"""Functions that a table may name, by the key of a rule."""


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """Returns the rules of all tables, which are read at the first call."""
    return tuple(rule for family in FAMILIES for rule in rules_of(table(family)))


def rules_of(given: Table) -> list[Rule]:
    """Returns the rules of a table.

    Raises:
        ValueError: a rule of the table is not valid.
    """
    return [Rule(**fields) for fields in read_rules(given, _KEYS, FUNCTIONS)]
