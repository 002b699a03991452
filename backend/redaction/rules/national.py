"""Rules for identifiers that one country issues.

A number that is known only by its length and a check digit scores low alone, and high beside its name.
"""

from typing import Final

from stdnum.au import abn, acn, tfn
from stdnum.br import cpf
from stdnum.de import idnr
from stdnum.es import dni, nie
from stdnum.fi import hetu
from stdnum.fr import nir
from stdnum.gb import nhs
from stdnum.ie import pps
from stdnum.in_ import gstin
from stdnum.it import codicefiscale
from stdnum.kr import brn
from stdnum.nl import bsn
from stdnum.pl import pesel
from stdnum.pt import cc as citizen_card
from stdnum.pt import nif as portuguese_nif
from stdnum.se import personnummer
from stdnum.th import pin

from backend.redaction.rules import checksums
from backend.redaction.rules.rule import Rule

_LICENCE: Final = (
    "driver'?s? ?licen[cs]e|driving ?licen[cs]e|licen[cs]e ?(?:no|number)|dl ?(?:no|number)?|permit ?(?:no|number)|"
    "patente"
)
_PASSPORT: Final = (
    "passport|passport ?(?:no|number)|passaporto|travel document|reisepass|reisepassnummer|reisepass-nr|passeport|"
    "pasaporte|paspoort|paspoortnummer|paszport|paszportu|passaporte"
)
_GERMAN_PASSPORT: Final = "reisepass|reisepass-?(?:nr|nummer)|pass-?(?:nr|nummer)|deutscher pass"
_GERMAN_CARD: Final = (
    "personalausweis|personalausweis-?(?:nr|nummer)|ausweis|ausweis-?(?:nr|nummer)|perso|perso-?nr|"
    "german id(?:entity)? ?card"
)
_BANK: Final = "account|account ?(?:no|number)|acct|acct ?(?:no|number)|bank ?account|checking|savings|iban|routing|aba"
_SSN: Final = "ssn|ssns|social ?security|social ?security ?(?:no|number)|soc ?sec|tax ?id|tin"
_NHS: Final = "nhs|nhs ?(?:no|number)|national health|patient ?(?:id|no|number)?"
_GERMAN_TAX: Final = (
    "steuer-?(?:id|nr|nummer)|tin|id-?nr|steuerliche identifikationsnummer|idnr|steuerid|"
    "steueridentifikationsnummer|identifikationsnummer|tax ?id"
)
_DUTCH: Final = "bsn|bsn-nummer|bsn-nr|burgerservicenummer|sofinummer|burgerservice"
_PORTUGUESE: Final = "nif|contribuinte|número fiscal|identificação fiscal|número de contribuinte|nipc"
_SWEDISH: Final = "personnummer|personnr|person-?nr|person-?nummer|pnr|samordningsnummer"
_DATE: Final = "[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
_INDIAN_STATES: Final = (
    "(?:A[NPRS]|BR|C[GH]|D[DLN]|G[AJ]|H[PR]|J[HK]|K[AL]|L[AD]|M[HLNPZ]|NL|O[DR]|P[BY]|RJ|SK|T[GNRS]|U[AKP]|WB)"
)


def _ssn(text: str) -> bool:
    number = checksums.digits(text)
    return number[:3] not in {"000", "666"} and number[0] != "9" and number[3:5] != "00" and number[5:] != "0000"


def _nino(text: str) -> bool:
    return text[:2] not in {"BG", "GB", "KN", "NK", "NT", "TN", "ZZ"}


def _spanish(text: str) -> bool:
    return bool(dni.is_valid(text.replace(".", "").replace(" ", "").rjust(9, "0")))


def _mixed(text: str) -> bool:
    """Returns whether the text has a digit."""
    return not text.isalpha()


