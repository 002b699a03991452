"""Rules for addresses: a street with its number, a place with its code, and what follows a field."""

from typing import Final

from backend.redaction.rules.rule import AFTER_SIGN, BEFORE_SIGN, Rule, for_opening

_UPPER: Final = "\u00c0-\u00de"
_LOWER: Final = "\u00df-\u00ff"
_BEGIN: Final = f"[A-Z{_UPPER}\u00ff]"
# A quote at its end closes what stands around it.
_WORD: Final = f"{_BEGIN}[A-Za-z{_UPPER}{_LOWER}'.-]{{0,29}}[A-Za-z{_UPPER}{_LOWER}.-]"
_STREET: Final = (
    "Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Way|Square|Sq|Place|Pl|Terrace|Close|"
    "Crescent|Parkway|Pkwy|Highway|Hwy|Mews|Grove|Gardens"
)
# Other words that the postal service of the United States ends the names of streets with.
_RARE_STREET: Final = (
    "Alley|Arcade|Bridge|Brook|Bypass|Causeway|Center|Centre|Circle|Cir|Cliff|Common|Corners?|Courts|Cove|Creek|Crest|"
    "Crossing|Crossroad|Dale|Dam|Drives|Estates?|Expressway|Extension|Falls|Ferry|Fields?|Flats?|Ford|Forest|Forge|Fork|"
    "Fort|Freeway|Garden|Gateway|Glens?|Greens?|Groves|Harbors?|Haven|Heights|Hills?|Hollow|Inlet|Islands?|Isle|"
    "Junctions?|Keys?|Knolls?|Lakes?|Landing|Light|Loaf|Locks?|Lodge|Loop|Mall|Manors?|Meadows?|Mills?|Mission|Motorway|"
    "Mount|Mountains?|Neck|Orchard|Oval|Overpass|Parks?|Pass|Passage|Path|Pike|Pines?|Plains?|Plaza|Points?|Ports?|"
    "Prairie|Radial|Ramp|Ranch|Rapids?|Rest|Ridges?|River|Route|Row|Rue|Run|Shoals?|Shores?|Skyway|Springs?|Spur|"
    "Squares|Station|Stravenue|Stream|Streets|Summit|Throughway|Trace|Track|Trafficway|Trail|Tunnel|Turnpike|Underpass|"
    "Unions?|Valleys?|Viaduct|Views?|Villages?|Ville|Vista|Walks?|Wall|Ways|Wells?"
)
_UNIT: Final = r"(?:,? (?:Apt\.?|Apartment|Suite|Ste\.?|Unit|Flat|Floor|#) ?[0-9A-Za-z-]{1,6})?"
_OF: Final = (
    "(?:de la|de l'|de los|de las|des|del|della|delle|degli|dei|de|du|da|do|dos|d'|l'|la|le|les|las|los|el|et|e|y|"
    "van de|van der|van|den|der|am|an der|im|in der|auf dem|zum|zur|von|a|à la|aux|en)"
)
_WORDS: Final = f"(?:(?:{_OF} ?){{0,2}}{_WORD} ?){{1,5}}"
# A house number with what follows it: a letter, a staircase, a floor, a flat.
_NUMBER: Final = (
    r"[0-9]{1,4}(?: ?[a-zA-Z])?(?: ?[/-] ?(?:[0-9]{1,4}[a-zA-Z]?|[IVX]{1,4}))?"
    r"(?:,? (?:m\.|lok\.|apt\.?|piso|bis|ter|[0-9]{1,2}\.?[\xba\xb0\xaa]) ?[0-9]{0,3})?(?: (?:izda|dcha|dto|"
    r"esq|Dto|Esq|Izda|Dcha)\.?)?"
)
_WAYS: Final = r"Straße|Strasse|Str\.|Gasse|Weg|Platz|Allee|Ring|Damm|Ufer"
_FRENCH: Final = (
    "rue|avenue|av\\.|boulevard|bd|place|chemin|allée|impasse|quai|route|cours|square|passage|sentier|"
    "faubourg|rond-point"
)
_SOUTHERN: Final = (
    "calle|avenida|avda\\.|plaza|paseo|viale|piazza|corso|rua|travessa|praça|Calle|C/|Avenida|Avda\\.?|Av\\.|Plaza|Paseo|Camino|Ronda|Carrer|Pasaje|Callejón|Vía|Glorieta|Rambla|Cuesta|"
    "Alameda|"
    "Acceso|Cañada|Urbanización|Via|Viale|Piazza|Piazzale|Corso|Largo|Vicolo|Strada|Borgo|Contrada|Rua|Travessa|"
    "Praça|Estrada|ul\\.|al\\.|pl\\.|os\\."
)
_FIELDS: Final = (
    "(?:home |work |postal |mailing |billing |shipping |delivery |street |ship.to |bill.to )?address|"
    "ship[ _]to|bill[ _]to|city|town|post ?code|zip(?: code)?|street|place of birth|"
    "anschrift|adresse|wohnort|wohnhaft in|ort|stadt|plz|straße|geburtsort|lieferadresse|rechnungsadresse|"
    "ville|lieu de naissance|domicile|dirección|domicilio|ciudad|localidad|lugar de nacimiento|indirizzo|"
    "residenza|"
    "città|luogo di nascita|adres|woonplaats|geboorteplaats|endereço|morada|cidade|miasto|"
    "ulica|adres zamieszkania|miejscowo\u00ff\u00ff|kod pocztowy|code postal|cp|cap|plaats|código postal|cep|"
    "localidade|"
    "miejsce urodzenia"
)
_PART: Final = (
    f"(?:[0-9]{{1,5}}[A-Za-z]?(?:\\.?[\u00ba\u00b0\u00aa])?(?:[-/][0-9A-Za-z]{{1,5}})?|{_WORD}|"
    f"[A-Z]{{1,3}}[0-9]{{0,2}}[A-Z]?)"
)
_VALUE: Final = f"{_PART}(?:,? ?(?:{_OF} )?(?: ?{_PART}|(?:{_FRENCH}|nº|bis|ter|piso|apt\\.?) ?)){{0,9}}"

