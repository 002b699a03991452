"""Entity types that a PII policy may name."""

from typing import Final

_BY_REGION: Final = {
    "everywhere": (
        "CREDIT_CARD CRYPTO DATE_TIME EMAIL_ADDRESS IBAN_CODE IP_ADDRESS LOCATION MAC_ADDRESS MEDICAL_LICENSE NRP "
        "ORGANIZATION PERSON PHONE_NUMBER SECRET URL"
    ),
    "Australia": "AU_ABN AU_ACN AU_MEDICARE AU_TFN",
    "Brazil": "BR_CPF",
    "Finland": "FI_PERSONAL_IDENTITY_CODE",
    "France": "FR_NIR",
    "Germany": "DE_ID_CARD DE_PASSPORT DE_SOCIAL_SECURITY DE_TAX_ID",
    "India": "IN_AADHAAR IN_GSTIN IN_PAN IN_PASSPORT IN_VEHICLE_REGISTRATION IN_VOTER",
    "Ireland": "IE_PPS",
    "Italy": "IT_DRIVER_LICENSE IT_FISCAL_CODE IT_IDENTITY_CARD IT_PASSPORT IT_VAT_CODE",
    "Korea": "KR_BRN KR_DRIVER_LICENSE KR_FRN KR_PASSPORT KR_RRN",
    "Netherlands": "NL_BSN",
    "Poland": "PL_PESEL",
    "Portugal": "PT_CC PT_NIF",
    "Singapore": "SG_NRIC_FIN SG_UEN",
    "Spain": "ES_NIE ES_NIF",
    "Sweden": "SE_PERSONNUMMER",
    "Thailand": "TH_TNIN",
    "United Kingdom": "UK_NHS UK_NINO",
    "United States": "US_BANK_NUMBER US_DRIVER_LICENSE US_ITIN US_PASSPORT US_SSN",
}

ENTITY_TYPES: Final = frozenset(name for names in _BY_REGION.values() for name in names.split())
