"""Countries that a document tells of: by its language, addresses of mails and sites, numbers, names of countries."""

import re
from collections.abc import Iterable
from typing import Final

import phonenumbers

from backend.redaction.rules.regional_phones import REGIONS

MOST_CHARACTERS: Final = 16_384
"""Characters of a document that are read, from its beginning."""
# Words that are frequent in one language and rare in others, with those that stand in forms.
_WORDS: Final = {
    ("ES",): "el los las una por para con est\u00e1 pero m\u00e1s usted muy como hola gracias saludos cliente "
    "tel\u00e9fono correo "
    "direcci\u00f3n nombre apellidos ma\u00f1ana hoy se\u00f1or se\u00f1ora estimado puede llame llamar "
    "ll\u00e1mame ll\u00e1meme m\u00f3vil fecha ciudad "
    "calle mi su del al",
    ("PT", "BR"): "n\u00e3o uma por para com est\u00e1 mas mais voc\u00ea muito como ol\u00e1 obrigado obrigada "
    "cumprimentos telefone morada "
    "endere\u00e7o nome apelido amanh\u00e3 hoje senhor senhora prezado pode ligue ligar telem\u00f3vel "
    "contacto data cidade rua os "
    "aos ao em do da meu minha \u00e0 s\u00e3o at\u00e9 tamb\u00e9m",
    ("PL",): "nie jest si\u0119 na do prosz\u0119 dzi\u0119kuj\u0119 pozdrawiam telefon adres imi\u0119 nazwisko jutro "
    "dzi\u015b pan pani szanowny klient "
    "zadzwoni\u0107 kom\u00f3rka ulica ul miasto oraz lub od przez dla \u017ce kontakt pod numer dzie\u0144 "
    "dobry w z zadzwo\u0144 m\u00f3j",
    ("NO", "DK"):
    "og ikke jeg det er som p\u00e5 til med av af har vi kan hilsen takk tak hei hej telefon adresse navn "
    "kunde kj\u00e6re "
    "k\u00e6re ring meg mig deg dig vennlig venlig postnummer mobil dato vil du etter efter f\u00f8dselsdato "
    "for fra \u00e5",
    ("SE",): "och inte jag det \u00e4r som p\u00e5 till med av har vi h\u00e4lsningar tack hej telefon adress namn "
    "kund ring mig dig f\u00f6r att "
    "fr\u00e5n efter v\u00e4nliga mobil ett den kan",
    ("FI",): "ja ei on ett\u00e4 se h\u00e4n min\u00e4 kiitos terveisin hei puhelin osoite nimi asiakas soita "
    "my\u00f6s mutta tai kun puhelinnumero",
    ("CZ", "SK"): "je na se \u017ee d\u011bkuji \u010fakujem dobr\u00fd den s pozdravem telefon adresa jm\u00e9no meno "
    "p\u0159\u00edjmen\u00ed priezvisko z\u00edtra dnes pan "
    "pan\u00ed v\u00e1\u017een\u00fd pros\u00edm zavolejte z\u00e1kazn\u00edk ulice m\u011bsto nebo pro od "
    "mobil \u010d\u00edslo",
    ("HU",): "\u00e9s nem az egy hogy k\u00f6sz\u00f6n\u00f6m \u00fcdv\u00f6zlettel telefon c\u00edm n\u00e9v tisztelt "
    "h\u00edvjon \u00fcgyf\u00e9l utca van k\u00e9rem",
    ("RO",): "\u0219i \u015fi nu este s\u0103 mul\u021bumesc salut telefon adresa nume prenume client str sunt v\u0103 "
    "pentru cu din la bun\u0103",
    ("DE", "AT", "CH"): "der die das und ist nicht ein eine mit f\u00fcr auf sie ich wir bitte danke gr\u00fc\u00dfe "
    "gr\u00fc\u00dfen telefon "
    "anschrift vorname nachname kunde morgen heute sehr geehrte rufen stra\u00dfe ort f\u00fcr von unter mich ihr ihre",
    ("FR", "BE", "CH"):
    "le les des est une pas pour avec vous nous je merci bonjour cordialement t\u00e9l\u00e9phone adresse nom "
    ""
    "pr\u00e9nom "
    "client demain monsieur madame appelez ville rue sur dans au mon votre",
    ("IT",): "il lo gli una non per con che \u00e8 sono grazie saluti buongiorno telefono indirizzo nome cognome "
    "cliente domani oggi "
    "signor signora gentile chiamare chiami cellulare via citt\u00e0 alle della del mi dal",
    ("NL", "BE"):
    "het een niet en van voor met op is dat ik wij u graag dank groet groeten telefoon adres naam voornaam "
    "klant morgen "
    "geachte bel mobiel straat woonplaats aan ook bereikbaar mij",
    ("TR",): "ve bir bu i\u00e7in ile de\u011fil te\u015fekk\u00fcr te\u015fekk\u00fcrler merhaba telefon adres ad "
    "soyad m\u00fc\u015fteri say\u0131n l\u00fctfen",
}  # fmt: skip
_COUNTRIES: Final = {
    "ES": "spain espa\u00f1a spanien espagne spagna spanje espanha hiszpania esp",
    "PT": "portugal portogallo portugalia prt lisboa",
    "PL": "poland polska polen pologne polonia polska pol\u00f4nia pol polsce z\u0142 pln",
    "NO": "norway norge norwegen norv\u00e8ge noruega norvegia noorwegen nok",
    "DK": "denmark danmark d\u00e4nemark danemark dinamarca danimarca denemarken dania dkk",
    "SE": "sweden sverige schweden su\u00e8de suecia svezia zweden szwecja swe sek",
    "FI": "finland suomi finnland finlande finlandia",
    "CZ": "czechia czech \u010desko tschechien tch\u00e9quie chequia cechia tsjechi\u00eb czechy k\u010d czk",
    "SK": "slovakia slovensko slowakei",
    "HU": "hungary magyarorsz\u00e1g ungarn hongrie hungr\u00eda huf",
    "RO": "romania rom\u00e2nia rum\u00e4nien roumanie",
    "GR": "greece \u03b5\u03bb\u03bb\u03ac\u03b4\u03b1 griechenland gr\u00e8ce grecia",
    "IT": "italy italia italien italie itali\u00eb w\u0142ochy it\u00e1lia",
    "FR": "france frankreich francia frankrijk fran\u00e7a francja",
    "DE": "germany deutschland allemagne alemania germania duitsland alemanha niemcy deu",
    "AT": "austria \u00f6sterreich autriche oostenrijk",
    "CH": "switzerland schweiz suisse svizzera suiza zwitserland su\u00ed\u00e7a szwajcaria chf",
    "NL": "netherlands nederland niederlande  holland nld",
    "BE": "belgium belgi\u00eb belgique belgien b\u00e9lgica belgio",
    "IE": "ireland irland irlande irlanda",
    "GB": "england scotland wales uk gbr gro\u00dfbritannien ",
    "BR": "brazil brasil brasilien br\u00e9sil brl",
    "MX": "mexico m\u00e9xico mexiko mexique mxn",
    "AR": "argentina argentinien",
    "CO": "colombia kolumbien",
    "CL": "chile",
    "IN": "india indien inde inr",
    "AU": "australia australien aud",
    "TR": "turkey t\u00fcrkiye t\u00fcrkei turquie",
    "UA": "ukraine \u0443\u043a\u0440\u0430\u0457\u043d\u0430",
    "RU": "russia \u0440\u043e\u0441\u0441\u0438\u044f \u0440\u0444",
    "JP": "japan \u65e5\u672c",
    "KR": "korea",
    "SG": "singapore",
}
_LANGUAGE_OF: Final[dict[str, list[tuple[str, ...]]]] = {}
for _regions, _listed in _WORDS.items():
    for _word in set(_listed.split()):
        _LANGUAGE_OF.setdefault(_word, []).append(_regions)