RULES: Final = (
    Rule("US_SSN", "[0-9]{3}-[0-9]{2}-[0-9]{4}", 0.85, 0.95, _SSN, check=_ssn, before="0-9A-Za-z-", after="0-9A-Za-z-"),
    Rule("US_SSN", "[0-9]{3}[ .][0-9]{2}[ .][0-9]{4}", 0.6, 0.95, _SSN, check=_ssn, after="0-9A-Za-z"),
    Rule("US_SSN", "[0-9]{9}", 0.0, 0.85, _SSN, check=_ssn),
    Rule("US_ITIN", "9[0-9]{2}-(?:[5-8][0-9]|9[0-24-9])-[0-9]{4}", 0.8, 0.95, "itin|tax ?id|tin|taxpayer"),
    Rule("US_ITIN", "9[0-9]{2} ?(?:[5-8][0-9]|9[0-24-9]) ?[0-9]{4}", 0.0, 0.9, "itin|tax ?id|tin|taxpayer"),
    Rule("US_PASSPORT", "[A-Z]?[0-9]{8,9}", 0.0, 0.85, _PASSPORT),
    # Without the letters that look like a digit or make words; with its check digit or without.
    *(
        Rule(entity, "[CFGHJKLMNPRTVWXYZ][0-9CFGHJKLMNPRTVWXYZ]{8}[0-9]?", 0.0, score, words, check=_mixed)
        for entity, score, words in (
            ("DE_ID_CARD", 0.9, _GERMAN_CARD),
            ("DE_PASSPORT", 0.9, _GERMAN_PASSPORT),
            ("DE_PASSPORT", 0.8, _PASSPORT),
        )
    ),
    # The identity card of before 2010.
    Rule("DE_ID_CARD", "T?[0-9]{8,10}D?", 0.0, 0.85, _GERMAN_CARD),
    Rule("US_DRIVER_LICENSE", "[A-Z0-9]{5,18}", 0.0, 0.8, _LICENCE, check=_mixed),
    Rule("US_DRIVER_LICENSE", "[A-Z][0-9]{3}(?:-[0-9]{3,4}){2,4}", 0.0, 0.85, _LICENCE),
    Rule("US_BANK_NUMBER", "[0-9]{8,17}|[0-9]{2}-[0-9]{2}-[0-9]{2}", 0.0, 0.8, f"{_BANK}|sort ?code"),
    Rule(
        "MEDICAL_LICENSE",
        "[A-HJ-MPRSTUX][A-Z9][0-9]{7}",
        0.6,
        0.95,
        "dea|medical ?licen[cs]e|medical ?certificate|licen[cs]e|prescriber",
        check=checksums.dea,
    ),
    Rule("UK_NHS", "[0-9]{3}[ -][0-9]{3}[ -][0-9]{4}", 0.6, 0.95, _NHS, check=nhs.is_valid, before="0-9A-Za-z-"),
    Rule("UK_NHS", "[0-9]{10}", 0.0, 0.95, _NHS, check=nhs.is_valid),
    Rule(
        "UK_NINO",
        "[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?: ?[0-9]{2}){3} ?[A-D]",
        0.85,
        0.95,
        "nino|ni ?(?:no|number)|national ?insurance(?: ?(?:no|number))?",
        check=_nino,
    ),
    Rule("AU_ABN", "[0-9]{2} [0-9]{3} [0-9]{3} [0-9]{3}", 0.7, 0.95, "abn|business number", check=abn.is_valid),
    Rule("AU_ABN", "[0-9]{11}", 0.5, 0.95, "abn|business number", check=abn.is_valid),
    Rule("AU_ACN", "[0-9]{3} [0-9]{3} [0-9]{3}", 0.5, 0.95, "acn|company number", check=acn.is_valid),
    Rule("AU_ACN", "[0-9]{9}", 0.0, 0.95, "acn|company number", check=acn.is_valid),
    Rule(
        "AU_TFN", "[0-9]{3}[ -][0-9]{3}[ -][0-9]{3}", 0.5, 0.95, "tfn|tax ?file(?: ?(?:no|number))?", check=tfn.is_valid
    ),
    Rule("AU_TFN", "[0-9]{9}", 0.0, 0.95, "tfn|tax ?file(?: ?(?:no|number))?", check=tfn.is_valid),
    Rule("AU_MEDICARE", "[2-6][0-9]{3} [0-9]{5} [0-9]", 0.7, 0.95, "medicare", check=checksums.medicare),
    Rule("AU_MEDICARE", "[2-6][0-9]{9}", 0.0, 0.95, "medicare", check=checksums.medicare),
    Rule(
        "FI_PERSONAL_IDENTITY_CODE",
        "[0-3][0-9][01][0-9]{3}[-+A-FU-Y][0-9]{3}[0-9A-FHJ-NPR-Y]",
        0.9,
        0.95,
        "hetu|henkil|personal identity",
        check=hetu.is_valid,
    ),
    Rule(
        "IN_AADHAAR",
        "[2-9][0-9]{3}[ -][0-9]{4}[ -][0-9]{4}",
        0.7,
        0.95,
        "aadhaar|aadhar|uid|uidai",
        check=checksums.verhoeff,
    ),
    Rule("IN_AADHAAR", "[2-9][0-9]{11}", 0.5, 0.95, "aadhaar|aadhar|uid|uidai", check=checksums.verhoeff),
    Rule("IN_PAN", "[A-Z]{3}[ABCFGHJLPT][A-Z][0-9]{4}[A-Z]", 0.8, 0.95, "pan|permanent account"),
    Rule(
        "IN_GSTIN",
        "[0-3][0-9][A-Z]{5}[0-9]{4}[A-Z][0-9A-Z]Z[0-9A-Z]",
        0.95,
        0.95,
        "gstin|gst",
        check=gstin.is_valid,
    ),
    Rule("IN_PASSPORT", "[A-PR-WY][1-9][0-9] ?[0-9]{4}[1-9]", 0.0, 0.85, _PASSPORT),
    Rule(
        "IN_VEHICLE_REGISTRATION",
        f"{_INDIAN_STATES}[ -]?[0-9]{{1,2}}[ -]?[A-Z]{{1,3}}[ -]?[0-9]{{4}}",
        0.6,
        0.9,
        "vehicle|registration|number ?plate|rto|reg ?no",
    ),
    Rule("IN_VOTER", "[A-Z]{3}[0-9]{7}", 0.5, 0.9, "voter|epic|elector"),
    Rule(
        "IT_FISCAL_CODE",
        "[A-Z]{6}[0-9]{2}[A-EHLMPR-T][0-9]{2}[A-Z][0-9]{3}[A-Z]",
        0.95,
        0.95,
        "codice ?fiscale|fiscal ?code|cf",
        check=codicefiscale.is_valid,
    ),
    Rule(
        "IT_FISCAL_CODE",
        "(?i:[A-Z]{3} ?[A-Z]{3} ?[0-9]{2} ?[A-EHLMPR-T] ?[0-9]{2} ?[A-Z][0-9]{3} ?[A-Z])",
        0.0,
        0.95,
        "codice ?fiscale|fiscal ?code|cf|c\\. ?f\\.",
        check=codicefiscale.is_valid,
    ),
    Rule("IT_VAT_CODE", "IT ?[0-9]{11}", 0.9, 0.95, "partita ?iva|p\\.? ?iva|piva|vat|iva", check=checksums.luhn),
    Rule("IT_VAT_CODE", "[0-9]{11}", 0.0, 0.9, "partita ?iva|p\\.? ?iva|piva|vat|iva", check=checksums.luhn),
    Rule(
        "IT_DRIVER_LICENSE",
        "(?:[A-Z]{2}[0-9]{7}|U1[0-9A-Z]{7})[A-Z]",
        0.0,
        0.9,
        _LICENCE,
    ),
    Rule("IT_PASSPORT", "[A-Z]{2}[0-9]{7}", 0.0, 0.85, _PASSPORT),
    Rule(
        "IT_IDENTITY_CARD",
        "(?:[A-Z]{2} ?[0-9]{7}|[0-9]{7}[A-Z]{2}|[A-Z]{2}[0-9]{5}[A-Z]{2})",
        0.0,
        0.85,
        "identity ?card|id ?card|carta ?(?:d'|di )?identit.?|cie",
    ),
    Rule("KR_RRN", f"{_DATE}-[1-4][0-9]{{6}}", 0.85, 0.95, "rrn|resident ?registration|jumin"),
    Rule("KR_RRN", f"{_DATE}[1-4][0-9]{{6}}", 0.0, 0.9, "rrn|resident ?registration|jumin"),
    Rule("KR_FRN", f"{_DATE}-[5-8][0-9]{{6}}", 0.85, 0.95, "frn|arc|foreigner ?registration"),
    Rule("KR_FRN", f"{_DATE}[5-8][0-9]{{6}}", 0.0, 0.9, "frn|arc|foreigner ?registration"),
    Rule(
        "KR_BRN",
        "[0-9]{3}-[0-9]{2}-[0-9]{5}",
        0.8,
        0.95,
        "brn|business ?registration",
        check=brn.is_valid,
        before="0-9A-Za-z-",
        after="0-9A-Za-z-",
    ),
    Rule("KR_BRN", "[0-9]{10}", 0.0, 0.9, "brn|business ?registration", check=brn.is_valid),
    Rule(
        "KR_DRIVER_LICENSE",
        "(?:1[1-9]|2[0-8])-[0-9]{2}-[0-9]{6}-[0-9]{2}",
        0.85,
        0.95,
        _LICENCE,
        before="0-9A-Za-z-",
        after="0-9A-Za-z-",
    ),
    Rule("KR_PASSPORT", "[MSROD](?:[0-9]{8}|[0-9]{3}[A-Z][0-9]{4})", 0.0, 0.85, _PASSPORT),
    Rule("PL_PESEL", "[0-9]{4}(?:0[1-9]|[12][0-9]|3[01])[0-9]{5}", 0.6, 0.95, "pesel", check=pesel.is_valid),
    Rule("SG_NRIC_FIN", "[STFGM][0-9]{7}[A-Z]", 0.9, 0.95, "nric|fin", check=checksums.singaporean),
    Rule(
        "SG_UEN",
        "(?:[0-9]{8,9}[A-Z]|[TSR][0-9]{2}[A-Z]{2}[0-9]{4}[A-Z])",
        0.0,
        0.85,
        "uen|unique ?entity",
    ),
    Rule("ES_NIF", "[0-9]{8}-?[A-HJ-NP-TV-Z]", 0.85, 0.95, "nif|dni", check=dni.is_valid),
    Rule(
        "ES_NIF",
        r"[0-9]{1,2}\.?[0-9]{3}\.?[0-9]{3}[ -]{0,3}[A-HJ-NP-TV-Za-hj-np-tv-z]",
        0.0,
        0.95,
        "nif|dni|documento nacional de identidad",
        check=_spanish,
    ),
    Rule("ES_NIE", "[XYZ]-?[0-9]{7}-?[A-HJ-NP-TV-Z]", 0.9, 0.95, "nie", check=nie.is_valid),
    Rule(
        "TH_TNIN",
        "[1-8]-[0-9]{4}-[0-9]{5}-[0-9]{2}-[0-9]",
        0.95,
        0.95,
        "tnin|thai(?:land)?|national ?id|citizen",
        check=pin.is_valid,
    ),
    Rule("TH_TNIN", "[1-8][0-9]{12}", 0.5, 0.95, "tnin|thai(?:land)?|national ?id|citizen", check=pin.is_valid),
    Rule("BR_CPF", r"[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}", 0.9, 0.95, "cpf", check=cpf.is_valid),
    Rule(
        "BR_CPF",
        "[0-9]{3}[ .]?[0-9]{3}[ .]?[0-9]{3}[ -]?[0-9]{2}",
        0.0,
        0.95,
        "cpf|cpf/mf|pessoas? físicas?",
        check=cpf.is_valid,
    ),
    Rule("DE_TAX_ID", "[1-9][0-9] ?[0-9]{3} ?[0-9]{3} ?[0-9]{3}", 0.5, 0.95, _GERMAN_TAX, check=idnr.is_valid),
    Rule(
        "DE_SOCIAL_SECURITY",
        "[0-9]{2} ?(?:0[1-9]|[12][0-9]|3[01]|5[1-9]|[67][0-9]|8[01])(?:0[1-9]|1[0-2])[0-9]{2} ?[A-Z] ?[0-9]{3}",
        0.7,
        0.95,
        "sozialversicherungsnummer|rentenversicherungsnummer|versicherungsnummer|sv-?(?:nummer|nr)|svnr|rv-?nr|"
        "sozialversicherungs-?nr|rentenversicherungs-?nr",
    ),
    Rule(
        "FR_NIR",
        "[1-478] ?[0-9]{2} ?(?:0[1-9]|[1-9][0-9]) ?(?:2[AB]|[0-9]{2}) ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}",
        0.9,
        0.95,
        "nir|sécurité sociale|n° ?ss|sécu|n° de sécu|assuré social|numéro de sécu|insee|carte vitale",
        check=nir.is_valid,
    ),
    Rule(
        "IE_PPS",
        "[0-9]{7} ?[A-W][A-IW]?",
        0.6,
        0.95,
        "pps|ppsn|pps ?(?:no|number)|personal public service",
        check=pps.is_valid,
    ),
    Rule(
        "NL_BSN",
        r"[0-9]{4}[. ]?[0-9]{2}[. ]?[0-9]{3}|[0-9]{3}[. -][0-9]{3}[. -][0-9]{3}",
        0.0,
        0.95,
        _DUTCH,
        check=bsn.is_valid,
    ),
    Rule(
        "PT_NIF",
        "(?:PT ?)?[1-35689][0-9]{2}[ .-]?[0-9]{3}[ .-]?[0-9]{3}",
        0.0,
        0.95,
        _PORTUGUESE,
        check=portuguese_nif.is_valid,
    ),
    Rule(
        "PT_CC",
        "[0-9]{8} ?[0-9] ?[A-Z0-9]{2}[0-9]",
        0.5,
        0.95,
        "cartão de cidadão|cc|bilhete de identidade",
        check=citizen_card.is_valid,
    ),
    Rule(
        "SE_PERSONNUMMER",
        "(?:19|20)?[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]|[67][0-9]|8[0-9]|9[01])[-+][0-9]{4}",
        0.85,
        0.95,
        _SWEDISH,
        check=personnummer.is_valid,
    ),
    Rule("SE_PERSONNUMMER", "(?:[0-9]{2})?[0-9]{6} ?[0-9]{4}", 0.0, 0.95, _SWEDISH, check=personnummer.is_valid),
)
