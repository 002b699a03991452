"""Decides whether a number found by the local model is personal, by adjacent words and its form.

To the model most long numbers look personal. So a number counts only with a supporting word, and never with a word
for other numbers, as of orders, bytes or builds.
"""

import re
from typing import Final

from redaction.local_model.weighed_words import Word
from redaction.rules.rule import CONTEXT_REACH
from redaction.rules.words import normalised_words

_FILLERS: Final = normalised_words("number_fillers")
_OTHER_NUMBERS: Final = normalised_words("other_numbers")
_IDENTITY: Final = (
    r"passports?|passeport|pasaporte|passaport[eo]|paspoort\w*|paszport\w*|(?:reise)?pass(?:nummer|nr)?|"
    r"licen[cs]es?|licencia|führerschein\w*|fuehrerschein\w*|permis|permit|carnet|carné|patente|rijbewijs\w*|jazdy|"
    r"cnh|(?:\w+)?ausweis\w*|perso|identity|identit[éàä]\w*|identid\w+|identiteit\w*|tożsamości|dow[oó]d\w*|"
    r"national|nacional|nationale|cidad[aã]o|citizen\w*|ciudadan\w+|dni|nie|nif|nipc|niss|nuip|cpf|rg|cc|"
    r"fiscale?s?|tax\w*|steuer\w*|contribuinte|contribuable|bsn|burgerservice\w*|sofinummer|pesel|nip|cf|ssn|itin|tin|"
    r"tfn|sin|social|sociale|soziale?\w*|sv|svnr|rvnr|renten\w*|versicherten\w*|kranken\w*|insurance|nhs|nin|nino|ni|"
    r"nir|nss|sécu|secu|sanitari\w+|vitale|medicare|medicaid|health|cni|utente|sus|ahv|avs|curp|rfc|"
    r"c[eé]dula|aadhaar|pan|pps|ppsn|personnummer|person\w*n(?:umme)?r|cpr|hetu|mrn|nhi|"
    r"driver\w*|driving|conducir|condução|guida|conduire|visa|resident\w*|séjour|soggiorno|aufenthalt\w*|voter\w*|"
    r"kunden?|kund\w*n(?:umme)?r|customers?|clients?|clientes?|klant\w*|klient\w*|members?|membership|mitglied\w*|"
    r"adhérent|socio|patient\w*|pacjent\w*|employee|payroll|student|policy|police|policen?\w*|versicher\w*|póliza|polizza"
)
_BANK: Final = (
    r"iban|accounts?|acct|konto\w*|compte|cuenta|conto|rekening\w*|conta|rachun\w+|bank\w*|routing|aba|sort|blz|bic|"
    r"swift|cards?|\w*karten?\w*|carte|tarjeta|\w*kaart\w*|cart[aã]o|kart[ayąę]|sepa"
)
_PHONE: Final = (
    r"(?:\w+)?(?:phone|telefon|téléphone|telefoon)\w*|tel|tél|telef\w*|teléfono|handy\w*|mobil\w*|m[oó]vil|mobiel\w*|"
    r"cell\w*|celular|cel|portable|gsm|fax\w*|call|calls|calling|dial\w*|whatsapp|ruf\w*|anruf\w*|erreich\w+|appel\w*|"
    r"joindre|joignable|llam\w+|chiam\w+|bel|bellen|belt|bereik\w+|lig[aou]\w*|zadzwo\w*|dzwo\w*|komórk\w*|"
    r"durchwahl|vorwahl|recapito|sms|telegram|pager"
)
# Words that support telephone numbers only.
_CONTACT: Final = r"kom|ring|signal|contact|reach\w*|direct|ext"
_PLACE: Final = (
    r"zip|postcode|postal\w*|plz|cap|cp|cep|kod|code|address|adres\w*|anschrift|dirección|indirizzo|endereço|"
    r"morada|street|str|stra(?:ss|ß)e|rue|calle|via|rua|ulica|ul|house|haus\w*|flat|apt|apartment|unit|suite|room|floor|"
    r"box|city|town|ort|wohnort|ville|ciudad|città|cidade|miasto|location|state|lives?|wohn\w*|leb[et]\w*"
)
# Words for other numbers than people's; some of _OTHER_NUMBERS name people, and count only against telephones.
_OTHER: Final = (
    r"(?:bestell|auftrag|rechnung|artikel|vorgang|vertrag|sendung|liefer|geräte|serien|order|factuur|"
    r"bestel|artikel|zamówieni|zgłoszeni|faktur|przesyłk|protokol|protocol|ticket|chamado|incidencia|melding|"
    r"commande|facture|dossier|pedido|encomenda|fattura|ordine|pratica)\w*|seri(?:al|e|es|ennummer)|série|serienr|"
    r"uuid|guid|commit|sha[0-9]*|md5|hash|digest|checksum|etag|build|version|revision|release|port|pid|offset|sequence|"
    r"heap|bytes?|size|length|count|timestamp|epoch|request|trace|span|session|thread|process|device|message|event|"
    r"transaction|object|row|index|sensor|motor|part|model|modell|modelo|modello|ust|mwst"
)
_PERSONAL: Final = re.compile(rf"{_IDENTITY}|{_BANK}|{_PHONE}")
_SUPPORT: Final = {
    "PHONE_NUMBER": re.compile(f"{_PHONE}|{_CONTACT}"),
    "LOCATION": re.compile(rf"{_PLACE}|{_PERSONAL.pattern}"),
    "": _PERSONAL,
}
_VETO: Final = re.compile(
    "|".join([_OTHER, *(re.escape(word) for word in sorted(_OTHER_NUMBERS) if _PERSONAL.fullmatch(word) is None)])
)
_NAMES_OF_NUMBERS: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "phone telephone telefon téléphone telefoon teléfono telefone telefono tel tél telefax fax handy mobil mobile "
        "móvil cellulare telemóvel iban bic passport reisepass ausweis dni nif cpf pesel bsn"
    ).split()
)
# A word of many keys, which supports a number only if no word shows another owner.
_ID: Final = "id"
_UNIT: Final = re.compile(
    r"[ \t]?(?:[nmµu]?s|sec\w*|bytes?|[kmgt]i?b|rows?|lines?|times|records?|eur|euros?|usd|gbp|k[mg]|mm|cm|"
    r"[%€$£])(?!\w)",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[^\W_]+")
_BEHIND: Final = re.compile(r"[ \t]{0,2}[(\u2013-][ \t]?([^\W\d_]+)")
_LETTERED_HEXADECIMAL: Final = re.compile(r"(?=[0-9]*[a-f])[0-9a-f]{16,}|(?=[0-9]*[A-F])[0-9A-F]{16,}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TELEPHONE: Final = re.compile(r"(?:\+|\(|0)[0-9 ()./\-]{6,}|[0-9]{2,5}(?:[ ./\-][0-9]{2,5}){1,5}")
# Versions and dates, with or without a following number.
_NO_TELEPHONE: Final = re.compile(
    r"(?:19|20)[0-9]{2}[-./]?[0-9]{2}[-./]?[0-9]{2}(?:[-./ ][0-9]+)?|[0-9]{1,3}(?:\.[0-9]{1,5}){3}"
)
_LEAST_DIGITS: Final = 7
_LEAST_DIGITS_IN_GROUPS: Final = 8
_MOST_DIGITS: Final = 15
_NATIONAL_TELEPHONE: Final = re.compile(r"0[1-9][0-9]{7,10}|\+[1-9][0-9]{8,14}")
_EXTENSION: Final = re.compile(r" ?(?:x|ext\.?) ?[0-9]{1,6}\Z")
_IN_TELEPHONE: Final = frozenset("0123456789 ()./+-")
_LONGEST_TELEPHONE: Final = 20


def is_supported(text: str, span: Word) -> bool:
    """Returns whether adjacent words or its form support the model's type of a number."""
    written = text[span.start : span.end]
    if _UUID.fullmatch(written) or _LETTERED_HEXADECIMAL.fullmatch(written) or _UNIT.match(text, span.end):
        return False
    words = _words_before(text, span.start)
    support = _SUPPORT.get(span.entity, _SUPPORT[""])
    supports = [place for place, word in enumerate(words) if support.fullmatch(word)]
    vetoes = [place for place, word in enumerate(words) if _VETO.fullmatch(word)]
    if supports:
        return not vetoes or supports[-1] > vetoes[-1]
    if (behind := _BEHIND.match(text, span.end)) is not None and support.fullmatch(behind[1].lower()):
        return True
    if span.entity != "LOCATION" and not vetoes and _ID in words:
        return True
    # The model may take a telephone number for a document's number.
    form = _has_form_of_telephone if span.entity == "PHONE_NUMBER" else _NATIONAL_TELEPHONE.fullmatch
    return not _is_named(words) and any(map(form, {written, _run_around(text, span)}))


def names_numbers(text: str, span: Word) -> bool:
    """Returns whether words without digits are names of numbers: "Telephone", or "Ticket" before its number."""
    written = text[span.start : span.end].lower()
    if written in _NAMES_OF_NUMBERS:
        return True
    words = _WORD.findall(text[span.end : span.end + CONTEXT_REACH].partition("\n")[0])
    while words and words[0].lower() in _FILLERS:
        del words[0]
    return bool(words) and words[0].isdigit() and _VETO.fullmatch(written) is not None


def _words_before(text: str, place: int) -> list[str]:
    """Returns the words before a position on its line, or on the line above for the first word of a line."""
    start = text.rfind("\n", 0, place) + 1
    if _WORD.search(text, start, place) is None and start:
        place, start = start - 1, text.rfind("\n", 0, start - 1) + 1
    # A word that begins before the window counts whole.
    low = max(start, place - 2 * CONTEXT_REACH)
    return [found[0].lower() for found in _WORD.finditer(text, low, place) if found.end() >= place - CONTEXT_REACH]


def _is_named(words: list[str]) -> bool:
    """Returns whether the last word, apart from fillers, names another kind of number."""
    for word in reversed(words):
        if word not in _FILLERS:
            return _VETO.fullmatch(word) is not None or word in _OTHER_NUMBERS
    return False


def _run_around(text: str, span: Word) -> str:
    """Returns the run of digits, blanks and telephone punctuation around a span."""
    low, high = span.start, span.end
    while low > 0 and span.start - low < _LONGEST_TELEPHONE and text[low - 1] in _IN_TELEPHONE:
        low -= 1
    while high < len(text) and high - span.end < _LONGEST_TELEPHONE and text[high] in _IN_TELEPHONE:
        high += 1
    return text[low:high].strip(" ./-")


def _has_form_of_telephone(written: str) -> bool:
    written = _EXTENSION.sub("", written)
    digits = sum(map(str.isdigit, written))
    if not _LEAST_DIGITS <= digits <= _MOST_DIGITS or _NO_TELEPHONE.fullmatch(written) is not None:
        return False
    found = _TELEPHONE.fullmatch(written)
    return found is not None and (written[0] in "+(0" or digits >= _LEAST_DIGITS_IN_GROUPS)
