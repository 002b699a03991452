"""Rules for values that are written alike in most countries."""

import re
from typing import Final

from backend.redaction.rules import checksums
from backend.redaction.rules.rule import Rule
from backend.redaction.rules.versions import is_version

_LOCAL: Final = re.compile(r"[0-9A-Za-z_.%+'&~\x80-\xff-]*+")
# From right to left; such a part holds what an unquoted one cannot (RFC 5322, 3.2.4).
_QUOTED: Final = re.compile(r'"[0-9A-Za-z_.%+ \x80-\xff-]{1,60}+"(?![0-9A-Za-z])')
_NOT_FIRST: Final = ".%+'&~-"
# Letters of Latin-1 beyond ASCII; those beyond Latin-1 are read as lower-case ones.
_BEYOND: Final = "\u0080-\u00ff"
ROLES: Final = frozenset(
    (
        *(
            "git",
            "info",
            "support",
            "sales",
            "contact",
            "help",
            "helpdesk",
            "hello",
            "office",
            "admin",
            "administrator",
        ),
        *(
            "team",
            "noreply",
            "no-reply",
            "donotreply",
            "do-not-reply",
            "postmaster",
            "hostmaster",
            "webmaster",
            "abuse",
        ),
        *("security", "billing", "jobs", "careers", "press", "media", "marketing", "service", "services", "hr", "it"),
        *("privacy", "legal", "news", "newsletter", "orders", "accounts", "accounting", "enquiries", "reception"),
        *("feedback", "root", "mailer-daemon", "notifications", "notification", "alerts", "finance", "customerservice"),
        *("kontakt", "vertrieb", "buchhaltung", "kundenservice", "bestellung", "rechnung", "datenschutz", "bewerbung"),
        *("ventes", "comptabilite", "facturation", "recrutement", "contacto", "ventas", "ayuda", "soporte", "atencion"),
        *("rrhh", "contatti", "amministrazione", "klantenservice", "biuro", "suporte", "vendas", "geral"),
    )
)
"""Local parts of addresses that belong to a role, not to a person."""
_DOMAIN: Final = rf"(?:[0-9A-Za-z{_BEYOND}_-]{{1,63}}\.){{1,8}}[A-Za-z{_BEYOND}][0-9A-Za-z{_BEYOND}-]{{1,62}}"
# An address in place of a domain (RFC 5321, 4.1.3).
_LITERAL: Final = r"\[(?:IPv6:[0-9A-Fa-f:.]{2,45}|[0-9.]{7,15})\]"
# Ends of names of files that are no top-level domains.
_FILE_ENDS: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "png jpg jpeg gif svg webp avif heic ico bmp tif tiff psd eps mp3 mp4 wav pdf js cjs mjs jsx ts tsx vue "
        "css scss sass less json json5 xml yml yaml toml csv tsv htm html xhtml txt log lock jar war whl egg gem "
        "gz tgz bz2 xz tar 7z rar exe dll dmg msi deb rpm apk wasm woff woff2 ttf otf eot doc docx xls xlsx ppt "
        "pptx parquet sqlite php java cpp hpp min umd esm service socket timer slice scope mount"
    ).split()
)
# Labels of a domain but for the last, and that one.
_LABELS: Final = re.compile(
    rf"[^@\s]{{0,64}}?(?:@|%40)((?:[0-9A-Za-z{_BEYOND}_-]{{1,63}}\.){{1,8}})([A-Za-z0-9_-]++)(?!\.[0-9A-Za-z])"
)
_VERSION: Final = re.compile(r"v?[0-9]+(?:\.[0-9]+)+\.")
_URL_CHARACTERS: Final = r"[^\x00-\x20\x7f\"'<>\\`|^{}]"
_CARD: Final = (
    "card|credit|debit|visa|mastercard|amex|maestro|cc|pan|kreditkarte|kartennummer|carte|tarjeta|carta di credito|"
    "creditcard|cartão|karta|karty"
)
_SCHEMES: Final = "[Hh][Tt][Tt][Pp][Ss]?|[Ff][Tt][Pp]|[Ss]3|[Ss][Ff][Tt][Pp]|[Ww][Ss]{1,2}"
_URL_ENDS: Final = ".,;:!?*_~"
_BRACKETS: Final = {")": "(", "]": "["}
_TOP_LEVEL: Final = (
    "com|org|net|edu|gov|mil|int|info|biz|io|dev|app|ai|co|me|eu|us|uk|de|fr|it|es|nl|be|ch|at|se|no|fi|dk|pl|cz|pt|ie|"
    "ca|au|nz|jp|cn|kr|in|br|ru|sg|th|hk|tw|mx|za|tv|cloud|online|site|shop|xyz"
)
_COMPANY: Final = r"Inc|LLC|Ltd|Limited|GmbH|AG|PLC|plc|Corp|Corporation|S\.p\.A|S\.A|SARL|BV|Oy|AB"


def _is_file_or_version(text: str, start: int) -> bool:
    """Returns whether an address is none by its domain: `logo@2x.png`, `pkg@1.2.3.Final`, or a replacement."""
    if (found := _LABELS.match(text, start)) is None:
        return False
    labels, last = found.groups()
    if last == "invalid" and labels == "redacted.":
        return True
    version = _VERSION.match(labels) if labels[0] in "v0123456789" else None
    if version is not None and version.end() == len(labels) and last[0].isalpha():
        return True
    if last.lower() not in _FILE_ENDS:
        return False
    # A file may be named by an address: `jane@example.org.csv`.
    domain = labels[:-1].split(".")
    while len(domain) > 1 and domain[-1].lower() in _FILE_ENDS:
        domain.pop()
    return version is not None or len(domain) == 1 or len(domain[-1]) == 1 or not domain[-1].isalpha()


def _email_start(text: str, at: int) -> int:
    before = text[at - 64 if at > 64 else 0 : at][::-1]
    if (quoted := _QUOTED.match(before)) is not None:
        return at - quoted.end()
    backwards = _LOCAL.match(before)
    if backwards is None:
        return at
    start = at - len(backwards[0].rstrip(_NOT_FIRST))
    return at if text[start:at].lower() in ROLES else start


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


def _strong_ipv4(text: str) -> bool:
    return len(text) > len("1.1.1.1") and checksums.ipv4(text)


RULES: Final = (
    Rule(
        "EMAIL_ADDRESS",
        f"(?:@|%40)(?:{_DOMAIN}|{_LITERAL})",
        1.0,
        longest=600,
        refuted=_is_file_or_version,
        widen=_email_start,
        opening=rf"(?:@|%40)[0-9A-Za-z{_BEYOND}_\[-]",
        numeric=False,
        before="",
        after="",
    ),
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
        _CARD,
        trim=checksums.card_length,
        opening="[2-6][ -]?[0-9][0-9 -]{10}",
    ),
    # Of whatever issuer.
    Rule("CREDIT_CARD", "[0-9](?:[ -]?[0-9]){11,18}", 0.0, 0.9, _CARD, check=checksums.luhn),
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
        refuted=is_version,
        before="0-9A-Za-z.",
        after="0-9A-Za-z",
    ),
    Rule(
        "IP_ADDRESS",
        r"(?:[0-9]\.){3}[0-9]",
        0.6,
        0.9,
        "ip|host|server|address|addr",
        refuted=is_version,
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
    Rule(
        "ORGANIZATION",
        rf"(?:[A-Z][0-9A-Za-z&'-]{{0,30}},? ){{1,4}}(?:{_COMPANY})",
        0.6,
        longest=150,
        numeric=False,
    ),
)