_COUNTRY_OF: Final = {word: region for region, words in _COUNTRIES.items() for word in words.split()}
# A short text tells of its language by fewer words.
_SHORT: Final = 400
_FEW: Final = 2
_ENOUGH: Final = 5
_WORD: Final = re.compile(r"[^\W\d_]+")
_DOMAIN: Final = re.compile(r"(?:@|://|\bwww\.)(?:[\w-]{1,63}\.){1,6}([a-z]{2})(?![\w-]|\.\w)")
_GENERIC: Final = frozenset({"AC", "AI", "CC", "CO", "FM", "GG", "IO", "LY", "ME", "SH", "TO", "TV", "WS", "GD", "SC"})
_INTERNATIONAL: Final = re.compile(r"\+([1-9](?:[ ./()-]{0,2}[0-9]){7,14})")
_ZEROS: Final = re.compile(r"(?<![0-9A-Za-z.,-])00([1-9][0-9]{8,13})(?![0-9])")
_IBAN: Final = re.compile(r"([A-Z]{2})[0-9]{2}(?: ?[0-9A-Z]{4}){3,7}")
_COUNTRY_FIELDS: Final = frozenset({"country", "land", "l\u00e4ndercode", "pays", "pa\u00eds", "paese", "kraj", "code"})
_COUNTRY_CODE: Final = re.compile(rf"(?i)(?:{'|'.join(sorted(_COUNTRY_FIELDS))})\W{{1,4}}([A-Z]{{2}})\b")
_SCRIPTS: Final = (
    (re.compile("[\u0370-\u03ff]{4}"), "GR"),
    (re.compile("[\u0456\u0457\u0454\u0491]"), "UA"),
    (re.compile("[\u044b\u044d\u044a]"), "RU"),
    (re.compile("[\u3040-\u30ff]{2}"), "JP"),
    (re.compile("[\uac00-\ud7a3]{2}"), "KR"),
    (re.compile("[\u4e00-\u9fff]{4}"), "CN"),
)


