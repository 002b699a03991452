"""Rules for addresses and phone numbers spelled out in words, as people dictate them, in eight languages."""

from typing import Final

from backend.redaction.rules.everywhere import ROLES
from backend.redaction.rules.rule import Rule

# \u00ff is a letter beyond Latin-1 in normalised text.
_LETTER: Final = "0-9A-Za-z\u00c0-\u00ff"
_PART: Final = f"[{_LETTER}][{_LETTER}_-]{{0,32}}"
_DOTS: Final = "dot|punkt|point|punto|punt|ponto|kropka"
_SIGNS: Final = f"{_DOTS}|underscore|unterstrich|bindestrich|dash|hyphen|minus|tiret|guion|trattino|streepje"
_LOCAL: Final = rf"{_PART}(?:(?: (?i:{_SIGNS}) |\.){_PART}){{0,4}}"
_DOT: Final = rf"(?: (?i:{_DOTS}) |\.)"
_SPOKEN_DOMAIN: Final = f"{_PART}{_DOT}{_PART}(?:{_DOT}{_PART}){{0,3}}"
# Words that name the sign and nothing else beside a domain.
_AT: Final = "arobas(?:e|que)?|arroba|apenstaartje|ma\u00ffpa|klammeraffe|chiocciola"
# "at" is a word of its own: what stands before the last part must be the word for the dot in that language.
_PLAIN_AT: Final = rf"(?i:(?:at|ät)) {_PART}(?:(?: (?i:dot|punkt) |\.){_PART}){{0,3}} (?i:dot|punkt) [A-Za-z]{{2,10}}"

_DIGITS: Final = (
    "zero|oh|nought|one|two|three|four|five|six|seven|eight|nine|double|triple|"
    "null|eins|zwei|zwo|drei|vier|fünf|sechs|sieben|acht|neun|"
    "zéro|une?|deux|trois|quatre|cinq|sept|huit|neuf|"
    "cero|uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|"
    "nul|een|twee|drie|vijf|zes|zeven|negen|"
    "due|tre|quattro|cinque|sei|sette|otto|nove|um|dois|três|quatro|sete|oito|"
    "jeden|dwa|trzy|cztery|pi\u00ff\u00ff|sze\u00ff\u00ff|siedem|osiem|dziewi\u00ff\u00ff"
)
_TENS: Final = (
    "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|"
    "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|"
    "zehn|elf|zwölf|(?:drei|vier|fünf|sech|sieb|acht|neun)zehn|"
    "(?:(?:ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun)und)?(?:zwan|vier|fünf|sech|sieb|acht|neun)zig|"
    "(?:(?:ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun)und)?drei(?:ß|ss)ig|"
    "dix|onze|douze|treize|quatorze|quinze|seize|vingts?|trente|quarante|cinquante|soixante|"
    "diez|once|doce|trece|catorce|quince|veinte|treinta|cuarenta|cincuenta|sesenta|setenta|ochenta|noventa|"
    "tien|twaalf|dertien|veertien|vijftien|zestien|twintig|dertig|veertig|vijftig|zestig"
)
_NUMBER: Final = f"(?i:{_DIGITS}|{_TENS})"
_BETWEEN: Final = "(?:, |[ -])(?:(?i:et|y|und|and|e) )?"

_SIGN_WORDS: Final = frozenset(_SIGNS.split("|"))


def _is_of_person(text: str) -> bool:
    """Returns whether what stands before the sign is more than a role."""
    first, second, _ = text.lower().split(" ", 2)
    return first not in ROLES or second in _SIGN_WORDS


RULES: Final = (
    Rule(
        "EMAIL_ADDRESS",
        rf"{_LOCAL} (?i:{_AT}) {_SPOKEN_DOMAIN}",
        0.9,
        check=_is_of_person,
        longest=500,
        opening=rf"{_LOCAL} (?i:{_AT}) {_PART}",
        numeric=False,
        before=_LETTER,
        after=_LETTER,
    ),
    Rule(
        "EMAIL_ADDRESS",
        rf"{_LOCAL} {_PLAIN_AT}",
        0.9,
        check=_is_of_person,
        longest=500,
        opening=rf"{_LOCAL} (?i:at|ät) {_PART}(?: (?i:dot|punkt) |\.)",
        numeric=False,
        before=_LETTER,
        after=_LETTER,
    ),
    Rule(
        "PHONE_NUMBER",
        f"{_NUMBER}(?:{_BETWEEN}{_NUMBER}){{6,15}}",
        0.8,
        longest=420,
        opening=f"{_NUMBER}{_BETWEEN}{_NUMBER}{_BETWEEN}{_NUMBER}{_BETWEEN}{_NUMBER}",
        numeric=False,
        before=_LETTER,
        after=_LETTER,
    ),
)
