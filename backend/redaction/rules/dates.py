"""Rules for dates and times, in figures and in words of nine languages."""

from typing import Final

from backend.redaction.rules.rule import Rule

_YEAR: Final = "(?:19|20)[0-9]{2}"
_MONTH: Final = "(?:0[1-9]|1[0-2])"
_DAY: Final = "(?:0[1-9]|[12][0-9]|3[01])"
_LOOSE_MONTH: Final = "(?:0?[1-9]|1[0-2])"
_LOOSE_DAY: Final = "(?:0?[1-9]|[12][0-9]|3[01])"
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]{1,9})?)?"
_ZONE: Final = "(?: ?(?:Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2}))?"
_ENGLISH: Final = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?"
)
_OTHERS: Final = (
    # German, French, Spanish
    "januar|jänner|februar|märz|mai|juni|juli|oktober|okt|dezember|dez|"
    "janvier|janv|février|févr|mars|avril|avr|juin|juillet|juil|août|septembre|octobre|novembre|décembre|déc|"
    "enero|febrero|marzo|abril|mayo|junio|julio|agosto|sep?tiembre|octubre|noviembre|diciembre|"
    # Italian, Dutch, Portuguese, Polish
    "gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre|"
    "januari|februari|maart|mei|augustus|"
    "janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro|"
    "stycznia|lutego|marca|kwietnia|maja|czerwca|lipca|sierpnia|wrze\u00ffnia|pa\u00ffdziernika|listopada|grudnia|"
    # Shortened, where a year follows
    "mrz|jän|févr?|juil|ene|abr|ago|dic|gen|mag|giu|lug|set|ott|mrt|fev|out|"
    "sty|lut|kwi|maj|cze|lip|sie|wrz|pa\u00ff|lis|gru|märz"
)
_MONTH_NAME: Final = rf"(?i:{_ENGLISH})\.?"
_ANY_MONTH_NAME: Final = rf"(?i:{_ENGLISH}|{_OTHERS})\.?"
_ORDINAL: Final = r"(?:st|nd|rd|th|er|re|e|\.|º|°)?"
_OF: Final = "(?:of |de |d'|di |do )?"
_BORN: Final = (
    "dob|d\\.o\\.b\\.?|born|birth|birth ?date|birth ?day|date ?of ?birth|geboren|geb|geburtsdatum|geburtstag|"
    "née?|naissance|"
    "nacid[oa]|"
    "nací|nacimiento|f\\. ?nac\\.?|nasc\\.?|ur\\.|geb\\.|nat[oa]|nascita|nascid[oa]|nascimento|geboortedatum|"
    "urodzon[ya]|urodzenia"
)
# The time of a line of a log: it begins the line, or follows its name there, and more follows it.
_BEGINS_LOG: Final = (
    r"(?:(?m:^)|(?<=(?m:^)[\[(<])|(?<=(?m:^)\W\[)|(?<=(?m:^)ts=)|"
    r"(?<=(?m:^)time=)|(?<=(?m:^)time=\")|(?<=(?m:^)timestamp=))"
)
_LOGGED: Final = (
    rf"{_BEGINS_LOG}(?:{_LOOSE_DAY}[./-](?:{_LOOSE_MONTH}|[A-Z][a-z]{{2}})[./-]{_YEAR}[T ,:]{{1,2}}|"
    rf"{_YEAR}[-/.]{_LOOSE_MONTH}[-/.]{_LOOSE_DAY}[Tt ,]{{1,2}})[0-2][0-9]:[0-5][0-9](?::[0-5][0-9])?"
    rf"(?:[.,][0-9]{{1,9}})?{_ZONE}[\"\])>]?[,;:|]?[\t ]{{1,4}}[^\s]"
)
# The time in a header of a mail, such as Date and Received.
_IN_HEADER: Final = (
    r"(?:(?<=Date: [A-Z][a-z]{2}, )|(?<=; [A-Z][a-z]{2}, )|(?<=;\n[ \t][A-Z][a-z]{2}, )|(?<=;\r\n[ \t][A-Z][a-z]{2}, ))"
    rf"[0-9]{{1,2}} [A-Z][a-z]{{2}} {_YEAR} [0-2][0-9]:[0-5][0-9]:[0-5][0-9] (?:[+-][0-9]{{4}}|[A-Z]{{3}})"
)
_NOT_LOGGED: Final = f"(?!{_LOGGED})"