class DocumentRegions:
    """Countries of one document: those of a policy and those that it tells of. Not thread-safe: it reads on."""

    def __init__(self, given: Iterable[str] = ()) -> None:
        self._found = frozenset(given)
        self._left = MOST_CHARACTERS
        self._unread: list[str] = []

    @property
    def found(self) -> frozenset[str]:
        """The countries by their ISO 3166 codes."""
        if self._unread:
            self._found |= _regions_of("\n".join(self._unread))
            self._unread.clear()
        return self._found

    def read(self, text: str) -> None:
        """Takes the next part of the document; it is read only if somebody asks for the countries."""
        if self._left > 0:
            self._unread.append(text[: self._left])
            self._left -= len(text)

    def read_cells(self, cells: Iterable[str], labels: Iterable[str]) -> None:
        """Takes the next cells or values of the document, with the names of their columns or keys."""
        if self._left <= 0:
            return
        for label, cell in zip(labels, cells, strict=True):
            self.read(f"{label}: {cell}")
            if self._left <= 0:
                return


def _regions_of(text: str) -> frozenset[str]:
    lower = text.lower()
    words = set(_WORD.findall(lower))
    found = {_COUNTRY_OF[word] for word in words & _COUNTRY_OF.keys()}
    counts: dict[tuple[str, ...], int] = {}
    for word in words & _LANGUAGE_OF.keys():
        for regions in _LANGUAGE_OF[word]:
            counts[regions] = counts.get(regions, 0) + 1
    if counts:
        most = max(counts.values())
        if most >= (_FEW if len(text) < _SHORT else _ENOUGH):
            found.update(region for regions, count in counts.items() if count == most for region in regions)
    if "@" in lower or "://" in lower or "www." in lower:
        top = {code.upper() for code in _DOMAIN.findall(lower)}
        found |= {"GB" if code == "UK" else code for code in top - _GENERIC}
    found |= set(_IBAN.findall(text))
    if words & _COUNTRY_FIELDS:
        found |= {code.upper() for code in _COUNTRY_CODE.findall(text)}
    numbers = _INTERNATIONAL.findall(text) if "+" in text else []
    for number in numbers + _ZEROS.findall(text):
        found |= _region_of_number(re.sub("[^0-9]", "", number))
    if not text.isascii():
        found |= {region for script, region in _SCRIPTS if script.search(text) is not None}
    return frozenset(found & REGIONS)


def _region_of_number(digits: str) -> set[str]:
    if digits.startswith("1"):
        # Numbers of North America have rules of their own.
        return set()
    for size in (1, 2, 3):
        regions = phonenumbers.COUNTRY_CODE_TO_REGION_CODE.get(int(digits[:size]))
        if regions is not None:
            return {regions[0]}
    return set()
