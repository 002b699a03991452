"""Rules for values that are written alike in most countries."""

import re
from typing import Final

from backend.redaction.rules import checksums
from backend.redaction.rules.rule import Rule

_LOCAL: Final = re.compile(r"[0-9A-Za-z_.%+'&~\x80-\xff-]*+")
_NOT_FIRST: Final = ".%+'&~-"
# Letters of Latin-1 beyond ASCII; those beyond Latin-1 are read as lower-case ones.
_BEYOND: Final = "\u0080-\u00ff"
_UPPER: Final = "\u00c0-\u00de"
_LOWER: Final = "\u00df-\u00ff"
_DOMAIN: Final = rf"(?:[0-9A-Za-z{_BEYOND}_-]{{1,63}}\.){{1,8}}[A-Za-z{_BEYOND}][0-9A-Za-z{_BEYOND}-]{{1,62}}"
_URL_CHARACTERS: Final = r"[^\x00-\x20\x7f\"'<>\\`|^{}]"
_SCHEMES: Final = "[Hh][Tt][Tt][Pp][Ss]?|[Ff][Tt][Pp]|[Ss]3|[Ss][Ff][Tt][Pp]|[Ww][Ss]{1,2}"
_URL_ENDS: Final = ".,;:!?*_~"
_BRACKETS: Final = {")": "(", "]": "["}
_TOP_LEVEL: Final = (
    "com|org|net|edu|gov|mil|int|info|biz|io|dev|app|ai|co|me|eu|us|uk|de|fr|it|es|nl|be|ch|at|se|no|fi|dk|pl|cz|pt|ie|"
    "ca|au|nz|jp|cn|kr|in|br|ru|sg|th|hk|tw|mx|za|tv|cloud|online|site|shop|xyz"
)
_YEAR: Final = "(?:19|20)[0-9]{2}"
_MONTH: Final = "(?:0[1-9]|1[0-2])"
_DAY: Final = "(?:0[1-9]|[12][0-9]|3[01])"
_LOOSE_MONTH: Final = "(?:0?[1-9]|1[0-2])"
_LOOSE_DAY: Final = "(?:0?[1-9]|[12][0-9]|3[01])"
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]{1,9})?)?"
_ZONE: Final = "(?: ?(?:Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2}))?"
_MONTH_NAME: Final = (
    "(?:[Jj]an(?:uary)?|[Ff]eb(?:ruary)?|[Mm]ar(?:ch)?|[Aa]pr(?:il)?|[Mm]ay|[Jj]une?|[Jj]uly?|[Aa]ug(?:ust)?|"
    r"[Ss]ept?(?:ember)?|[Oo]ct(?:ober)?|[Nn]ov(?:ember)?|[Dd]ec(?:ember)?)\.?"
)
_BORN: Final = "dob|born|birth|birth ?date|birth ?day|date ?of ?birth"
_PHONE: Final = (
    "phone|telephone|tel|mobile|mobil|cell|cellphone|fax|whatsapp|sms|handy|telefon|call|contact ?number|"
    "phone ?(?:no|number)|msisdn"
)
_COMPANY: Final = r"Inc|LLC|Ltd|Limited|GmbH|AG|PLC|plc|Corp|Corporation|S\.p\.A|S\.A|SARL|BV|Oy|AB"
_STREET: Final = (
    "Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Way|Square|Sq|Place|Pl|Terrace|Close"
)


def _email_start(text: str, at: int) -> int:
    backwards = _LOCAL.match(text[at - 64 if at > 64 else 0 : at][::-1])
    return at if backwards is None else at - len(backwards[0].rstrip(_NOT_FIRST))


def _url_length(text: str) -> int:
    """Returns the length of an address: without the end of a sentence, and closing brackets that it does not open."""
    if text[-1] not in _URL_ENDS and text[-1] not in _BRACKETS:
        return len(text)
    open_brackets = {one: text.count(other) - text.count(one) for one, other in _BRACKETS.items()}
    end = len(text)
    while end:
        last = text[end - 1]
        if last in open_brackets:
            if open_brackets[last] >= 0:
                break
            open_brackets[last] += 1
        elif last not in _URL_ENDS:
            break
        end -= 1
    return end


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


def _strong_ipv4(text: str) -> bool:
    return len(text) > len("1.1.1.1") and checksums.ipv4(text)


