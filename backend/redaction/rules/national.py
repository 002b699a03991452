"""Rules for identifiers that one country issues.

A number that is known only by its length and a check digit scores low alone, and high beside its name.
"""

from typing import Final

from backend.redaction.rules import checksums
from backend.redaction.rules.rule import Rule

_LICENCE: Final = (
    "driver'?s? ?licen[cs]e|driving ?licen[cs]e|licen[cs]e ?(?:no|number)|dl ?(?:no|number)?|permit ?(?:no|number)|"
    "patente"
)
_PASSPORT: Final = "passport|passport ?(?:no|number)|passaporto|travel document"
_BANK: Final = "account|account ?(?:no|number)|acct|acct ?(?:no|number)|bank ?account|checking|savings|iban|routing|aba"
_SSN: Final = "ssn|ssns|social ?security|social ?security ?(?:no|number)|soc ?sec|tax ?id|tin"
_NHS: Final = "nhs|nhs ?(?:no|number)|national health|patient ?(?:id|no|number)?"
_ABN_WEIGHTS: Final = (10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19)
_TFN_WEIGHTS: Final = (1, 4, 3, 7, 5, 8, 6, 9, 10)
_PESEL_WEIGHTS: Final = (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)
_DATE: Final = "[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
_INDIAN_STATES: Final = (
    "(?:A[NPRS]|BR|C[GH]|D[DLN]|G[AJ]|H[PR]|J[HK]|K[AL]|L[AD]|M[HLNPZ]|NL|O[DR]|P[BY]|RJ|SK|T[GNRS]|U[AKP]|WB)"
)


def _ssn(text: str) -> bool:
    number = checksums.digits(text)
    return number[:3] not in {"000", "666"} and number[0] != "9" and number[3:5] != "00" and number[5:] != "0000"


def _nino(text: str) -> bool:
    return text[:2] not in {"BG", "GB", "KN", "NK", "NT", "TN", "ZZ"}


def _mixed(text: str) -> bool:
    """Returns whether the text has a digit."""
    return not text.isalpha()


_abn = checksums.weighted(_ABN_WEIGHTS, 89, first_less=1)
_tfn = checksums.weighted(_TFN_WEIGHTS, 11)
_pesel = checksums.weighted(_PESEL_WEIGHTS, 10)

