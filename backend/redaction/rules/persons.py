"""Rules for names of people, which are found by what stands before: a title, a field, a salutation, a closing."""

from typing import Final

from backend.redaction.rules.rule import Rule

_UPPER: Final = "\u00c0-\u00de"
_LOWER: Final = "\u00df-\u00ff"
# Every letter beyond Latin-1 is read as \u00ff, upper case or lower.
_NAME: Final = f"(?:[A-Z{_UPPER}]|\u00ff[a-z])[a-z{_LOWER}]{{1,30}}"
_PARTICLES: Final = "(?:(?:van|von|de|der|den|da|di|la|le|bin|al|O'|Mc|Mac)[ ]?){0,2}"
_NEXT: Final = f"(?:[ -]{_PARTICLES}{_NAME}|[ ][A-Z]\\.)"
_LONGEST: Final = 350
_NAMES: Final = f"{_NAME}{_NEXT}{{0,4}}"
_BEGIN: Final = f"[A-Z{_UPPER}\u00ff]"
_TITLES: Final = "Mr|Mrs|Ms|Miss|Mx|Dr|Prof|Sir|Dame|Herr|Frau|Madame|Monsieur|Señor|Señora"
_FIELDS: Final = "[Nn]ame|[Pp]atient|[Ee]mployee|[Cc]ustomer|[Cc]ontact|[Aa]ttn|[Ss]igned by|[Aa]uthor"

# Lines that close a letter, in upper or lower case.
_CLOSINGS: Final = (
    "(?:with |many thanks and )?(?:my )?(?:very )?(?:best |kind |kindest |warm |warmest )?regards|"
    "(?:with )?(?:best|kind|warm) wishes|all the best|kind greetings|"
    "yours (?:very )?(?:sincerely|faithfully|truly)|(?:sincerely|respectfully|cordially)(?: yours)?|"
    "(?:mit )?(?:freundlich|best|herzlich|lieb|viel|schön)en? gr(?:ü|ue)(?:ß|ss)en?|"
    "mit (?:freundlich|best)em gru(?:ß|ss)|hochachtungsvoll|mfg|"
    "(?:bien |très )?cordialement|bien à vous|amicalement|respectueusement|"
    "(?:meilleures |sincères )?salutations(?: distinguées)?|sincèrement|"
    "(?:un )?(?:cordial )?saludos?(?: cordial(?:es)?)?|atentamente|cordialmente|"
    "(?:cordiali |distinti |cari )?saluti|un (?:cordiale )?saluto|"
    # This word has a letter beyond Latin-1.
    "z powa\u00ffaniem|z wyrazami szacunku|(?:serdecznie )?pozdrawiam|pozdrowienia|"
    "(?:met )?(?:vriendelijke |hartelijke )?groet(?:en)?|"
    "atenciosamente|(?:com os )?(?:melhores )?cumprimentos|"
    "(?:med )?vänliga? hälsning(?:ar)?|(?:med )?venn?lig hilsen|ystävällisin terveisin"
)
# Lines that also occur inside a letter.
_THANKS: Final = (
    "(?:many )?thanks(?: again| in advance| a lot| so much)?|thank you(?: so much| in advance)?|cheers|best|take care|"
    "(?:with )?love|(?:vielen )?danke?|lg|vg|mvh|merci(?: d'avance)?|(?:muchas )?gracias|grazie|abraços?"
)
# Words of signatures that name no person, and words that begin an ordinary line.
_NO_NAMES: Final = frozenset(
    (
        *("team", "support", "service", "services", "customer", "sales", "marketing", "office", "department", "group"),
        *("company", "staff", "bank", "management", "administration", "administrator", "admin", "system", "systems"),
        *("solutions", "software", "university", "hospital", "institute", "insurance", "foundation", "association"),
        *("committee", "council", "board", "inc", "llc", "ltd", "plc", "corp", "gmbh", "ag", "kundenservice"),
        *("vertrieb", "abteilung", "attachment", "attachments", "enclosure", "enclosures", "notes", "date", "subject"),
        *("phone", "tel", "mobile", "fax", "email", "mail", "website", "address", "contact", "the", "this", "that"),
        *("these", "your", "you", "our", "my", "we", "it", "and", "but", "for", "from", "sent", "please", "dear"),
        *("hello", "hi", "yes", "ok", "done", "great", "thanks", "thank", "wishes", "regards", "sincerely", "yours"),
    )
)
_MARGIN: Final = '(?m:^)[ \t>"]{0,4}'
# Atomic: nothing that follows can begin with these characters, so backtracking is useless.
_BREAKS: Final = "(?>[ \t]{0,2}\r?\n(?:[ \t>]{0,4}\r?\n){0,4}[ \t>]{0,4})"
_TITLED: Final = f"(?:(?:{_TITLES}|i\\. ?[AV]|ppa)\\.? ){{0,2}}"
_LINE_END: Final = '[ \t]{0,2}"?\r?(?m:$)'
_ROLE: Final = f"(?: [-/|(]|[,|]|{_LINE_END})"
_SIGNER: Final = rf"(?:[A-Z]\. ?){{0,3}}{_PARTICLES}{_NAMES}"
_FULL_SIGNER: Final = rf"(?:{_NAMES}{_NEXT}|(?:[A-Z]\. ?){{1,3}}{_PARTICLES}{_NAMES})"


def _signed(closing: str, signer: str, end: str, score: float) -> Rule:
    """Returns the rule of a signature: a name at the start of a line below the line that closes a letter."""
    return Rule(
        "PERSON",
        f"{_MARGIN}+(?=[a-zA-Z-])(?i:{closing}){_BREAKS}{_TITLED}({signer}){end}",
        score,
        check=_may_be_person,
        longest=_LONGEST,
        numeric=False,
        opening=f"{_MARGIN}(?i:{closing})",
        before="",
        after="",
    )


def _may_be_person(text: str) -> bool:
    return _NO_NAMES.isdisjoint(text.lower().replace("-", " ").split())


RULES: Final = (
    Rule(
        "PERSON",
        rf"(?:{_TITLES})\.? ({_NAMES})",
        0.85,
        longest=_LONGEST,
        numeric=False,
        opening=rf"(?:{_TITLES})\.? {_BEGIN}",
    ),
    Rule(
        "PERSON",
        rf"(?:{_FIELDS}): ?({_NAMES})",
        0.8,
        longest=_LONGEST,
        numeric=False,
        opening=f"(?:{_FIELDS}): ?{_BEGIN}",
    ),
    Rule(
        "PERSON",
        rf"(?:Dear|Regards,|Hi|Hello) ({_NAMES})",
        0.6,
        longest=_LONGEST,
        numeric=False,
        opening=f"(?:Dear|Regards,|Hi|Hello) {_BEGIN}",
    ),
    _signed(f"(?:{_CLOSINGS})[,.!]?", _SIGNER, _ROLE, 0.8),
    _signed(f"-- |(?:{_THANKS}),", _SIGNER, _LINE_END, 0.8),
    _signed(f"-- |(?:{_THANKS}),", _FULL_SIGNER, _ROLE, 0.8),
    _signed(f"--|(?:{_THANKS})[.!]?", _SIGNER, _LINE_END, 0.6),
)
