"""Rules for phone numbers, international ones and those of the number plans of countries."""

import re
from typing import Final

import phonenumbers

from backend.redaction.rules import checksums
from backend.redaction.rules.regional_phones import in_regions, is_other_number
from backend.redaction.rules.rule import Rule

_PHONE: Final = (
    "phone|telephone|tel|mobile|mobil|cell|cellphone|fax|whatsapp|sms|handy|telefon|contact ?number|"
    "call (?:me|us|him|her|them)|reach (?:me|us|him|her|them)|phone ?(?:no|number)|msisdn|"
    "telefonnummer|mobilnummer|handynummer|rufnummer|durchwahl|erreichbar|téléphone|télécopie|portable|joignable|"
    "teléfono|móvil|llama(?:r|rme|rnos|me|le|la)|telefono|cellulare|telefone|celular|telemóvel|telefoon|mobiel|komórka|komórkowy"
)
# What a number counts that is no phone number.
_UNIT: Final = (
    "(?! ?(?:[munµ]s|sec|secs|seconds|s|min|minutes|ms|bytes?|octets?|bits?|[kMGT]i?B|rows?|lines?|items?|records?|"
    "requests?|hits|"
    "km|kg|EUR|USD|GBP|euros?|dollars?|%)(?![0-9A-Za-z]))"
)
# Regions in whose national numbers a zero comes first.
_REGIONS: Final = ("DE", "FR", "GB", "IT", "NL", "AT", "CH", "BE", "SE", "IE", "AU")


_CODES: Final = "|".join(str(code) for code in sorted(phonenumbers.COUNTRY_CODE_TO_REGION_CODE, reverse=True))


class _Digits:
    """Check that a text has a number of digits within bounds."""

    def __init__(self, fewest: int, most: int) -> None:
        self._fewest = fewest
        self._most = most
        self._groups = re.compile(rf"(?:[^0-9]*[0-9]){{{fewest},{most}}}(?![0-9])")

    def __call__(self, text: str) -> bool:
        return self._fewest <= len(checksums.digits(text)) <= self._most

    def length(self, text: str) -> int:
        """Returns how many characters hold at most that many digits: as many groups as fit."""
        found = self._groups.match(text)
        return 0 if found is None else found.end()


def _national() -> re.Pattern[str]:
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


_NATIONAL: Final = _national()


def _is_national(text: str) -> bool:
    return _NATIONAL.fullmatch(checksums.digits(text)) is not None


RULES: Final = (
    Rule(
        "PHONE_NUMBER",
        r"\+[1-9](?:[ ./()-]{0,3}[0-9]){7,14}(?: ?(?:x|ext\.?) ?[0-9]{1,5})?",
        0.9,
        check=_Digits(8, 20),
    ),
    Rule(
        "PHONE_NUMBER",
        r"(?:(?:00)?1[ .-])?(?:\([0-9]{3}\)[ -]?|[0-9]{3}[.-])[0-9]{3}[ .-][0-9]{4}(?: ?(?:x|ext\.?) ?[0-9]{1,5})?",
        0.8,
        0.9,
        _PHONE,
    ),
    # With a blank behind 00; a row of pairs may be anything but in France.
    Rule(
        "PHONE_NUMBER",
        rf"00 (?:(?:{_CODES})(?= [0-9 -]{{0,12}}[0-9]{{3}})(?:[ -][0-9]{{2,8}}){{2,4}}|"
        r"33 [1-9](?: [0-9]{2}){4})(?! ?[0-9])",
        0.9,
        check=_Digits(10, 17),
        opening="00 [1-9]",
        before="0-9A-Za-z.,:/-",
    ),
    # Three groups separated by spaces are often something else.
    Rule("PHONE_NUMBER", "(?:1 )?[0-9]{3} [0-9]{3}[ -][0-9]{4}", 0.6, 0.9, _PHONE),
    Rule(
        "PHONE_NUMBER",
        r"(?:00[1-9][0-9]{0,2}[ ./-]?)?\(?0?[1-9][0-9]{0,4}\)?(?:[ ./-]{1,2}[0-9]{2,8}){1,6}",
        0.0,
        0.9,
        _PHONE,
        trim=_Digits(7, 15).length,
        refuted=is_other_number,
    ),
    Rule("PHONE_NUMBER", "0[1-9](?:[ .][0-9]{2}){4}", 0.85, 0.9, _PHONE, check=_is_national, before="0-9A-Za-z.,"),
    Rule(
        "PHONE_NUMBER",
        # Five digits and four are a postal code of the United States.
        r"(?![0-9]{5}-[0-9]{4}(?![0-9]))\(?0[1-9][0-9]{1,4}\)?(?: ?[/-] ?| )[0-9]{1,8}(?:[ -][0-9]{2,6}){0,4}",
        0.8,
        0.9,
        _PHONE,
        check=_is_national,
        before="0-9A-Za-z.,/-",
        opening=r"\(?0[1-9][0-9]{1,4}\)?(?: ?[/-] ?| )[0-9]{1,8}",
    ),
    Rule(
        "PHONE_NUMBER",
        r"\(?0[1-9][0-9]{0,4}\)?(?:[ /-][0-9]{2,8}){1,5}",
        0.6,
        0.9,
        _PHONE,
        trim=_Digits(9, 12).length,
    ),
    # As they are written in the countries of the policy and those inferred from the document.
    Rule(
        "PHONE_NUMBER",
        r"(?:\(?[0-9]{1,5}\)?(?:(?: |-|/| - | / )[0-9]{2,8}){1,5}|[0-9]{2}(?:\.[0-9]{2}){3,4})(?![0-9])",
        0.8,
        check=_Digits(7, 12),
        regional=in_regions,
        before="0-9A-Za-z+.,:/-",
        # Dates begin with a year and a dash.
        opening=r"\(?(?:[0-9]{1,3}|[03-9][0-9]{3}|1[0-8][0-9]{2}|2[1-9][0-9]{2}|[0-9]{5})\)?(?: |-|/| - | / "
        r")[0-9]{2,8}|"
        r"20[0-9]{2} [0-9]{2,8}|[0-9]{2}\.[0-9]{2}\.[0-9]{2}\.",
    ),
    Rule("PHONE_NUMBER", "[0-9]{8,12}", 0.6, regional=in_regions),
    Rule("PHONE_NUMBER", "00[1-9][0-9]{7,13}", 0.5, 0.9, _PHONE),
    Rule("PHONE_NUMBER", "[2-9][0-9]{2}[2-9][0-9]{6}", 0.5, 0.9, _PHONE),
    Rule("PHONE_NUMBER", f"[0-9]{{7,15}}{_UNIT}", 0.0, 0.85, _PHONE, opening="[0-9]{7,15}", refuted=is_other_number),
)
