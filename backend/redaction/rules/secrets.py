"""Rules for secrets: keys and tokens of known prefixes, passwords in addresses, and values assigned to such names."""

import re
from typing import Final

from backend.redaction.rules.rule import AFTER_SIGN, BEFORE_SIGN, Rule, for_opening

# Prefixes that services give to their keys and tokens, with what follows.
_KEYS: Final = (
    "(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}|gh[pousr]_[0-9A-Za-z]{36,200}|github_pat_[0-9A-Za-z_]{40,120}|"
    "gl(?:pat|ptt|dt|rt|cbt|soat)-[0-9A-Za-z_-]{20,60}|xox[abeoprs]-[0-9A-Za-z-]{10,200}|"
    "(?:sk|rk|pk|whsec)_(?:live_|test_)?[0-9A-Za-z]{16,120}|sk-(?:proj-|ant-|svcacct-|or-)?[0-9A-Za-z_-]{20,200}|"
    "AIza[0-9A-Za-z_-]{35}|ya29\\.[0-9A-Za-z_-]{20,200}|npm_[0-9A-Za-z]{36}|pypi-[0-9A-Za-z_-]{50,250}|"
    "SG\\.[0-9A-Za-z_-]{16,32}\\.[0-9A-Za-z_-]{16,64}|SK[0-9a-f]{32}|key-[0-9a-f]{32}|[0-9a-f]{32}-us[0-9]{1,2}|"
    "[0-9]{8,10}:AA[0-9A-Za-z_-]{33}|do[opr]_v1_[0-9a-f]{64}|hf_[0-9A-Za-z]{30,40}|dapi[0-9a-f]{32}|"
    "sq0[a-z]{3}-[0-9A-Za-z_-]{22,60}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|AKC[0-9A-Za-z]{10,80}|"
    "hv[sb]\\.[0-9A-Za-z_-]{20,200}|(?:AGE-SECRET-KEY|age-secret-key)-(?:(?:PQ|pq)-)?1[0-9A-Za-z]{40,120}|ak_[0-9A-Za-z]{6,64}\\.[0-9A-Za-z_-]{16,256}|"
    "eyJ[0-9A-Za-z_-]{8,500}\\.eyJ[0-9A-Za-z_-]{8,800}\\.[0-9A-Za-z_-]{10,500}"
)
_NAMES: Final = (
    "(?:pg)?pass(?:word|wd|phrase|code|wort)|pwd|secret|api[ _-]?key|apikey|"
    "(?:access|auth|refresh|bearer|api|session|bot|id)[ _-]?token|"
    "token|secret[ _-]?(?:access[ _-]?)?key|client[ _-]?secret|private[ _-]?key|"
    "pre[ _-]?shared[ _-]?key|access[ _-]?key|account[ _-]?key|"
    "encryption[ _-]?key|azure[ _-]?key|session[ _-]?(?:id|key)|signing[ _-]?key|kennwort|passwort|mot de "
    "passe|parola d'ordine|palavra-passe|contraseña|clave|senha|wachtwoord|has\u00ffo"
)
_BETWEEN: Final = f"[\"']?(?:{BEFORE_SIGN}(?::|=|:=|=>)| is| lautet| est| es){AFTER_SIGN}[\"']?"
# What may stand before a line of a key: an indent, marks of quotes and comments.
_MARGIN: Final = "(?m:^)[ \t>#*/|;]{0,12}"
_LINE_ABOVE: Final = f"{_MARGIN}[0-9A-Za-z+/]{{64,76}}[ \\t]{{0,4}}\\r?\\n"
_BETWEEN_QUOTED: Final = f"[\"']?{BEFORE_SIGN}(?::|=|:=|=>){AFTER_SIGN}"
_CHARACTER: Final = "[^\\x00-\\x20\"'<>;,|`]"
# A sentence goes on after a secret.
_LAST: Final = "[^\\x00-\\x20\"'<>;,|`.:)\\]}]"
# What stands for a secret, or reads it from elsewhere.
_NO_SECRET: Final = re.compile(
    r"[$%{\[(<]|.*(?:\(|\[|\{\{|&[a-z])|(?i:none|null|true|false|undefined|required|optional|changeme|example|password|"
    r"passwd|secret|token|user|xxx+|\*+|\.+|redacted)(?![0-9A-Za-z])"
)
_NAMES_A_SECRET: Final = re.compile("[A-Za-z]+(?:[-_./:][A-Za-z]+)*[.!?:]?")


# What short names are set to beside passwords: names of ways, counts and sizes, fields of objects.
_NO_SHORT_SECRET: Final = re.compile(
    "[a-z]+[0-9]?(?:[-_./:][a-z0-9]+)*|[0-9]+(?:[.,/:-][0-9]+)*(?:[a-zA-Z%]{1,4}|(?:of|/|x)[0-9]+)?|[A-Z]+[-_]?[0-9]+|"
    "[a-z][A-Za-z0-9]*(?:\\.[a-z_][A-Za-z0-9_]*)+"
)
_MIXED: Final = re.compile("(?=[^0-9]*[0-9])[^A-Za-z]*[A-Za-z]")
_MIXED_WORD: Final = re.compile("(?<![^ ])(?=[^ ]{0,40}[0-9])(?=[^ ]{0,40}[A-Za-z])[^ ]{4,}(?![^ ])")