RULES: Final = (
    Rule(
        "EMAIL_ADDRESS",
        f"(?:@|%40){_DOMAIN}",
        1.0,
        longest=600,
        widen=_email_start,
        opening=f"(?:@|%40)[0-9A-Za-z{_BEYOND}_-]",
        numeric=False,
        before="",
        after="",
    ),
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
    # Three groups separated by spaces are often something else.
    Rule("PHONE_NUMBER", "(?:1 )?[0-9]{3} [0-9]{3}[ -][0-9]{4}", 0.6, 0.9, _PHONE),
    Rule(
        "PHONE_NUMBER",
        r"(?:00[1-9][0-9]{0,2}[ ./-]?)?\(?0?[1-9][0-9]{0,4}\)?(?:[ ./-]{1,2}[0-9]{2,8}){1,6}",
        0.0,
        0.9,
        _PHONE,
        trim=_Digits(7, 15).length,
    ),
    Rule(
        "PHONE_NUMBER",
        r"\(?0[1-9][0-9]{0,4}\)?(?:[ /-][0-9]{2,8}){1,5}",
        0.6,
        0.9,
        _PHONE,
        trim=_Digits(9, 12).length,
    ),
    Rule("PHONE_NUMBER", "00[1-9][0-9]{7,13}", 0.5, 0.9, _PHONE),
    Rule("PHONE_NUMBER", "[2-9][0-9]{2}[2-9][0-9]{6}", 0.5, 0.9, _PHONE),
    Rule("PHONE_NUMBER", "[0-9]{7,15}", 0.0, 0.85, _PHONE),
    Rule(
        "CREDIT_CARD",
        "[2-6][0-9]{3}[ -][0-9]{4,6}[ -][0-9]{4,5}(?:[ -][0-9]{3,4}){0,2}",
        1.0,
        trim=checksums.card_length,
        opening="[2-6][0-9]{3}[ -][0-9]{4,6}[ -][0-9]{4}",
    ),
    Rule("CREDIT_CARD", "[2-6][0-9]{11,18}", 0.9, trim=checksums.card_length),
    Rule(
        "CREDIT_CARD",
        # `trim` refuses two separators in a row.
        "[2-6][0-9 -]{12,36}",
        0.6,
        0.9,
        "card|credit|debit|visa|mastercard|amex|cc|pan",
        trim=checksums.card_length,
        opening="[2-6][ -]?[0-9][0-9 -]{10}",
    ),
    Rule(
        "IBAN_CODE",
        # `trim` refuses two separators in a row.
        "[A-Za-z]{2}[0-9]{2}[ -]?[0-9A-Za-z][0-9A-Za-z -]{10,58}",
        1.0,
        trim=checksums.iban_length,
        opening="[A-Za-z]{2}[0-9]{2}(?:[ -]?[0-9A-Za-z]){11}",
    ),
    Rule(
        "IP_ADDRESS",
        r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}",
        0.9,
        check=_strong_ipv4,
        before="0-9A-Za-z.",
        after="0-9A-Za-z",
    ),
    Rule(
        "IP_ADDRESS",
        r"(?:[0-9]\.){3}[0-9]",
        0.6,
        0.9,
        "ip|host|server|address|addr",
        before="0-9A-Za-z.",
    ),
    Rule(
        "IP_ADDRESS",
        r"[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,8}(?:(?:\.[0-9]{1,3}){3})?",
        0.9,
        check=checksums.ipv6,
        opening="[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:",
        numeric=False,
        before="0-9A-Za-z:.",
        after="0-9A-Za-z:",
    ),
    Rule(
        "MAC_ADDRESS",
        "[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}",
        0.95,
        before="0-9A-Za-z:",
        after="0-9A-Za-z:",
        numeric=False,
    ),
    Rule(
        "MAC_ADDRESS",
        "[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5}",
        0.95,
        before="0-9A-Za-z-",
        after="0-9A-Za-z-",
        numeric=False,
    ),
    Rule(
        "MAC_ADDRESS",
        r"[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}",
        0.7,
        before="0-9A-Za-z.",
        after="0-9A-Za-z.",
        numeric=False,
    ),
    Rule(
        "URL",
        f"(?:{_SCHEMES})://{_URL_CHARACTERS}",
        0.9,
        trim=_url_length,
        tail=_URL_CHARACTERS,
        longest_tail=1_999,
        numeric=False,
        opening=f"(?:{_SCHEMES})://",
        after="",
    ),
    Rule(
        "URL",
        rf"[Ww][Ww][Ww]\.{_URL_CHARACTERS}{{3}}",
        0.8,
        trim=_url_length,
        tail=_URL_CHARACTERS,
        longest_tail=1_997,
        numeric=False,
        opening=r"[Ww][Ww][Ww]\.",
        after="",
    ),
    Rule(
        "URL",
        rf"(?:[0-9A-Za-z][0-9A-Za-z-]{{0,62}}\.){{1,6}}(?:{_TOP_LEVEL})(?:/{_URL_CHARACTERS}{{0,1600}})?",
        0.5,
        trim=_url_length,
        longest=2_000,
        numeric=False,
        opening=r"[0-9A-Za-z][0-9A-Za-z-]{0,62}\.[0-9A-Za-z]",
        before="0-9A-Za-z.@/%+_-",
    ),
    Rule("CRYPTO", "[13][1-9A-HJ-NP-Za-km-z]{25,34}", 1.0, check=checksums.base58check),
    Rule(
        "CRYPTO",
        "(?:bc|tb)1[02-9ac-hj-np-z]{11,71}",
        1.0,
        check=checksums.bech32,
    ),
    Rule("CRYPTO", "0x[0-9A-Fa-f]{40}", 0.9),
    Rule("DATE_TIME", f"{_YEAR}-{_MONTH}-{_DAY}(?:[Tt ]{_CLOCK}{_ZONE})?", 0.9, after="0-9"),
    Rule("DATE_TIME", f"{_YEAR}[/.]{_LOOSE_MONTH}[/.]{_LOOSE_DAY}(?: {_CLOCK})?", 0.85, before="0-9A-Za-z./"),
    Rule(
        "DATE_TIME",
        f"(?:{_LOOSE_DAY}[/.-]{_LOOSE_MONTH}|{_LOOSE_MONTH}[/.-]{_LOOSE_DAY})[/.-]{_YEAR}(?:,? {_CLOCK})?",
        0.85,
        before="0-9A-Za-z./-",
        after="0-9A-Za-z",
    ),
    Rule(
        "DATE_TIME",
        f"(?:{_LOOSE_DAY}[/.-]{_LOOSE_MONTH}|{_LOOSE_MONTH}[/.-]{_LOOSE_DAY})[/.-][0-9]{{2}}",
        0.55,
        0.85,
        _BORN,
        before="0-9A-Za-z./-",
        after="0-9A-Za-z./-",
    ),
    Rule(
        "DATE_TIME",
        f"{_LOOSE_DAY}(?:st|nd|rd|th)?[ -](?:of )?{_MONTH_NAME},?[ -]{_YEAR}(?:,? {_CLOCK})?",
        0.9,
    ),
    Rule(
        "DATE_TIME",
        f"{_MONTH_NAME} {_LOOSE_DAY}(?:st|nd|rd|th)?,? {_YEAR}(?:,? {_CLOCK})?",
        0.9,
    ),
    Rule("DATE_TIME", f"{_MONTH_NAME},? {_YEAR}", 0.6),
    Rule("DATE_TIME", f"{_LOOSE_DAY}(?:st|nd|rd|th)? (?:of )?{_MONTH_NAME}", 0.55),
    Rule("DATE_TIME", f"{_MONTH_NAME} {_LOOSE_DAY}(?:st|nd|rd|th)?", 0.55),
    Rule("DATE_TIME", _CLOCK, 0.5, before="0-9A-Za-z:.", after="0-9A-Za-z:"),
    Rule("DATE_TIME", f"{_YEAR}{_MONTH}{_DAY}", 0.0, 0.85, _BORN),
    Rule(
        "ORGANIZATION",
        rf"(?:[A-Z][0-9A-Za-z&'-]{{0,30}},? ){{1,4}}(?:{_COMPANY})",
        0.6,
        longest=150,
        numeric=False,
    ),
    Rule(
        "LOCATION",
        rf"[0-9]{{1,5}}[A-Za-z]? (?:[A-Z][0-9A-Za-z'.-]{{0,20}} ){{1,3}}(?:{_STREET})",
        0.8,
    ),
    Rule(
        "LOCATION",
        rf"[A-Z{_UPPER}][a-z{_LOWER}]{{2,30}}(?:straße|str\.|gasse|weg|platz|allee) [0-9]{{1,4}}[a-z]?",
        0.8,
    ),
)
