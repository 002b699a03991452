"""Forms of names of people in normalised text, and words that no name has."""

from typing import Final

UPPER: Final = "\u00c0-\u00de"
LOWER: Final = "\u00df-\u00ff"
# Every letter beyond Latin-1 is read as \u00ff, upper case or lower.
BEGIN: Final = f"[A-Z{UPPER}\u00ff]"
# O'Connor, N'Diaye, McDonald and LeBlanc have a capital inside.
NAME: Final = f"(?:{BEGIN}'?[A-Z{UPPER}]?[a-z{LOWER}]{{1,30}}(?:'?[A-Z{UPPER}][a-z{LOWER}]{{1,30}})?)"
_CAPITALS: Final = f"(?:[A-Z{UPPER}]'?[A-Z{UPPER}\u00ff]{{1,30}})"
PARTICLES: Final = (
    "(?:(?:van|von|vom|zu|zum|zur|de|del|della|dei|degli|der|den|ten|ter|da|das|do|dos|di|du|des|la|le|el|al|bin|ibn|"
    "ben|y|e|i|af|av|Mc|Mac|O'|d')[ ]?){0,3}"
)
INITIALS: Final = "(?:[A-Z]\\.[ -]?){0,3}"
NEXT: Final = f"(?:[ -]{PARTICLES}{NAME}|[ ][A-Z]\\.)"
NAMES: Final = f"{INITIALS}{PARTICLES}{NAME}{NEXT}{{0,4}}"
FULL_NAMES: Final = f"(?:(?:[A-Z]\\. ?){{1,3}}{PARTICLES}{NAME}|{NAME}{NEXT}){NEXT}{{0,3}}"
_CAPITAL_NAMES: Final = f"{_CAPITALS}(?:[ -]{_CAPITALS}){{0,3}}"
FAMILY_FIRST: Final = (
    f"(?:{_CAPITAL_NAMES}|{PARTICLES}{NAME}(?:[ -]{NAME}){{0,2}}), ?(?:{NAME}(?:[ -]{NAME}){{0,2}}|{_CAPITALS})"
    "(?: [A-Z]\\.)?"
)
CAPITAL_FIRST: Final = f"{_CAPITALS}(?:[ -]{_CAPITALS}){{0,2}},? {NAME}(?:[ -]{NAME}){{0,2}}(?: [A-Z]\\.)?"
FAMILY_LAST: Final = f"{NAME}(?:[ -]{NAME}){{0,2}} {_CAPITALS}(?:[ -]{_CAPITALS}){{0,2}}"
FULL_CAPITALS: Final = f"{_CAPITALS}(?:[ -]{_CAPITALS}){{1,3}}"
CAPITAL_NAMES: Final = _CAPITAL_NAMES
LONGEST: Final = 620
"""Characters of the longest name with what stands before it."""

# Words of signatures and fields that name no person, and words that begin an ordinary line.
_NO_NAMES: Final = frozenset(
    (
        *("team", "support", "service", "services", "customer", "customers", "sales", "marketing", "office", "group"),
        *("department", "company", "staff", "bank", "management", "administration", "administrator", "admin", "desk"),
        *("system", "systems", "solutions", "software", "university", "hospital", "institute", "insurance", "hotline"),
        *("foundation", "association", "committee", "council", "board", "inc", "llc", "ltd", "plc", "corp", "gmbh"),
        *("ag", "kundenservice", "kundendienst", "vertrieb", "abteilung", "buchhaltung", "attachment", "attachments"),
        *("enclosure", "enclosures", "notes", "note", "date", "subject", "phone", "tel", "mobile", "fax", "email"),
        *("mail", "website", "address", "contact", "the", "this", "that", "these", "your", "you", "our", "my", "we"),
        *("it", "and", "but", "for", "from", "sent", "please", "dear", "hello", "hi", "yes", "no", "ok", "done"),
        *("great", "thanks", "thank", "wishes", "regards", "sincerely", "yours", "error", "warning", "warn", "info"),
        *("debug", "notice", "trace", "fatal", "critical", "all", "everyone", "everybody", "colleagues", "friends"),
        *("folks", "guys", "world", "there", "sir", "madam", "sirs", "hr", "it", "billing", "accounting", "logistics"),
        *("finance", "legal", "unknown", "none", "null", "true", "false", "default", "guest", "user", "root", "test"),
        *("not", "new", "see", "tbd", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
        *("january", "february", "march", "april", "june", "july", "august", "september", "october", "november"),
        *("december", "damen", "herren", "kolleginnen", "kollegen", "zusammen", "alle", "kunde", "kundin", "leute"),
        *("tous", "toutes", "monsieur", "madame", "messieurs", "mesdames", "equipo", "todos", "todas", "cliente"),
        *("client", "clients", "clientes", "servizio", "servicio", "atención", "team's", "helpdesk", "reception"),
        *("request", "response", "order", "invoice", "ticket", "number", "id", "type", "status", "version", "name"),
        *("cluster", "platform", "engineering", "tools", "internal", "network", "graphics", "package", "project"),
        *("projet", "proyecto", "progetto", "projekt", "projeto", "production", "development", "staging", "build"),
        *("usa", "uk", "eu", "canada", "germany", "spain", "italy", "deutschland", "españa", "italia", "html"),
        *("css", "api", "sdk", "sql", "select", "insert", "update", "delete", "json", "xml", "http", "https", "nvidia"),
        *(
            "desktop",
            "device",
            "driver",
            "manager",
            "director",
            "engineer",
            "developer",
            "officer",
            "assistant",
            "head",
        ),
        *("annual", "report", "summary", "design", "data", "web", "cloud", "digital", "global", "central", "general"),
        *("public", "private", "security", "quality", "account", "payment", "delivery", "shipping"),
        *("groet", "groeten", "vriendelijke", "saludos", "grüße"),
        *("release", "candidate", "edition", "table", "chair", "plus", "premium", "plan", "bundle", "snapshot"),
        *("names", "street", "road", "server", "service's", "centre", "center", "shop", "store", "news", "online"),
    )
)


def may_be_person(text: str) -> bool:
    """Returns whether a text in the form of a name has no word that names a group, a thing or a time."""
    return _NO_NAMES.isdisjoint(text.lower().replace("-", " ").replace(",", " ").split())
