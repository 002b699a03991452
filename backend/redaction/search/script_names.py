"""Names of people in Cyrillic, Greek, Arabic, Chinese, Japanese and Korean letters, by titles and fields of these.

The rules read all such letters as one, so these names are looked for in the text as it stands, line by line.
"""

import re
from collections.abc import Iterator
from typing import Final

from backend.redaction.rules.rule import Value

_FIELD_SCORE: Final = 0.8
_TITLE_SCORE: Final = 0.85
_UPPER: Final = "\u0391-\u03ab\u0386-\u038f\u0401-\u042f\u0490"
_LOWER: Final = "\u03ac-\u03ce\u0430-\u045f\u0491\u02bc'\u2019"
_CASED: Final = f"[{_UPPER}][{_LOWER}]{{1,30}}(?:-[{_UPPER}][{_LOWER}]{{1,30}})?"
_INITIAL: Final = f"(?:[{_UPPER}]\\. ?)"
_CASED_NAMES: Final = f"{_INITIAL}{{0,2}}{_CASED}(?: {_CASED}){{0,3}}(?: ?{_INITIAL}{{1,2}})?"
_ARABIC: Final = "[\u0621-\u064a\u0671-\u06d3]{2,20}"
_HAN: Final = "[\u4e00-\u9fff\u3005]"
_CJK: Final = "[\u3005\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7a3]"
_ANY_NAMES: Final = (
    f"(?:{_CASED_NAMES}|{_ARABIC}(?: {_ARABIC}){{0,4}}|{_CJK}{{2,12}}(?:[ \u3000\u30fb\u00b7]{_CJK}{{1,12}}){{0,2}})"
)
_FIELDS: Final = (
    # Russian, Ukrainian
    "\u0424\u0418\u041e|\u0424\\.\u0418\\.\u041e\\.|\u041f\u0406\u0411|\u0418\u043c\u044f|\u0406\u043c[\u02bc'\u2019]\u044f|\u0424\u0430\u043c\u0438\u043b\u0438\u044f|\u041f\u0440\u0456\u0437\u0432\u0438\u0449\u0435|\u041e\u0442\u0447\u0435\u0441\u0442\u0432\u043e|\u041a\u043b\u0438\u0435\u043d\u0442|\u041a\u043b\u0456\u0454\u043d\u0442|\u041f\u0430\u0446\u0438\u0435\u043d\u0442|"
    "\u041f\u043e\u043b\u0443\u0447\u0430\u0442\u0435\u043b\u044c|"
    "\u041e\u0442\u043f\u0440\u0430\u0432\u0438\u0442\u0435\u043b\u044c|"
    "\u041a\u043e\u043d\u0442\u0430\u043a\u0442\u043d\u043e\u0435 \u043b\u0438\u0446\u043e|"
    "\u0421\u043e\u0442\u0440\u0443\u0434\u043d\u0438\u043a|\u0412\u0440\u0430\u0447|"
    "\u0417\u0430\u043a\u0430\u0437\u0447\u0438\u043a|"
    # Greek
    "\u038c\u03bd\u03bf\u03bc\u03b1|\u0395\u03c0\u03ce\u03bd\u03c5\u03bc\u03bf|\u039f\u03bd\u03bf\u03bc\u03b1\u03c4\u03b5\u03c0\u03ce\u03bd\u03c5\u03bc\u03bf|\u03a0\u03b5\u03bb\u03ac\u03c4\u03b7\u03c2|\u0391\u03c3\u03b8\u03b5\u03bd\u03ae\u03c2|\u03a0\u03b1\u03c1\u03b1\u03bb\u03ae\u03c0\u03c4\u03b7\u03c2|"
    # Arabic
    "(?:\u0627\u0644)?\u0627\u0633\u0645(?: \u0627\u0644\u0643\u0627\u0645\u0644| "
    "\u0627\u0644\u0639\u0645\u064a\u0644)?|\u0627\u0644\u0644\u0642\u0628|"
    "\u0627\u0644\u0639\u0645\u064a\u0644|\u0627\u0644\u0645\u0631\u064a\u0636|"
    # Chinese, Japanese, Korean
    "\u59d3\u540d|\u540d\u5b57|\u5ba2\u6237|\u5ba2\u6236|\u60a3\u8005|\u8054\u7cfb\u4eba|\u806f\u7d61\u4eba|\u6536\u4ef6\u4eba|\u7533\u8bf7\u4eba|"
    "\u6c0f\u540d|\u304a?\u540d\u524d|\u62c5\u5f53\u8005|\u5b9b\u540d|\uc774\ub984|\uc131\uba85|\uc131\ud568|\uace0\uac1d\uba85?|\ud658\uc790|\ub2f4\ub2f9\uc790|\uc218\uc2e0\uc778"
)
_TITLES: Final = (
    "\u0433-\u043d|\u0433-\u0436\u0430|\u0413-\u043d|\u0413-\u0436\u0430|[\u0413\u0433]\u043e\u0441\u043f\u043e\u0434\u0438\u043d(?:\u0443|\u0430|\u043e\u043c)?|[\u0413\u0433]\u043e\u0441\u043f\u043e\u0436(?:\u0430|\u0435|\u0443|\u043e\u0439)|[\u0414\u0434]\u043e\u043a\u0442\u043e\u0440(?:\u0430|\u0443)?|[\u041f\u043f]\u0440\u043e\u0444\u0435\u0441\u0441\u043e\u0440(?:\u0430|\u0443)?|"
    "[\u0423\u0443]\u0432\u0430\u0436\u0430\u0435\u043c(?:\u044b\u0439|\u0430\u044f)|[\u041f\u043f]\u0430\u043d(?:\u0456|\u0443)?|[\u0417\u0437]\u043e\u0432\u0443\u0442|"
    "[\u039a\u03ba](?:\u03cd\u03c1\u03b9\u03bf|\u03c5\u03c1\u03af)(?:\u03c2|\u03b5|\u03b1|\u03b1\u03c2|\u03bf\u03c5)?|[\u039a\u03ba](?:\u03b1)?\\.|[\u039a\u03ba]\u03b1|\u0394\u03c1\\.?|[\u039a\u03ba]\u03b1\u03b8\u03b7\u03b3\u03b7\u03c4\u03ae(?:\u03c2)?"
)
_ARABIC_TITLES: Final = (
    "\u0627\u0644\u0633\u064a\u062f\u0629?|\u0627\u0644\u0622\u0646\u0633\u0629|"
    "\u0627\u0644\u062f\u0643\u062a\u0648\u0631\u0629?|\u0627\u0644\u0623\u0633\u062a\u0627\u0630\u0629?|"
    "\u062f\\.|\u0627\u0644\u0645\u0647\u0646\u062f\u0633|\u0627\u0633\u0645\u064a"
)
_SURNAMES: Final = (
    "\u738b\u674e\u5f20\u5f35\u5218\u5289\u9648\u9673\u6768\u694a\u8d75\u8d99\u9ec4\u9ec3\u5468\u5434\u5433\u5f90\u5b59\u5b6b\u80e1\u6731\u9ad8\u6797\u4f55\u90ed\u9a6c\u99ac\u7f57\u7f85\u6881\u5b8b\u90d1\u912d\u8c22\u8b1d\u97e9\u97d3\u5510\u51af\u99ae\u4e8e\u8463\u8427\u856d\u7a0b\u66f9\u8881\u9093\u8bb8\u8a31\u5085\u6c88\u66fe\u5f6d\u5415\u5442\u82cf\u8607"
    "\u5362\u76e7\u848b\u8521\u8d3e\u4e01\u9b4f\u859b\u53f6\u8449\u960e\u4f59\u6f58\u675c\u6234\u590f\u949f\u9418\u6c6a\u7530\u4efb\u59dc\u8303\u65b9\u77f3\u59da\u8c2d\u5ed6\u90b9\u718a\u91d1\u9646\u90dd\u5b54\u767d\u5d14\u5eb7\u6bdb\u90b1\u79e6\u6c5f\u53f2\u987e\u4faf\u90b5\u5b5f\u9f99\u4e07\u6bb5\u96f7\u94b1\u6c64\u5c39\u9ece\u6613\u5e38\u6b66\u4e54\u8d3a\u8d56\u9f9a\u6587"
)
_KOREAN_SURNAMES: Final = (
    "\uae40\uc774\ubc15\ucd5c\uc815\uac15\uc870\uc724\uc7a5\uc784\ud55c\uc624\uc11c\uc2e0\uad8c\ud669\uc548"
    "\uc1a1\ub958\uc804\ud64d\uace0\ubb38\uc591\uc190\ubc30\ubc31\ud5c8\uc720\ub0a8\uc2ec\ub178\ud558\uacfd"
    "\uc131\ucc28\uc8fc\uc6b0\uad6c\ubbfc\uc9c4\ub098\uc5c4\ucc44\uc6d0\ucc9c\ubc29"
)
_LETTER: Final = r"(?<![^\W_])"
_PATTERNS: Final = (
    (re.compile(rf"{_LETTER}(?:{_FIELDS})[\"']? ?[:=\uff1a] ?[\"']?({_ANY_NAMES})"), _FIELD_SCORE),
    (re.compile(rf"{_LETTER}(?:{_TITLES})\.? ({_CASED_NAMES})"), _TITLE_SCORE),
    (re.compile(rf"{_LETTER}(?:{_ARABIC_TITLES})[ /]{{1,2}}({_ARABIC}(?: {_ARABIC})?)"), _TITLE_SCORE),
    # A Chinese name before its title.
    (re.compile(
        rf"([{_SURNAMES}]{_HAN}{{0,2}})(?=\u5148\u751f|\u5973\u58eb|\u5c0f\u59d0|\u592a\u592a|\u533b\u751f|"
        rf"\u8001\u5e08|\u6559\u6388)"
    ), _TITLE_SCORE),
    # A Japanese one; what is not of the name before it is written in kana, a sign or a space.
    (re.compile(
        rf"(?<!{_HAN})({_HAN}{{1,3}}[ \u3000]?{_HAN}{{1,3}}|[\u30a1-\u30fc]{{2,10}})(?=\u69d8|\u3055\u3093|\u6bbf|"
        rf"\u304f\u3093|\u3061\u3083\u3093|\u6c0f(?!\u540d))"
    ), _TITLE_SCORE),
    # A Korean one.
    (re.compile(
        rf"(?<![\uac00-\ud7a3])([{_KOREAN_SURNAMES}][\uac00-\ud7a3]{{2}})(?= ?\uc528(?![\uac00-\ud7a3])| ?\ub2d8|"
        rf"\uaed8)"
    ), _TITLE_SCORE),
)  # fmt: skip
_NO_NAMES: Final = frozenset(
    (
        "\uace0\uac1d\ub2d8",
        "\u304a\u5ba2",
        "\u7686",
        "\u5fa1\u4e2d",
        "\u5f0a\u793e",
        "\u795e",
        "\u4f55",
        "\u5ba2",
        "\u5b66\u751f",
    )
)
_BEYOND: Final = re.compile("[\u0370-\u0523\u0600-\u06ff\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]")


def names_in_scripts(text: str, offset: int) -> Iterator[Value]:
    """Yields the names in a text, in no order; `offset` is added to their places."""
    if text.isascii() or _BEYOND.search(text) is None:
        return
    for pattern, score in _PATTERNS:
        for found in pattern.finditer(text):
            if found[1] not in _NO_NAMES:
                yield found.start(1) + offset, found.end(1) + offset, "PERSON", score
