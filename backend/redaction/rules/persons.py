"""Rules for names of people, which are found by what stands before: a title, a field, a salutation, a closing."""

import re
from typing import Final

from backend.redaction.rules.name_forms import (
    BEGIN,
    CAPITAL_FIRST,
    CAPITAL_NAMES,
    FAMILY_FIRST,
    FAMILY_LAST,
    FULL_CAPITALS,
    FULL_NAMES,
    LONGEST,
    LOWER,
    NAME,
    NAMES,
    NEXT,
    PARTICLES,
    UPPER,
    may_be_person,
)
from backend.redaction.rules.name_words import (
    BELOW_FIELDS,
    CAPITAL_TITLES,
    CLOSINGS,
    FULL_CAPITAL_TITLES,
    FULL_TITLES,
    INITIAL_TITLES,
    INTRODUCTIONS,
    NAME_FIELDS,
    NO_CAPITAL_NAME,
    NO_FULL_NAME,
    PARTICIPANTS,
    PHRASES,
    RELATIONS,
    ROLE_FIELDS,
    SALUTATIONS,
    THANKS,
    TITLES,
)
from backend.redaction.rules.rule import AFTER_SIGN, BEFORE_SIGN, Rule, for_opening

_MARGIN: Final = '(?m:^)[ \t>"]{0,4}'
# Atomic: nothing that follows can begin with these characters, so backtracking is useless.
_BREAKS: Final = "(?>[ \t]{0,2}\r?\n(?:[ \t>]{0,4}\r?\n){0,4}[ \t>]{0,4})"
_TITLED: Final = f"(?:(?:{TITLES}|i\\. ?[AV]|ppa)\\.? ){{0,2}}"
_LINE_END: Final = '[ \t]{0,2}"?\r?(?m:$)'
_ROLE: Final = f"(?: [-/|(]|[,|]|{_LINE_END})"
_SIGNER: Final = rf"(?:[A-Z]\.[ -]?){{0,3}}{PARTICLES}{NAME}{NEXT}{{0,4}}"
_FULL_SIGNER: Final = rf"(?:{NAME}{NEXT}{{1,5}}|(?:[A-Z]\.[ -]?){{1,3}}{PARTICLES}{NAME}{NEXT}{{0,4}})"
_OPENS: Final = "(?:[\"']|\\*\\*)?"
_IS: Final = f"[\"']?{BEFORE_SIGN}[:=]{AFTER_SIGN}{_OPENS}"
_COLON: Final = f"[\"']?{BEFORE_SIGN}:{AFTER_SIGN}{_OPENS}"
_CLOCK: Final = r"[0-2]?[0-9][:.][0-5][0-9](?:[:.][0-5][0-9])?(?: ?[AaPp][Mm])?"
# Names before an address in angle brackets, read backwards.
_WORD_BACKWARDS: Final = f"(?:[a-z{LOWER}A-Z{UPPER}'-]{{0,40}}[A-Z{UPPER}\u00ff]|\\.[A-Z])"
_BACKWARDS: Final = re.compile(
    f'{_WORD_BACKWARDS}(?: ,?(?:{_WORD_BACKWARDS}|[a-z]{{1,5}}(?= ))){{0,4}}(?=["\\s:;,<]|$)'
)


def _name_start(text: str, at: int) -> int:
    """Returns where the name begins that ends at a place; the place itself if there is none."""
    line = max(text.rfind("\n", 0, at) + 1, at - 120)
    found = _BACKWARDS.match(text[line:at][::-1])
    if found is None or not may_be_person(text[at - found.end() : at].strip('"')):
        return at
    return at - found.end()


def _signed(closing: str, signer: str, end: str, score: float) -> Rule:
    """Returns the rule of a signature: a name at the start of a line below the line that closes a letter."""
    return Rule(
        "PERSON",
        f"{_MARGIN}+(?=[a-zA-Z-])(?i:{closing}){_BREAKS}{_TITLED}({signer}){end}",
        score,
        check=may_be_person,
        longest=LONGEST,
        opening=f"{_MARGIN}(?i:{closing})",
        numeric=False,
        before="",
        after="",
    )


def _after(
    words: str,
    name: str,
    score: float,
    *,
    end: str = "",
    begin: str = BEGIN,
    before: str = "0-9A-Za-z",
    unless: str = "",
) -> Rule:
    """Returns the rule of a name that follows words, unless these follow what `unless` looks back for."""
    return Rule(
        "PERSON",
        f"{unless}{words}({name}){end}",
        score,
        check=may_be_person,
        longest=LONGEST,
        opening=for_opening(f"{words}{begin}"),
        numeric=False,
        before=before,
        after="" if end else "0-9A-Za-z",
    )


# Words before "name" with which it is that of a thing; looked for only where a field may begin.
_THING: Final = f"(?=[A-Za-z{UPPER}{LOWER}])" + "".join(
    f"(?<![{word[0].upper()}{word[0]}]{word[1:]}{between})"
    for word in (
        *(
            "product",
            "file",
            "class",
            "team",
            "company",
            "event",
            "table",
            "column",
            "field",
            "project",
            "host",
        ),
        *(
            "display",
            "brand",
            "group",
            "service",
            "model",
            "type",
            "tag",
            "key",
            "step",
            "job",
            "task",
            "branch",
            "domain",
        ),
        *(
            "package",
            "function",
            "method",
            "variable",
            "server",
            "cluster",
            "module",
            "app",
            "device",
            "bucket",
            "queue",
        ),
    )
    for between in (" ", "_", "-")
)