# The value of a field may begin with the kind of a street in small letters.
_LOWER_WAYS: Final = (
    f"(?:{_FRENCH}|via|viale|piazza|corso|largo|calle|avenida|plaza|paseo|rua|travessa|praça|ul\\.|ulica|os\\.) "
    f"(?:{_OF} )?"
)
_IS: Final = f"[\"']?{BEFORE_SIGN}[:=]{AFTER_SIGN}[\"']?"
_COUNTED: Final = (
    "(?:Euros?|EUR|USD|Items?|Rows?|Lines?|Users?|Files?|Bytes?|Requests?|Records?|Stück|Einwohner|Mitglieder|Personen|People|"
    "Points?|Tests?|Years?|Days?|Hours?|Units?|Steps?|Events?|Zeilen|Dateien|Kunden|Customers?)(?![a-z])"
)
# The lines or parts of an address before its postal code.
_CODE: Final = (
    r"(?!(?:19|20)[0-9]{2} )(?:(?:[A-Z]{1,2}-)?[0-9]{4,5} |[0-9]{2}-[0-9]{3} |[0-9]{4}-[0-9]{3} |[0-9]{3} "
    r"[0-9]{2} |[0-9]{4} ?[A-Z]{2} |"
    r"[A-Z]{1,2}[0-9][0-9A-Z]? [0-9][A-Z]{2}(?![A-Z]))"
)

