"""Entity types by the name of a column or key, for values that no pattern describes: names, places, groups."""

import functools
import re
from collections.abc import Collection, Mapping
from typing import Final

from backend.redaction.rules.name_forms import CAPITAL_FIRST, FAMILY_FIRST, FULL_CAPITALS, FULL_NAMES

PART_SCORE: Final = 0.85
"""Score of a cell under the label of names that stands beside one of family names or of given names."""
NAMED_SCORE: Final = 0.8
"""Score of a cell in the form of a name under a label that may name persons."""
_FULL_NAME: Final = re.compile(f"(?:{FULL_NAMES}|{FAMILY_FIRST}|{CAPITAL_FIRST}|{FULL_CAPITALS})", re.ASCII)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BETWEEN: Final = re.compile(r"[^0-9A-Za-z\u0080-\U0010ffff]+")
_PERSONS: Final = (
    "customer|client|patient|employee|user|contact|account ?holder|card ?holder|holder|author|owner|manager|doctor|"
    "physician|student|teacher|applicant|beneficiary|guest|passenger|driver|tenant|signatory|spouse|parent|guardian|"
    "mother|father|emergency contact|person|volunteer|member|recipient|sender|buyer|seller|billing|shipping|legal"
)
_NAMES: Final = (
    f"(?:first|last|middle|full|given|family|maiden|birth|sur|fore|(?:{_PERSONS})s?(?: full| first| last)?) ?names?|"
    "surname|forename|nachname|vorname|familienname|geburtsname|zuname|vollständiger name|name vorname|"
    "nom|prénom|prenom|nom de famille|nom complet|nom du client|nom et prénom|nombre completo|nombre y apellidos|"
    "(?:primer |segundo )?apellidos?|cognome|nome completo|sobrenome|apelido|achternaam|voornaam|familienaam|"
    "contact ?person|ansprechperson(?:en)?|persona de contacto|personne à contacter|"
    "imię|imie|nazwisko|imię i nazwisko|kund(?:e|in)|kundenname|ansprechpartner(?:in)?|kontoinhaber(?:in)?|titulaire|"
    "titular|intestatario|rekeninghouder|policy ?holder|insured(?: name)?|kunde name|name (?:des )?kunden?|"
    "patientenname|klant ?naam|naam klant|volledige naam|nominativo|nome cliente|nombre cliente|nombre del cliente|"
    "nome do cliente|nome del cliente|imi\u0119 nazwisko|nazwa klienta|assur\u00e9|asegurad[oa]|segurad[oa]|"
    "versicherte[rn]?|"
    "versicherungsnehmer(?:in)?|name first|name last|name given|name family|nom client|"
    "\u0438\u043c\u044f|\u0444\u0430\u043c\u0438\u043b\u0438\u044f|"
    "\u043e\u0442\u0447\u0435\u0441\u0442\u0432\u043e|\u0444\u0438\u043e|\u043f\u0456\u0431|\u0456\u043c "
    "\u044f|\u043f\u0440\u0456\u0437\u0432\u0438\u0449\u0435|\u043a\u043b\u0438\u0435\u043d\u0442|"
    "\u03cc\u03bd\u03bf\u03bc\u03b1|\u03b5\u03c0\u03ce\u03bd\u03c5\u03bc\u03bf|"
    "\u03bf\u03bd\u03bf\u03bc\u03b1\u03c4\u03b5\u03c0\u03ce\u03bd\u03c5\u03bc\u03bf|"
    "(?:\u0627\u0644)?\u0627\u0633\u0645(?: \u0627\u0644\u0643\u0627\u0645\u0644)?|"
    "\u0627\u0644\u0644\u0642\u0628|\u59d3\u540d|\u540d\u5b57|\u59d3|\u6c0f\u540d|\u304a?\u540d\u524d|"
    "\uc774\ub984|\uc131\uba85"
)
_PERSONS_ABROAD: Final = (
    "mitarbeiter(?:in)?|patientin|mieter(?:in)?|empfänger|absender|inhaber|sachbearbeiter|kontakt|kontaktperson|"
    "cliente?|destinataire|expéditeur|salarié|employé|locataire|bénéficiaire|interlocuteur|paciente|contacto|"
    "destinatario|remitente|empleado|beneficiario|paziente|contatto|mittente|dipendente|referente|klant|"
    "contactpersoon|afzender|ontvanger|werknemer|contato|remetente|destinatário|funcionário|klient(?:ka)?|"
    "pacjent(?:ka)?|nadawca|odbiorca|pracownik|soci[oa]|voluntari[oa]|freiwilliger?|bénévole|vrijwilliger"
)
_PLACES: Final = (
    "(?:(?:home|work|street|postal|mailing|billing|shipping|delivery|residential)? ?address(?: ?line)?(?: ?[0-9])?)|"
    "line ?[0-9]|street|street ?(?:name|no|number)|city|town|village|post ?code|postal ?code|zip|zip ?code|plz|"
    "birth ?place|place of birth|lat|lng|lon|latitude|longitude|geo ?location|"
    "anschrift|adresse|wohnort|ort|stadt|straße|strasse|hausnummer|postleitzahl|geburtsort|lieferadresse|"
    "rechnungsadresse|adresse(?: postale| de livraison| de facturation| ?[0-9])|rue|ville|commune|code postal|"
    "lieu de naissance|dirección|direccion|domicilio|calle|ciudad|localidad|municipio|código postal|codigo postal|cp|"
    "lugar de nacimiento|indirizzo|residenza|"
    "residence|residencia|residência|résidence|población|poblacion|via|"
    "città|citta|comune|cap|luogo di nascita|adres|straat|straatnaam|"
    "huisnummer|woonplaats|plaats|postcode|geboorteplaats|endereço|endereco|morada|rua|cidade|localidade|cep|"
    "ulica|miasto|miejscowość|kod pocztowy|miejsce urodzenia|adres zamieszkania"
)
_GROUPS: Final = (
    "nationality|citizenship|ethnicity|ethnic ?group|race|religion|political ?(?:party|affiliation)|denomination|"
    "staatsangehörigkeit|nationalität|konfession|nationalité|nacionalidad|religión|nazionalità|cittadinanza|"
    "nationaliteit|nacionalidade|obywatelstwo"
)
_BORN: Final = (
    "dob|date ?of ?birth|birth ?date|birth ?day|born|birth ?year|year of birth|geburtsdatum|geburtstag|geb ?datum|"
    "geboren|date de naissance|naissance|né le|née le|fecha de nacimiento|fecha nacimiento|nacimiento|data di nascita|"
    "nascita|geboortedatum|data de nascimento|nascimento|data urodzenia"
)
_SECRETS: Final = (
    "(?:db|database|user|admin|root|smtp|imap|mail|ftp|sftp|ssh|ldap|mysql|postgres|postgresql|pg|redis|mongo|"
    "rabbitmq|app|service|master|proxy|login|keystore|truststore) ?(?:pass|pw|pwd|passwor[dt]|passwd)|pwd|redis auth|"
    "passwor[dt]|passwd|passphrase|passcode|kennwort|mot de passe|contraseña|senha|wachtwoord|hasło|"
    "api ?key|secret|secret ?key|client ?secret|(?:access|auth|refresh|bearer) ?token|private ?key|"
    "pre ?shared ?key"
)
# Labels of a part of a name that is the other part where only one of both has a label of its own: Apellidos and Nombre.
_OTHER_PART: Final = re.compile("names?|nombres?|nomi|nomes?|naam")
_FAMILY: Final = re.compile(
    "(?:sur|last ?|family ?)names?|nachname|familienname|zuname|nom de famille|(?:primer |segundo )?apellidos?|cognome|"
    "sobrenome|apelido|achternaam|familienaam|nazwisko"
)
_GIVEN: Final = re.compile("(?:first|given|fore) ?names?|vornamen?|prénoms?|prenoms?|voornaam|voornamen|imię|imie")
_NAME_WORD: Final = re.compile("name|nom|naam")
_SURE: Final = 0.85
PRIVATE_MEMBER: Final = "private member of a key"
"""Plain label of the secret numbers of a key that is written as an object."""
LABEL_RULES: Final = (
    ("PERSON", _NAMES, 0.85),
    ("PERSON", f"names?|nombre|nome|naam|(?:{_PERSONS})s?|{_PERSONS_ABROAD}", 0.6),
    ("LOCATION", _PLACES, 0.85),
    ("LOCATION", "country|state|region|province|county|location|place|district|land|bundesland|pays|país|paese", 0.6),
    ("ORGANIZATION", "company(?: ?name)?|organi[sz]ation(?: ?name)?|employer(?: ?name)?|firma", 0.85),
    ("ORGANIZATION", "vendor|supplier|manufacturer|school|university|hospital|bank", 0.6),
    ("NRP", _GROUPS, 0.85),
    ("DATE_TIME", _BORN, 0.85),
    ("SECRET", _SECRETS, 0.85),
    ("SECRET", PRIVATE_MEMBER, 0.95),
)
"""Entity type, pattern of the plain names of columns and keys, score."""
_PATTERNS: Final = tuple((entity, re.compile(words), score) for entity, words, score in LABEL_RULES)

