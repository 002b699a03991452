"""Rules for addresses: a street with its number, a place with its code, and what follows a field."""

from typing import Final

from backend.redaction.rules.rule import Rule

_UPPER: Final = "\u00c0-\u00de"
_LOWER: Final = "\u00df-\u00ff"
_BEGIN: Final = f"[A-Z{_UPPER}\u00ff]"
_WORD: Final = f"{_BEGIN}[A-Za-z{_UPPER}{_LOWER}'.-]{{1,30}}"
# The words that the postal services of the United States and Britain end the names of streets with.
_STREET: Final = (
    "Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Drives|Court|Ct|Courts|Way|Ways|Square|Squares|Sq|"
    "Place|Pl|Terrace|Ter|Close|Alley|Arcade|Bridge|Brook|Bypass|Causeway|Center|Centre|Circle|Cir|Cliff|Common|Corner|"
    "Corners|Course|Cove|Creek|Crescent|Crest|Crossing|Crossroad|Dale|Dam|Estate|Estates|Expressway|Extension|Falls|"
    "Ferry|Field|Fields|Flat|Flats|Ford|Forest|Forge|Fork|Fort|Freeway|Garden|Gardens|Gateway|Glen|Green|Grove|Harbor|"
    "Haven|Heights|Highway|Hwy|Hill|Hills|Hollow|Inlet|Island|Islands|Isle|Junction|Key|Keys|Knoll|Knolls|Lake|Lakes|"
    "Landing|Light|Loaf|Lock|Lodge|Loop|Mall|Manor|Meadow|Meadows|Mews|Mill|Mills|Mission|Motorway|Mount|Mountain|Neck|"
    "Orchard|Oval|Overpass|Park|Parks|Parkway|Pkwy|Pass|Passage|Path|Pike|Pine|Pines|Plain|Plains|Plaza|Point|Points|"
    "Port|Ports|Prairie|Radial|Ramp|Ranch|Rapid|Rapids|Rest|Ridge|Ridges|River|Route|Row|Rue|Run|Shoal|Shoals|Shore|"
    "Shores|Skyway|Spring|Springs|Spur|Station|Stravenue|Stream|Summit|Throughway|Trace|Track|Trafficway|Trail|Tunnel|"
    "Turnpike|Underpass|Union|Valley|Viaduct|View|Views|Village|Villages|Ville|Vista|Walk|Walks|Wall|Well|Wells"
)
_UNIT: Final = r"(?:,? (?:Apt\.?|Apartment|Suite|Ste\.?|Unit|Flat|Floor|#) ?[0-9A-Za-z-]{1,6})?"
_OF: Final = (
    "(?:de la|de l'|de los|de las|des|del|della|delle|degli|dei|de|du|da|do|dos|d'|l'|la|le|les|las|los|el|et|e|y|"
    "van de|van der|van|den|der|am|an der|im|in der|auf dem|zum|zur|von|a|à la|aux|en)"
)
_WORDS: Final = f"(?:(?:{_OF} ?){{0,2}}{_WORD} ?){{1,5}}"
_NUMBER: Final = "[0-9]{1,4}(?: ?[a-zA-Z])?"
_WAYS: Final = r"Straße|Strasse|Str\.|Gasse|Weg|Platz|Allee|Ring|Damm|Ufer"
_FRENCH: Final = (
    "rue|avenue|av\\.|boulevard|bd|place|chemin|allée|impasse|quai|route|cours|square|passage|sentier|"
    "faubourg|rond-point"
)
_SOUTHERN: Final = (
    "Calle|C/|Avenida|Avda\\.?|Av\\.|Plaza|Paseo|Camino|Ronda|Carrer|Pasaje|Callejón|Vía|Glorieta|Rambla|Cuesta|"
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
    "ulica|adres zamieszkania"
)
_PART: Final = f"(?:[0-9]{{1,5}}[A-Za-z]?(?:[-/][0-9A-Za-z]{{1,5}})?|{_WORD}|[A-Z]{{1,3}}[0-9]{{0,2}}[A-Z]?)"
_VALUE: Final = f"{_PART}(?:,? ?(?:{_OF} )?(?: ?{_PART}|(?:{_FRENCH}|nº|bis|ter|piso|apt\\.?) ?)){{0,9}}"

RULES: Final = (
    Rule(
        "LOCATION",
        rf"[0-9]{{1,5}}[A-Za-z]? (?:[A-Z][0-9A-Za-z'.-]{{0,20}} ){{1,3}}(?:{_STREET}){_UNIT}",
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
        rf"(?:[0-9]{{1,4}}(?: ?(?:bis|ter))?,? )?(?i:{_FRENCH}) {_WORDS}(?<! )",
        0.8,
        longest=280,
        opening=rf"(?:[0-9]{{1,4}}(?: ?(?:bis|ter))?,? )?(?i:{_FRENCH}) (?:{_OF} ?){{0,2}}{_BEGIN}",
        numeric=False,
    ),
    Rule(
        "LOCATION",
        rf"(?:{_SOUTHERN}) ?{_WORDS},? ?(?:nº? ?\.?)?{_NUMBER}",
        0.8,
        longest=280,
        opening=rf"(?:{_SOUTHERN}) ?(?:{_OF} ?){{0,2}}{_BEGIN}",
    ),
    # A city before the state and the code of the United States, or after its code where a line or a part of it begins.
    Rule("LOCATION", rf"(?:{_WORD} ){{0,2}}{_WORD},? [A-Z]{{2}} [0-9]{{5}}(?:-[0-9]{{4}})?", 0.8, longest=120),
    Rule("LOCATION", "[A-Z]{1,2}[0-9][0-9A-Z]? [0-9][ABD-HJLNP-UW-Z]{2}", 0.8),
    Rule(
        "LOCATION",
        rf"(?:(?m:^)[ \t>\"]{{0,4}}|, )([0-9]{{4,5}} {_WORD}(?:[ -](?:{_OF} )?{_WORD}){{0,4}})"
        r"(?=[ \t]{0,2}[\r\n.,;\"]|\Z)",
        0.8,
        longest=260,
        opening=rf"(?:(?m:^)[ \t>\"]{{0,4}}|, )[0-9]{{4,5}} {_BEGIN}",
        before="",
        after="",
    ),
    Rule(
        "LOCATION",
        f"(?i:{_FIELDS})[\"']?[ ]?[:=][ ]?[\"']?({_VALUE})",
        0.8,
        longest=700,
        opening=f"(?i:{_FIELDS})[\"']?[ ]?[:=][ ]?[\"']?[0-9A-Z{_UPPER}\u00ff]",
        numeric=False,
    ),
)