RULES: Final = (
    # One Way of doing things is none.
    Rule(
        "LOCATION",
        rf"[0-9]{{1,5}}[A-Za-z]? (?:[A-Z][0-9A-Za-z'.-]{{0,20}} ){{1,3}}(?:{_STREET})(?! of ){_UNIT}",
        0.8,
        longest=160,
        opening=rf"[0-9]{{1,5}}[A-Za-z]? (?:[A-Z][0-9A-Za-z'.-]{{0,20}} ){{1,3}}(?:{_STREET})",
    ),
    Rule(
        "LOCATION",
        rf"[0-9]{{3,5}} (?:[A-Z][0-9A-Za-z'.-]{{0,20}} ){{1,3}}(?:{_RARE_STREET}){_UNIT}",
        0.8,
        longest=160,
    ),
    Rule(
        "LOCATION",
        rf"[A-Z{_UPPER}][a-z{_LOWER}-]{{2,30}}(?:straße|strasse|str\.|gasse|weg|platz|allee|ring|damm|ufer|straat|laan|plein|"
        rf"gracht|kade|singel) {_NUMBER}",
        0.8,
    ),
    Rule(
        "LOCATION",
        rf"(?:{_WORD}[ -]){{1,3}}(?:{_WAYS}) {_NUMBER}",
        0.8,
        longest=160,
        opening=rf"{_WORD}[ -](?:{_WORD}[ -]){{0,2}}(?:{_WAYS}) [0-9]",
    ),
    Rule(
        "LOCATION",
        rf"(?!(?:Place|Route|Cours|Square|Passage|Rue) (?!(?:{_OF}) ))"
        rf"(?:[0-9]{{1,4}}(?: ?(?:bis|ter))?,? )?(?i:{_FRENCH}) {_WORDS}(?<! )(?: ?,? [0-9]{{1,4}}(?![0-9]))?",
        0.8,
        longest=300,
        opening=rf"(?:[0-9]{{1,4}}(?: ?(?:bis|ter))?,? )?(?i:{_FRENCH}) (?:{_OF} ?){{0,2}}{_BEGIN}",
        numeric=False,
    ),
    Rule(
        "LOCATION",
        rf"(?:{_SOUTHERN}) ?{_WORDS},? ?(?:nº? ?\.?)?{_NUMBER}",
        0.8,
        longest=300,
        opening=rf"(?:{_SOUTHERN}) ?(?:{_OF} ?){{0,2}}{_BEGIN}",
    ),
    # A city before the state and the code of the United States, or after its code where a line or a part of it begins.
    Rule("LOCATION", rf"(?:{_WORD} ){{0,2}}{_WORD},? [A-Z]{{2}} [0-9]{{5}}(?:-[0-9]{{4}})?", 0.8, longest=120),
    Rule("LOCATION", "[A-Z]{1,2}[0-9][0-9A-Z]? [0-9][ABD-HJLNP-UW-Z]{2}", 0.8),
    Rule(
        "LOCATION",
        rf"(?:(?m:^)[ \t>\"]{{0,4}}|, )((?:[A-Z]{{1,2}}-)?(?:[0-9]{{5}}|(?!19)[13-9][0-9]{{3}}|"
        rf"[0-9]{{2}}-[0-9]{{3}}|[0-9]{{4}}-[0-9]{{3}}|"
        rf"[0-9]{{3}} [0-9]{{2}}|[0-9]{{4}} ?[A-Z]{{2}}) (?!{_COUNTED}){_WORD}(?:[ -](?:{_OF} )?{_WORD}){{0,4}})"
        r"(?=[ \t]{0,2}[\r\n.,;\"]|\Z)",
        0.8,
        longest=260,
        opening=rf"(?:(?m:^)[ \t>\"]{{0,4}}|, )(?:[A-Z]{{1,2}}-)?[0-9]{{2,5}}[ -](?:[0-9]{{2,3}} |[A-Z]{{2}} )?"
        rf"{_BEGIN}|"
        rf""
        rf""
        rf"(?:(?m:^)[ \t>\"]{{0,4}}|, )(?:[0-9]{{2,4}}-[0-9]{{3}}|[0-9]{{3}} [0-9]{{2}}|[0-9]{{4}}[A-Z]{{2}}) {_BEGIN}",
        before="",
        after="",
    ),
    Rule(
        "LOCATION",
        f"(?i:{_FIELDS}){_IS}((?:{_LOWER_WAYS})?{_VALUE})",
        0.8,
        longest=700,
        opening=for_opening(f"(?i:{_FIELDS}){_IS}(?:{_LOWER_WAYS})?[0-9A-Z{_UPPER}\u00ff]"),
        numeric=False,
    ),
    # In bold letters of Markdown, with a colon or without.
    Rule(
        "LOCATION",
        rf"(?m:^)[ \t>]{{0,4}}(?:[-*+] )?\*\*(?i:{_FIELDS})(?::\*\*|\*\*:?){AFTER_SIGN}({_VALUE})",
        0.8,
        longest=700,
        opening=for_opening(
            rf"(?m:^)[ \t>]{{0,4}}(?:[-*+] )?\*\*(?i:{_FIELDS})(?::\*\*|\*\*:?){AFTER_SIGN}(?:[0-9]|{_BEGIN})"
        ),
        numeric=False,
        before="",
    ),
    # A street of whatever name, with its number, before a postal code; and the place between them in Britain.
    Rule(
        "LOCATION",
        rf"(?:(?m:^)[ \t>\"]{{0,4}}|[:,] )({_WORDS}{_NUMBER})(?=,? {{0,2}}\r?\n[ \t>]{{0,4}}({_CODE})|, {_CODE})",
        0.8,
        longest=360,
        opening=rf"(?:(?m:^)[ \t>\"]{{0,4}}|[:,] ){_WORDS}[0-9]",
        before="",
        after="",
    ),
    Rule(
        "LOCATION",
        rf"(?:(?:Flat|Apartment|Apt|Unit|Suite|Room) [0-9]{{1,4}}[A-Za-z]?, )?[0-9]{{1,4}}[A-Za-z]? {_WORD}(?: "
        rf"{_WORD}){{0,3}}"
        rf"(?:, {_WORD}(?: {_WORD}){{0,2}}){{1,3}},? [A-Z]{{1,2}}[0-9][0-9A-Z]? [0-9][A-Z]{{2}}",
        0.8,
        longest=460,
        opening=rf"(?:(?:Flat|Apartment|Apt|Unit|Suite|Room) [0-9]|[0-9]{{1,4}}[A-Za-z]? {_WORD}(?: {_WORD}){{0,3}}, "
        rf"{_BEGIN})",
    ),
    # A place before the state and the code of Australia, and a place of birth.
    Rule("LOCATION", rf"(?:{_WORD} ){{0,2}}{_WORD},? (?:NSW|VIC|QLD|WA|SA|TAS|ACT|NT) [0-9]{{4}}", 0.8, longest=120),
    Rule(
        "LOCATION",
        rf"(?:geboren|geb\.|[Nn]acid[oa]|[Nn]at[oa]|[Nn]ée?|[Nn]ascid[oa]|[Bb]orn|[Uu]rodzon[ya]|ur\.|"
        rf"[Gg]eboren)(?: [^\n]{{0,24}})?? "
        rf"(?:in|en|a|à|em|w|te|we) ({_WORD}(?:[ -](?:{_OF} )?{_WORD}){{0,3}})",
        0.8,
        longest=200,
        opening=r"(?:geboren|geb\.|[Nn]acid[oa]|[Nn]at[oa]|[Nn]ée?|[Nn]ascid[oa]|[Bb]orn|[Uu]rodzon[ya]|ur\.|"
        r"[Gg]eboren) ",
        numeric=False,
    ),
)
