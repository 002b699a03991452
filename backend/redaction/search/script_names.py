"""Names of people in Cyrillic, Greek, Arabic, Chinese, Japanese and Korean letters, by titles and fields of these.

The rules read all such letters as one, so these names are looked for in the text as it stands, line by line.
"""

import re
from collections.abc import Iterator
from typing import Final

from backend.redaction.rules.rule import AFTER_SIGN, BEFORE_SIGN, Value

_FIELD_SCORE: Final = 0.8
_TITLE_SCORE: Final = 0.85
_UPPER: Final = "\u0391-\u03ab\u0386-\u038f\u0401-\u042fҐ"
_LOWER: Final = "\u03ac-\u03ce\u0430-\u045fґʼ'\u2019"
_CASED: Final = f"[{_UPPER}][{_LOWER}]{{1,30}}(?:-[{_UPPER}][{_LOWER}]{{1,30}})?"
_INITIAL: Final = f"(?:[{_UPPER}]\\. ?)"
_CASED_NAMES: Final = f"{_INITIAL}{{0,2}}{_CASED}(?: {_CASED}){{0,3}}(?: ?{_INITIAL}{{1,2}})?"
_ARABIC: Final = "[\u0621-\u064a\u0671-\u06d3]{2,20}"
_HAN: Final = "[\u4e00-\u9fff々]"
_CJK: Final = "[々\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7a3]"
_ANY_NAMES: Final = (
    f"(?:{_CASED_NAMES}|{_ARABIC}(?: {_ARABIC}){{0,4}}|{_CJK}{{2,12}}(?:[ \u3000\u30fb\u00b7]{_CJK}{{1,12}}){{0,2}})"
)
_FIELDS: Final = (
    # Russian, Ukrainian
    "ФИО|Ф\\.И\\.О\\.|ПІБ|Имя|Ім[ʼ'\u2019]я|Фамилия|Прізвище|Отчество|Клиент|Клієнт|Пациент|"
    "Получатель|Отправитель|Контактное лицо|Сотрудник|Врач|Заказчик|"
    # Greek
    "Όνομα|Επώνυμο|Ονοματεπώνυμο|Πελάτης|Ασθενής|Παραλήπτης|"
    # Arabic
    "(?:ال)?اسم(?: الكامل| العميل)?|اللقب|العميل|المريض|"
    # Chinese, Japanese, Korean
    "姓名|名字|客户|客戶|患者|联系人|聯絡人|收件人|申请人|"
    "氏名|お?名前|担当者|宛名|이름|성명|성함|고객명?|환자|담당자|수신인"
)
_TITLES: Final = (
    "г-н|г-жа|Г-н|Г-жа|[Гг]осподин(?:у|а|ом)?|[Гг]оспож(?:а|е|у|ой)|[Дд]октор(?:а|у)?|[Пп]рофессор(?:а|у)?|"
    "[Уу]важаем(?:ый|ая)|[Пп]ан(?:і|у)?|[Зз]овут|"
    "[Κκ](?:ύριο|υρί)(?:ς|ε|α|ας|ου)?|[Κκ](?:α)?\\.|[Κκ]α|Δρ\\.?|[Κκ]αθηγητή(?:ς)?"
)
_ARABIC_TITLES: Final = "السيدة?|الآنسة|الدكتورة?|الأستاذة?|د\\.|المهندس|اسمي"
_SURNAMES: Final = (
    "王李张張刘劉陈陳杨楊赵趙黄黃周吴吳徐孙孫胡朱高林何郭马馬罗羅梁宋郑鄭谢謝韩韓唐冯馮于董萧蕭程曹袁邓许許傅沈曾彭吕呂苏蘇"
    "卢盧蒋蔡贾丁魏薛叶葉阎余潘杜戴夏钟鐘汪田任姜范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎易常武乔贺赖龚文"
)
_KOREAN_SURNAMES: Final = (
    "김이박최정강조윤장임한오서신권황안송류전홍고문양손배백허유남심노하곽성차주우구민진나엄채원천방"
)
_KOREAN_PARTICLES: Final = "가|는|를|의|에게|에게서|께서|와|도|로부터|입니다|이고|라고"
_LETTER: Final = r"(?<![^\W_])"
_PATTERNS: Final = (
    (re.compile(rf"{_LETTER}(?:{_FIELDS})[\"']?{BEFORE_SIGN}[:=\uff1a]{AFTER_SIGN}[\"']?({_ANY_NAMES})"), _FIELD_SCORE),
    (re.compile(rf"{_LETTER}(?:{_TITLES})\.? ({_CASED_NAMES})"), _TITLE_SCORE),
    (re.compile(rf"{_LETTER}(?:{_ARABIC_TITLES})[ /]{{1,2}}({_ARABIC}(?: {_ARABIC})?)"), _TITLE_SCORE),
    # A Chinese name before its title.
    (re.compile(
        rf"([{_SURNAMES}]{_HAN}{{0,2}})(?=先生|女士|小姐|太太|医生|"
        rf"老师|教授)"
    ), _TITLE_SCORE),
    # A Japanese one; what is not of the name before it is written in kana, a sign or a space.
    (re.compile(
        rf"(?<!{_HAN})({_HAN}{{1,3}}[ \u3000]?{_HAN}{{1,3}}|[\u30a1-\u30fc]{{2,10}})(?=様|さん|殿|"
        rf"くん|ちゃん|氏(?!名))"
    ), _TITLE_SCORE),
    # A Korean one.
    (re.compile(
        rf"(?<![\uac00-\ud7a3])([{_KOREAN_SURNAMES}][\uac00-\ud7a3]{{2}})(?= ?씨(?:{_KOREAN_PARTICLES})?"
        rf"(?![\uac00-\ud7a3])| ?님|께)"
    ), _TITLE_SCORE),
)  # fmt: skip
_NO_NAMES: Final = frozenset(
    (
        "고객님",
        "お客",
        "皆",
        "御中",
        "弊社",
        "神",
        "何",
        "客",
        "学生",
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
