"""Entity types by the name of a column or key, for values that no pattern describes: names, places, groups."""

import functools
import re
from typing import Final

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BETWEEN: Final = re.compile(r"[^0-9A-Za-z\u0080-\U0010ffff]+")
_PERSONS: Final = (
    "customer|client|patient|employee|user|contact|account ?holder|card ?holder|holder|author|owner|manager|doctor|"
    "physician|student|teacher|applicant|beneficiary|guest|passenger|driver|tenant|signatory|spouse|parent|guardian|"
    "mother|father|emergency contact|person|member|recipient|sender|buyer|seller|billing|shipping|legal"
)
_NAMES: Final = (
    f"(?:first|last|middle|full|given|family|maiden|birth|sur|fore|(?:{_PERSONS})s?(?: full| first| last)?) ?names?|"
    "surname|forename|nachname|vorname|nom|prenom|apellidos?|cognome"
)
_PLACES: Final = (
    "(?:(?:home|work|street|postal|mailing|billing|shipping|delivery|residential)? ?address(?: ?line)?(?: ?[0-9])?)|"
    "street|strasse|city|town|village|post ?code|postal ?code|zip|zip ?code|plz|birth ?place|place of birth|"
    "lat|lng|lon|latitude|longitude|geo ?location"
)
_GROUPS: Final = (
    "nationality|citizenship|ethnicity|ethnic ?group|race|religion|political ?(?:party|affiliation)|denomination"
)
LABEL_RULES: Final = (
    ("PERSON", _NAMES, 0.85),
    ("PERSON", f"names?|nombre|(?:{_PERSONS})s?", 0.6),
    ("LOCATION", _PLACES, 0.85),
    ("LOCATION", "country|state|region|province|county|location|place|district", 0.6),
    ("ORGANIZATION", "company(?: ?name)?|organi[sz]ation(?: ?name)?|employer(?: ?name)?|firma", 0.85),
    ("ORGANIZATION", "vendor|supplier|manufacturer|school|university|hospital|bank", 0.6),
    ("NRP", _GROUPS, 0.85),
    ("DATE_TIME", "dob|date ?of ?birth|birth ?date|birth ?day|born|birth ?year|year of birth", 0.85),
)
"""Entity type, pattern of the plain names of columns and keys, score."""
_PATTERNS: Final = tuple((entity, re.compile(words), score) for entity, words, score in LABEL_RULES)

_ANY: Final = re.compile("|".join(words for _, words, _ in LABEL_RULES))


@functools.lru_cache(maxsize=4096)
def plain_label(name: str) -> str:
    """Returns the name of a column or key as words: `customerSSN` and `customer_ssn` are "customer ssn"."""
    return _BETWEEN.sub(" ", _HUMP.sub(" ", name[:200])).strip().lower()


@functools.lru_cache(maxsize=4096)
def label_entities(label: str) -> tuple[tuple[str, float], ...]:
    """Returns the entity types, with scores, that a plain label gives to every whole value under it."""
    if _ANY.fullmatch(label) is None:
        return ()
    return tuple((entity, score) for entity, pattern, score in _PATTERNS if pattern.fullmatch(label))
