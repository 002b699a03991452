"""Entity types that a PII policy may name."""

from typing import Final

_BY_REGION: Final = {
    "everywhere": (
        "CREDIT_CARD CRYPTO DATE_TIME EMAIL_ADDRESS IBAN_CODE IP_ADDRESS LOCATION MAC_ADDRESS MEDICAL_LICENSE NRP "
        "ORGANIZATION PERSON PHONE_NUMBER URL"
    ),
    "Australia": "AU_ABN AU_ACN AU_MEDICARE AU_TFN",
    "Finland": "FI_PERSONAL_IDENTITY_CODE",
    "India": "IN_AADHAAR IN_GSTIN IN_PAN IN_PASSPORT IN_VEHICLE_REGISTRATION IN_VOTER",
    "Italy": "IT_DRIVER_LICENSE IT_FISCAL_CODE IT_IDENTITY_CARD IT_PASSPORT IT_VAT_CODE",
    "Korea": "KR_BRN KR_DRIVER_LICENSE KR_FRN KR_PASSPORT KR_RRN",
    "Poland": "PL_PESEL",
    "Singapore": "SG_NRIC_FIN SG_UEN",
    "Spain": "ES_NIE ES_NIF",
    "Thailand": "TH_TNIN",
    "United Kingdom": "UK_NHS UK_NINO",
    "United States": "US_BANK_NUMBER US_DRIVER_LICENSE US_ITIN US_PASSPORT US_SSN",
}

ENTITY_TYPES: Final = frozenset(name for names in _BY_REGION.values() for name in names.split())