_ANY_FORM: Final = f"(?:{FAMILY_FIRST}|{CAPITAL_FIRST}|{FAMILY_LAST}|{NAMES}|{CAPITAL_NAMES})"
_FULL_FORM: Final = f"(?:{FAMILY_FIRST}|{CAPITAL_FIRST}|{FAMILY_LAST}|{FULL_NAMES}|{FULL_CAPITALS})"

RULES: Final = (
    _after(
        rf"(?:{INITIAL_TITLES}|(?:{TITLES})\.?) (?:(?:{TITLES})\.? ){{0,2}}",
        f"(?:{FAMILY_LAST}|{NAMES}|{CAPITAL_NAMES})",
        0.85,
    ),
    _after(f"(?:{FULL_TITLES}) ", f"{NO_FULL_NAME}{FULL_NAMES}", 0.85),
    _after(rf"(?:{CAPITAL_TITLES})\.? ", CAPITAL_NAMES, 0.85),
    _after(rf"(?:{FULL_CAPITAL_TITLES})\.? ", f"{NO_CAPITAL_NAME}{FULL_CAPITALS}", 0.85),
    _after(f"(?:{PHRASES}) ", NAMES, 0.85),
    _after(f"(?:{RELATIONS}),? ", NAMES, 0.85),
    _after(f"(?:{INTRODUCTIONS}) [\"'(\u00ab]?", f"(?:{FULL_NAMES}|{FAMILY_LAST})", 0.8),
    # The second to fourth of several names after a field.
    *(
        _after(
            f"(?i:{PARTICIPANTS})[ ]?[:=]{AFTER_SIGN}(?:[^\n,;]{{1,36}}[,;] ){{{names}}}(?:(?:and|und|et|y|e|en|i) )?",
            FULL_NAMES,
            0.8,
        )
        for names in (1, 2, 3)
    ),
    # Names in the parameters of an address.
    _after(
        "[?&](?i:(?:first|last|full|sur|given|family|user|customer)?_?name|nombre|nom|nome|naam|vorname|nachname)=",
        f"{NAME}(?:(?:[+]|%20){NAME}){{0,3}}",
        0.8,
        before="",
    ),
    # One word behind a key that names nothing else, as logs have it.
    _after(
        "(?i:(?:first|last|full|sur|given|family)[_-]?name|forename|vorname|nachname|familienname|prénom|prenom|"
        "apellidos?|cognome|achternaam|voornaam|nazwisko|sobrenome|apelido)=[\"']?",
        NAMES,
        0.8,
    ),
    # Who speaks in a transcript.
    _after(
        rf"{_MARGIN}(?:\[?{_CLOCK}\]?(?: -)? )?(?i:agent|operator|speaker|moderator|{ROLE_FIELDS}) [(]",
        NAMES,
        0.8,
        end="[)] ?:",
        before="",
    ),
    # A name on the line below a field.
    _after(f"{_MARGIN}(?i:{BELOW_FIELDS}):?[ \t]{{0,2}}\r?\n[ \t>]{{0,4}}", _FULL_FORM, 0.8, end=_LINE_END, before=""),
    _after(f"(?i:{NAME_FIELDS}){_COLON}", _ANY_FORM, 0.8, before="0-9A-Za-z$_", unless=_THING),
    # In bold letters of Markdown, with a colon or without.
    _after(
        rf"{_MARGIN}(?:[-*+] )?\*\*(?i:{NAME_FIELDS})(?::\*\*|\*\*:?){AFTER_SIGN}",
        _ANY_FORM,
        0.8,
        before="",
    ),
    _after(f"(?i:{NAME_FIELDS}|{ROLE_FIELDS}){_IS}", _FULL_FORM, 0.8, unless=_THING),
    _after(f"(?i:{ROLE_FIELDS}){_COLON}", NAMES, 0.6),
    _after(f"{_MARGIN}(?:{SALUTATIONS}) ", NAMES, 0.8, end="[ ]?[,:!\r\n]", before=""),
    _after("(?:Dear|Regards,|Hi|Hello) ", NAMES, 0.6),
    # A line of a chat.
    _after(rf"(?m:^)(?:[0-9./-]{{6,10}},? )?\[?{_CLOCK}\]?(?: -)? <?", NAMES, 0.8, end=">?:? ", before=""),
    # A line of a list.
    _after(
        "(?m:^)[ \t]{0,4}(?:[-*] |[0-9]{1,3}[.)] )?",
        CAPITAL_FIRST,
        0.8,
        end=f"(?:[ ]?[;\t|(<]|{_LINE_END})",
        begin=f"[A-Z{UPPER}]'?[A-Z{UPPER}]{{2}}[A-Z{UPPER}' -]{{0,60}}, ?[A-Z{UPPER}][a-z]",
        before="",
    ),
    Rule(
        "PERSON",
        '()"? <[0-9A-Za-z.+_-]{1,64}@',
        0.85,
        widen=_name_start,
        opening='"? <[0-9A-Za-z.+_-]{1,64}@',
        numeric=False,
        before="",
        after="",
    ),
    _signed(f"(?:{CLOSINGS})[,.!]?", _SIGNER, _ROLE, 0.8),
    _signed(f"-- |(?:{THANKS}),", _SIGNER, _LINE_END, 0.8),
    _signed(f"-- |(?:{THANKS}),", _FULL_SIGNER, _ROLE, 0.8),
    _signed(f"--|(?:{THANKS})[.!]?", _SIGNER, _LINE_END, 0.6),
)
