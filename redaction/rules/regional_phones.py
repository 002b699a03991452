"""Finds phone numbers in national form, without a country code or a word for phone."""

import functools
import re
from collections.abc import Collection
from typing import Final, NamedTuple

import phonenumbers

from redaction.rules import checksums
from redaction.rules.tables import table
from redaction.rules.words import normalised_words

# Groupings of numbers by their digits, in addition to those of the region's number plan.
_FILLERS: Final = normalised_words("number_fillers")
_OTHER_NUMBERS: Final = normalised_words("other_numbers")
_ORDER_NUMBERS: Final = normalised_words("order_numbers")
_GROUPS: Final = {
    7: ((3, 4),),
    8: ((2, 2, 2, 2), (3, 2, 3), (4, 4)),
    9: ((3, 3, 3), (3, 2, 2, 2), (2, 3, 2, 2), (2, 3, 4), (3, 6)),
    10: ((3, 3, 4), (2, 4, 4), (3, 4, 3), (5, 5), (3, 3, 2, 2), (4, 3, 3), (2, 2, 2, 2, 2), (4, 6), (3, 7)),
    11: ((2, 5, 4), (3, 4, 4), (5, 6), (4, 7)),
}
# Groupings behind the prefix.
_BEHIND_PREFIX: Final = ((1, 8),)
_YEARS: Final = re.compile("(?:19|20)[0-9]{2}[ -](?:19|20)[0-9]{2}")
_BETWEEN: Final = re.compile("[^0-9]+")
# A currency sign beyond Latin-1 is read as \u00ff, and so is any letter there.
_AMOUNT_BEFORE: Final = re.compile(
    r"(?:(?:[$\u00a3\u00a5#]|(?<![A-Za-z\u00c0-\u00ff])\u00ff|\b[A-Z]{3}|Nr\.?|No\.?|n[\u00ba\u00b0]\.?|"
    r"N[\u00ba\u00b0]\.?) ?|"
    r"[0-9A-Za-z][./,-]|[0-9] )\Z"
)
_UNIT_AFTER: Final = re.compile(
    r" ?(?:[$\u00a3\u00a5%\u00b0]|\u00ff(?![A-Za-z\u00c0-\u00ff])|[A-Z]{3}(?![A-Za-z])|[.,/-][0-9]| [0-9]|"
    r"[x\u00d7*=] ?[0-9]|"
    r"(?:eur|kr|z.|zl|zlotych|euros?|d\u00f3lares|reais|pesos|k\u010d|k.|ft|m|km|kg|g|mm|cm|s|ms|[kMGT]i?B|bytes?|"
    r"rows?|lignes|filas|linhas|Zeilen|St\u00fcck|Einwohner|habitantes|habitants|abitanti|mieszka|personer|innbyggere|"
    r"indbyggere|inwoners|invoanare|unidades|osob|pessoas|personas|people|times|records?|items?|m2|m\u00b2)(?![0-9A-Za-z]))"
)
_COMPOUND: Final = tuple(table("phones").words["number_endings"])
_STATUS: Final = re.compile('" [1-5][0-9]{2} [0-9]')
_WORDS_BEFORE: Final = re.compile(r"[A-Za-z\u00c0-\u00ff]+")


def is_other_number(text: str, start: int) -> bool:
    """Returns whether a number is of an order, or a status and size in a log, despite a word for phone before it."""
    return _STATUS.match(text, start - 2) is not None or _names_other_number(text, start, _ORDER_NUMBERS)


def _names_other_number(text: str, start: int, names: Collection[str] = _OTHER_NUMBERS) -> bool:
    """Returns whether the word before a position names another number than a phone's."""
    before = text[max(start - 40, 0) : start].rpartition("\n")[2]
    digit = re.search("[0-9][^0-9]*\\Z", before)
    words = _WORDS_BEFORE.findall(before[digit.start() :] if digit is not None else before)
    for word in reversed(words):
        if (lower := word.lower()) not in _FILLERS:
            return lower in names or lower.endswith(_COMPOUND)
    return False


class _Plan(NamedTuple):
    prefix: str
    numbers: re.Pattern[str]
    mobile: re.Pattern[str]
    formats: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]


REGIONS: Final = frozenset(phonenumbers.SUPPORTED_REGIONS)
"""ISO 3166 codes of the countries whose number plans are known."""


@functools.cache
def _plan(region: str) -> _Plan:
    data = phonenumbers.PhoneMetadata.metadata_for_region(region)
    assert data is not None
    fixed, mobile = (
        kind.national_number_pattern or "(?!)" if kind is not None else "(?!)"
        for kind in (data.fixed_line, data.mobile)
    )
    formats = tuple(
        (
            re.compile(one.leading_digits_pattern[-1] if one.leading_digits_pattern else ""),
            re.compile(one.pattern or "(?!)"),
        )
        for one in data.number_format
    )
    prefix = data.national_prefix or ""
    return _Plan(prefix, re.compile(f"{fixed}|{mobile}", re.ASCII), re.compile(mobile, re.ASCII), formats)


@functools.lru_cache(maxsize=64)
def _any_number(regions: frozenset[str]) -> re.Pattern[str]:
    """Returns a pattern of the numbers of some countries, with or without their prefix."""
    plans = [_plan(region) for region in regions]
    return re.compile("|".join(f"(?:{plan.prefix})?(?:{plan.numbers.pattern})" for plan in plans), re.ASCII)


def in_regions(text: str, start: int, end: int, regions: Collection[str]) -> bool:
    """Returns whether a part of a normalised text is a phone number in the form of one of these countries.

    A number beside a word, currency or unit of other numbers is no phone number.
    """
    written = text[start:end]
    if _any_number(frozenset(regions)).fullmatch(checksums.digits(written)) is None:
        return False
    return (
        _AMOUNT_BEFORE.search(text, max(start - 8, 0), start) is None
        and _UNIT_AFTER.match(text, end) is None
        and any(_fits(written, region) for region in regions)
        and not _names_other_number(text, start)
    )


def _fits(written: str, region: str) -> bool:
    plan = _plan(region)
    number = checksums.digits(written)
    prefix = plan.prefix
    if prefix and number.startswith(prefix) and plan.numbers.fullmatch(number, len(prefix)) is not None:
        national = number[len(prefix) :]
    elif plan.numbers.fullmatch(number) is not None:
        national, prefix = number, ""
    else:
        return False
    lengths = tuple(len(group) for group in _BETWEEN.split(written) if group)
    if len(lengths) == 1:
        return bool(prefix or plan.prefix != "0") and plan.mobile.fullmatch(national) is not None
    if _YEARS.fullmatch(written) is not None:
        return False
    known: set[tuple[int, ...]] = set(_GROUPS.get(len(national), ()))
    for leading, pattern in plan.formats:
        if leading.match(national) is not None and (found := pattern.fullmatch(national)) is not None:
            groups = tuple(map(len, found.groups()))
            known |= {groups, (groups[0], sum(groups[1:]))}
    return (
        lengths in known
        or (
            bool(prefix)
            # The usual form of Dutch mobile numbers: 06 12345678.
            and any(
                lengths in {(len(prefix) + groups[0], *groups[1:]), (len(prefix), *groups)}
                for groups in (*known, *_BEHIND_PREFIX)
            )
        )
    )