RULES: Final = (
    Rule("US_SSN", "[0-9]{3}-[0-9]{2}-[0-9]{4}", 0.85, 0.95, _SSN, check=_ssn, before="0-9A-Za-z-", after="0-9A-Za-z-"),
    Rule("US_SSN", "[0-9]{3}[ .][0-9]{2}[ .][0-9]{4}", 0.6, 0.95, _SSN, check=_ssn, after="0-9A-Za-z"),
    Rule("US_SSN", "[0-9]{9}", 0.0, 0.85, _SSN, check=_ssn),
    Rule("US_ITIN", "9[0-9]{2}-(?:[5-8][0-9]|9[0-24-9])-[0-9]{4}", 0.8, 0.95, "itin|tax ?id|tin|taxpayer"),
    Rule("US_ITIN", "9[0-9]{2} ?(?:[5-8][0-9]|9[0-24-9]) ?[0-9]{4}", 0.0, 0.9, "itin|tax ?id|tin|taxpayer"),
    Rule("US_PASSPORT", "[A-Z]?[0-9]{8,9}", 0.0, 0.85, _PASSPORT),
    Rule("US_DRIVER_LICENSE", "[A-Z0-9]{5,18}", 0.0, 0.8, _LICENCE, check=_mixed),
    Rule("US_DRIVER_LICENSE", "[A-Z][0-9]{3}(?:-[0-9]{3,4}){2,4}", 0.0, 0.85, _LICENCE),
    Rule("US_BANK_NUMBER", "[0-9]{8,17}", 0.0, 0.8, _BANK),
    Rule(
        "MEDICAL_LICENSE",
        "[A-HJ-MPRSTUX][A-Z9][0-9]{7}",
        0.6,
        0.95,
        "dea|medical ?licen[cs]e|medical ?certificate|licen[cs]e|prescriber",
        check=checksums.dea,
    ),
    Rule("UK_NHS", "[0-9]{3}[ -][0-9]{3}[ -][0-9]{4}", 0.6, 0.95, _NHS, check=checksums.nhs, before="0-9A-Za-z-"),
    Rule("UK_NHS", "[0-9]{10}", 0.0, 0.95, _NHS, check=checksums.nhs),
    Rule(
        "UK_NINO",
        "[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?: ?[0-9]{2}){3} ?[A-D]",
        0.85,
        0.95,
        "nino|ni ?(?:no|number)|national ?insurance(?: ?(?:no|number))?",
        check=_nino,
    ),
    Rule("AU_ABN", "[0-9]{2} [0-9]{3} [0-9]{3} [0-9]{3}", 0.7, 0.95, "abn|business number", check=_abn),
    Rule("AU_ABN", "[0-9]{11}", 0.5, 0.95, "abn|business number", check=_abn),
    Rule("AU_ACN", "[0-9]{3} [0-9]{3} [0-9]{3}", 0.5, 0.95, "acn|company number", check=checksums.acn),
    Rule("AU_ACN", "[0-9]{9}", 0.0, 0.95, "acn|company number", check=checksums.acn),
    Rule("AU_TFN", "[0-9]{3}[ -][0-9]{3}[ -][0-9]{3}", 0.5, 0.95, "tfn|tax ?file(?: ?(?:no|number))?", check=_tfn),
    Rule("AU_TFN", "[0-9]{9}", 0.0, 0.95, "tfn|tax ?file(?: ?(?:no|number))?", check=_tfn),
    Rule("AU_MEDICARE", "[2-6][0-9]{3} [0-9]{5} [0-9]", 0.7, 0.95, "medicare", check=checksums.medicare),
    Rule("AU_MEDICARE", "[2-6][0-9]{9}", 0.0, 0.95, "medicare", check=checksums.medicare),
    Rule(
        "FI_PERSONAL_IDENTITY_CODE",
        "[0-3][0-9][01][0-9]{3}[-+A-FU-Y][0-9]{3}[0-9A-FHJ-NPR-Y]",
        0.9,
        0.95,
        "hetu|henkil|personal identity",
        check=checksums.finnish,
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
        check=checksums.gstin,
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
        check=checksums.fiscal_code,
    ),
    Rule("IT_VAT_CODE", "IT ?[0-9]{11}", 0.9, 0.95, "partita ?iva|p iva|piva|vat|iva", check=checksums.luhn),
    Rule("IT_VAT_CODE", "[0-9]{11}", 0.0, 0.9, "partita ?iva|p iva|piva|vat|iva", check=checksums.luhn),
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
        check=checksums.korean_business,
        before="0-9A-Za-z-",
        after="0-9A-Za-z-",
    ),
    Rule("KR_BRN", "[0-9]{10}", 0.0, 0.9, "brn|business ?registration", check=checksums.korean_business),
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
    Rule("PL_PESEL", "[0-9]{4}(?:0[1-9]|[12][0-9]|3[01])[0-9]{5}", 0.6, 0.95, "pesel", check=_pesel),
    Rule("SG_NRIC_FIN", "[STFGM][0-9]{7}[A-Z]", 0.9, 0.95, "nric|fin", check=checksums.singaporean),
    Rule(
        "SG_UEN",
        "(?:[0-9]{8,9}[A-Z]|[TSR][0-9]{2}[A-Z]{2}[0-9]{4}[A-Z])",
        0.0,
        0.85,
        "uen|unique ?entity",
    ),
    Rule("ES_NIF", "[0-9]{8}-?[A-HJ-NP-TV-Z]", 0.85, 0.95, "nif|dni", check=checksums.spanish),
    Rule("ES_NIE", "[XYZ]-?[0-9]{7}-?[A-HJ-NP-TV-Z]", 0.9, 0.95, "nie", check=checksums.spanish),
    Rule(
        "TH_TNIN",
        "[1-8]-[0-9]{4}-[0-9]{5}-[0-9]{2}-[0-9]",
        0.95,
        0.95,
        "tnin|thai(?:land)?|national ?id|citizen",
        check=checksums.thai,
    ),
    Rule("TH_TNIN", "[1-8][0-9]{12}", 0.5, 0.95, "tnin|thai(?:land)?|national ?id|citizen", check=checksums.thai),
)