_ORDINAL_WORDS: Final = (
    "(?i:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|thirteenth|fourteenth|"
    "fifteenth|sixteenth|seventeenth|eighteenth|nineteenth|twentieth|thirtieth|"
    "twenty[ -](?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth)|thirty[ -]first)"
)
_UNITS: Final = "one|two|three|four|five|six|seven|eight|nine"
_TENS: Final = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_TEENS: Final = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_YEAR_WORDS: Final = (
    f"(?i:(?:nineteen|twenty)[ -](?:hundred|oh[ -](?:{_UNITS})|(?:{_TENS})(?:[ -](?:{_UNITS}))?|{_TEENS})|"
    f"two thousand(?: and)?(?: (?:(?:{_TENS})(?:[ -](?:{_UNITS}))?|{_TEENS}|{_UNITS}))?)"
)
_SHORT_YEAR_WORDS: Final = f"(?i:(?:{_TENS})[ -](?:{_UNITS}))"
_GERMAN_ORDINALS: Final = (
    "(?i:erste|zweite|dritte|vierte|fünfte|sechste|siebte|siebente|achte|neunte|zehnte|elfte|zwölfte|"
    "(?:drei|vier|fünf|sech|sieb|acht|neun)zehnte|zwanzigste|drei(?:ß|ss)igste|"
    "(?:ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun)undzwanzigste|einunddrei(?:ß|ss)igste)[rn]?"
)
RULES: Final = (
    Rule(
        "DATE_TIME",
        f"{_NOT_LOGGED}{_YEAR}-{_MONTH}-{_DAY}(?:[Tt ]{_CLOCK}{_ZONE})?",
        0.9,
        after="0-9",
        opening=f"{_YEAR}-{_MONTH}-{_DAY}",
    ),
    Rule(
        "DATE_TIME",
        f"{_NOT_LOGGED}{_YEAR}[/.]{_LOOSE_MONTH}[/.]{_LOOSE_DAY}(?: {_CLOCK})?",
        0.85,
        before="0-9A-Za-z./",
        opening=f"{_YEAR}[/.]{_LOOSE_MONTH}[/.]{_LOOSE_DAY}",
    ),
    Rule(
        "DATE_TIME",
        f"{_NOT_LOGGED}(?:{_LOOSE_DAY}[/.-]{_LOOSE_MONTH}|{_LOOSE_MONTH}[/.-]{_LOOSE_DAY})[/.-]{_YEAR}(?:,? {_CLOCK})?",
        0.85,
        opening=f"(?:{_LOOSE_DAY}[/.-]{_LOOSE_MONTH}|{_LOOSE_MONTH}[/.-]{_LOOSE_DAY})[/.-]{_YEAR}",
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
        f"(?!{_IN_HEADER}){_LOOSE_DAY}{_ORDINAL}[ -]{_OF}{_ANY_MONTH_NAME},?[ -](?:del? |do )?{_YEAR}(?:,? {_CLOCK})?",
        0.9,
        opening=f"{_LOOSE_DAY}{_ORDINAL}[ -]{_OF}{_ANY_MONTH_NAME},?[ -](?:del? |do )?{_YEAR}",
    ),
    Rule(
        "DATE_TIME",
        rf"(?!{_BEGINS_LOG}[A-Z][a-z]{{2}} {_LOOSE_DAY} {_YEAR} {_CLOCK}[\])]?:? [^\s])"
        f"{_ANY_MONTH_NAME} (?:the )?{_LOOSE_DAY}(?:st|nd|rd|th)?,? {_YEAR}(?:,? {_CLOCK})?",
        0.9,
        opening=f"{_ANY_MONTH_NAME} (?:the )?{_LOOSE_DAY}(?:st|nd|rd|th)?,? {_YEAR}",
    ),
    # With the day, or the day and the year, in words.
    Rule(
        "DATE_TIME",
        f"{_ORDINAL_WORDS} (?:day )?(?:of )?{_MONTH_NAME},? (?:in )?(?:{_YEAR}|{_YEAR_WORDS}|{_SHORT_YEAR_WORDS})",
        0.9,
        opening=f"{_ORDINAL_WORDS} (?:day )?(?:of )?{_MONTH_NAME}",
        numeric=False,
    ),
    Rule(
        "DATE_TIME",
        f"{_GERMAN_ORDINALS} {_ANY_MONTH_NAME} {_YEAR}",
        0.9,
        opening=f"{_GERMAN_ORDINALS} {_ANY_MONTH_NAME}",
    ),
    Rule("DATE_TIME", f"{_MONTH_NAME},? {_YEAR}", 0.6),
    Rule("DATE_TIME", f"{_LOOSE_DAY}{_ORDINAL} {_OF}{_ANY_MONTH_NAME}", 0.55, 0.85, _BORN),
    Rule("DATE_TIME", f"{_MONTH_NAME} {_LOOSE_DAY}(?:st|nd|rd|th)?", 0.55, 0.85, _BORN),
    Rule(
        "DATE_TIME",
        f"{_LOOSE_DAY}{_ORDINAL}[ -]{_OF}{_ANY_MONTH_NAME}[ -](?:del? |do )?'?[0-9]{{2}}",
        0.0,
        0.85,
        _BORN,
    ),
    # Chinese, Japanese and Korean dates, the signs of which are read as letters; and Cyrillic and Greek months.
    Rule(
        "DATE_TIME",
        f"{_YEAR} ?\u00ff ?{_LOOSE_MONTH} ?\u00ff ?{_LOOSE_DAY} ?\u00ff",
        0.85,
        opening=f"{_YEAR} ?\u00ff ?[0-9]",
        after="",
    ),
    Rule("DATE_TIME", f"{_LOOSE_DAY} [A-Za-z\u00ff]{{0,12}}\u00ff[A-Za-z\u00ff]{{0,12}} {_YEAR}", 0.85),
    Rule("DATE_TIME", _CLOCK, 0.5, before="0-9A-Za-z:.", after="0-9A-Za-z:"),
    Rule("DATE_TIME", f"{_YEAR}{_MONTH}{_DAY}", 0.0, 0.85, _BORN),
)