def _is_password(text: str) -> bool:
    """Returns whether a text is no placeholder of a password."""
    return _NO_SECRET.match(text) is None


def _is_base64(text: str) -> bool:
    """Returns whether a text has letters of either case and a digit: hexadecimal digits and paths have not."""
    return text.lower() != text != text.upper() and any(map(str.isdigit, text))


def _may_be_secret(text: str) -> bool:
    """Returns whether a text is no placeholder, and has more than words in it."""
    return _is_password(text) and _NAMES_A_SECRET.fullmatch(text) is None and len(set(text)) > 3


def _is_short_named(text: str) -> bool:
    """Returns whether a text is a secret under names as short as `pass`, which are those of other things too."""
    return _may_be_secret(text) and _NO_SHORT_SECRET.fullmatch(text) is None and _MIXED.match(text) is not None


def _is_key(text: str) -> bool:
    """Returns whether a text has letters of either case and a digit."""
    return _is_short_named(text) and text.lower() != text != text.upper()


def _is_quoted_secret(text: str) -> bool:
    """Returns whether a text of several words is a secret: one of few words has digits among its letters."""
    return _may_be_secret(text) and text.count(" ") < 5 and _MIXED_WORD.search(text) is not None


RULES: Final = (
    Rule("SECRET", _KEYS, 0.95, longest=2_000, after="0-9A-Za-z_-", before="0-9A-Za-z_"),
    Rule(
        "SECRET",
        "[a-z][0-9a-z+.-]{1,20}://[^\\x00-\\x20:@/\"'<>]{0,64}:([^\\x00-\\x20@/\"'<>]{1,128})@",
        0.95,
        check=_is_password,
        longest=230,
        numeric=False,
        after="",
    ),
    Rule(
        "SECRET",
        f"(?i:{_NAMES}){_BETWEEN}({_CHARACTER}{{5,199}}{_LAST})",
        0.85,
        check=_may_be_secret,
        longest=300,
        opening=for_opening(f"(?i:{_NAMES}){_BETWEEN}{_CHARACTER}{{6}}"),
        numeric=False,
        before="0-9A-Za-z",
        after="",
    ),
    *(
        Rule(
            "SECRET",
            f"(?i:{names})[\"']?{BEFORE_SIGN}[:=]{AFTER_SIGN}[\"']?({_CHARACTER}{{5,127}}{_LAST})",
            0.85,
            check=check,
            longest=200,
            opening=for_opening(f"(?i:{names})[\"']?{BEFORE_SIGN}[:=]{AFTER_SIGN}[\"']?{_CHARACTER}{{6}}"),
            numeric=False,
            after="",
        )
        for names, check in (("pass|pw", _is_short_named), ("auth", _is_key))
    ),
    # In quotes, where it may hold blanks and follow its name with no sign between.
    Rule(
        "SECRET",
        f'(?i:{_NAMES})(?:{_BETWEEN_QUOTED}|[ ])"([^"\\x00-\\x1f]{{6,100}})(?=")',
        0.85,
        check=_is_quoted_secret,
        longest=200,
        opening=for_opening(f'(?i:{_NAMES})(?:{_BETWEEN_QUOTED}|[ ])"'),
        numeric=False,
        after="",
    ),
    # In arguments of commands.
    *(
        Rule(
            "SECRET",
            f"{command}[\"']?({_CHARACTER}{{3,127}}{_LAST})",
            0.85,
            check=check,
            longest=300,
            opening=opening,
            numeric=False,
            after="",
        )
        for command, opening, check in (
            ("curl [^\n|;]{0,60}?(?:-u|--user)[ =]?[\"']?[^\\x00-\\x20:\"'/]{1,64}:", "curl ", _is_password),
            ("mysql[a-z]{0,8} [^\n|;]{0,60}?(?<= )-p", "mysql[a-z]{0,8} ", _is_password),
            (f"--(?i:{_NAMES})[ ]", f"--(?i:{_NAMES})[ ]", _may_be_secret),
        )
    ),
    Rule(
        "SECRET",
        f"(?i:authorization|proxy-authorization)[\"']?{BEFORE_SIGN}[:=]{AFTER_SIGN}[\"']?"
        "(?i:bearer|basic|token|digest) ([0-9A-Za-z._~+/=-]{8,800})",
        0.95,
        longest=900,
        opening=for_opening(f"(?i:authorization|proxy-authorization)[\"']?{BEFORE_SIGN}[:=]"),
        numeric=False,
        after="",
    ),
    # Lines of a key that stand alone, and its last one; `secret_blocks` finds whole keys.
    *(
        Rule(
            "SECRET",
            f"{begun}({line})(?=[ \t]{{0,4}}\r?(?m:$))",
            0.8,
            check=_is_base64,
            opening=opening,
            longest=300,
            numeric=False,
            before="",
            after="",
        )
        for begun, line, opening in (
            (_MARGIN, "[0-9A-Za-z+/]{64,76}", f"{_MARGIN}[0-9A-Za-z+/]{{64}}"),
            (_LINE_ABOVE + _MARGIN, "[0-9A-Za-z+/]{1,76}={0,2}", _LINE_ABOVE),
        )
    ),
)