_ANY: Final = re.compile("|".join(words for _, words, _ in LABEL_RULES))


@functools.lru_cache(maxsize=4096)
def plain_label(name: str) -> str:
    """Returns the name of a column or key as words: `customerSSN` and `customer_ssn` are "customer ssn"."""
    return _BETWEEN.sub(" ", _HUMP.sub(" ", name[:200])).strip().lower()


@functools.lru_cache(maxsize=4096)
def label_entities(label: str) -> tuple[tuple[str, float], ...]:
    """Returns the entity types, with scores, that a plain label gives to every whole value under it."""
    if _ANY.fullmatch(label) is None:
        return ()
    return tuple((entity, score) for entity, pattern, score in _PATTERNS if pattern.fullmatch(label))


def other_parts(counts: Mapping[str, int]) -> Collection[str]:
    """Returns the labels that are of the other part of a name beside a label of one part, as Nombre beside Apellidos.

    `counts` are of the cells by their labels. Things may be called so too: each such cell has one of the part beside
    it, and most of these have such a cell; and no other label tells whose name it is.
    """
    plain = {label: plain_label(label) for label in counts}
    named = {label for label in counts if ("PERSON", _SURE) in label_entities(plain[label])}
    family = {label for label in named if _FAMILY.fullmatch(plain[label]) is not None}
    given = {label for label in named if _GIVEN.fullmatch(plain[label]) is not None}
    others = [label for label in named - family - given if _NAME_WORD.search(plain[label]) is not None]
    if bool(family) == bool(given) or others:
        return ()
    most = max(counts[label] for label in family | given)
    return [
        label
        for label, words in plain.items()
        if most <= 2 * counts[label] <= 2 * most and _OTHER_PART.fullmatch(words) is not None
    ]


def may_name(label: str) -> bool:
    """Returns whether a plain label may name persons, and something else as well."""
    return any(entity == "PERSON" for entity, _ in label_entities(label))


def has_name_form(cell: str) -> bool:
    """Returns whether a normalised cell has the form of a person's name, of two words or more."""
    return _FULL_NAME.fullmatch(cell) is not None
