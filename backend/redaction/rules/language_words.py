"""Words that indicate the language of a text, and names of countries and currencies, in small letters."""

from typing import Final

LANGUAGES: Final[dict[tuple[str, ...], str]] = {
    # Spanish.
    ("ES",): (
        "al apellidos calle ciudad cliente como con correo del dirección el estimado está fecha gracias hola hoy las "
        "llamar llame llámame llámeme los mañana mi muy más móvil nombre para pero por puede saludos señor señora su "
        "teléfono una usted"
    ),
    # Portuguese.
    ("PT", "BR"): (
        "amanhã ao aos apelido até cidade com como contacto cumprimentos da data do em endereço está hoje ligar ligue "
        "mais mas meu minha morada muito nome não obrigada obrigado olá os para pode por prezado rua senhor senhora "
        "são também telefone telemóvel uma você à"
    ),
    # Polish.
    ("PL",): (
        "adres dla do dobry dzień dziękuję dziś imię jest jutro klient komórka kontakt lub miasto mój na nazwisko nie "
        "numer od oraz pan pani pod pozdrawiam proszę przez się szanowny telefon ul ulica w z zadzwonić zadzwoń że"
    ),
    # Norwegian and Danish.
    ("NO", "DK"): (
        "adresse af av dato deg det dig du efter er etter for fra fødselsdato har hei hej hilsen ikke jeg kan kjære "
        "kunde kære med meg mig mobil navn og postnummer på ring som tak takk telefon til venlig vennlig vi vil å"
    ),
    # Swedish.
    ("SE",): (
        "adress att av den det dig efter ett från för har hej hälsningar inte jag kan kund med mig mobil namn och på "
        "ring som tack telefon till vi vänliga är"
    ),
    # Finnish.
    ("FI",): (
        "asiakas ei että hei hän ja kiitos kun minä mutta myös nimi on osoite puhelin puhelinnumero se soita tai "
        "terveisin"
    ),
    # Czech and Slovak.
    ("CZ", "SK"): (
        "adresa den dnes dobrý děkuji je jméno meno mobil město na nebo od pan paní pozdravem priezvisko pro prosím "
        "příjmení s se telefon ulice vážený zavolejte zákazník zítra číslo ďakujem že"
    ),
    # Hungarian.
    ("HU",): ("az cím egy hogy hívjon kérem köszönöm nem név telefon tisztelt utca van és üdvözlettel ügyfél"),
    # Romanian.
    ("RO",): ("adresa bună client cu din este la mulțumesc nu nume pentru prenume salut str sunt să telefon vă şi și"),
    # German.
    ("DE", "AT", "CH"): (
        "anschrift auf bitte danke das der die ein eine für geehrte grüße grüßen heute ich ihr ihre ist kunde mich "
        "mit morgen nachname nicht ort rufen sehr sie straße telefon und unter von vorname wir"
    ),
    # French.
    ("FR", "BE", "CH"): (
        "adresse appelez au avec bonjour client cordialement dans demain des est je le les madame merci mon monsieur "
        "nom nous pas pour prénom rue sur téléphone une ville votre vous"
    ),
    # Italian.
    ("IT",): (
        "alle buongiorno cellulare che chiamare chiami città cliente cognome con dal del della domani gentile gli "
        "grazie il indirizzo lo mi nome non oggi per saluti signor signora sono telefono una via è"
    ),
    # Dutch.
    ("NL", "BE"): (
        "aan adres bel bereikbaar dank dat een en geachte graag groet groeten het ik is klant met mij mobiel morgen "
        "naam niet ook op straat telefoon u van voor voornaam wij woonplaats"
    ),
    # Turkish.
    ("TR",): ("ad adres bir bu değil ile için lütfen merhaba müşteri sayın soyad telefon teşekkür teşekkürler ve"),  # noqa: RUF001 - a letter of Turkish
}
"""Words that are frequent in one language and rare in others, and words of its forms, by countries of the language."""
COUNTRIES: Final[dict[str, str]] = {
    "AR": "argentina argentinien",
    "AT": "austria autriche oostenrijk österreich",
    "AU": "aud australia australien",
    "BE": "belgien belgio belgique belgium belgië bélgica",
    "BR": "brasil brasilien brazil brl brésil",
    "CH": "chf schweiz suisse suiza suíça svizzera switzerland szwajcaria zwitserland",
    "CL": "chile",
    "CO": "colombia kolumbien",
    "CZ": "cechia chequia czech czechia czechy czk kč tchéquie tschechien tsjechië česko",
    "DE": "alemanha alemania allemagne deu deutschland duitsland germania germany niemcy",
    "DK": "danemark dania danimarca danmark denemarken denmark dinamarca dkk dänemark",
    "ES": "esp espagne espanha españa hiszpania spagna spain spanien spanje",
    "FI": "finland finlande finlandia finnland suomi",
    "FR": "france francia francja frankreich frankrijk frança",
    "GB": "england gbr großbritannien scotland uk wales",
    "GR": "grecia greece griechenland grèce ελλάδα",
    "HU": "hongrie huf hungary hungría magyarország ungarn",
    "IE": "ireland irland irlanda irlande",
    "IN": "inde india indien inr",
    "IT": "italia italie italien italië italy itália włochy",
    "JP": "japan 日本",
    "KR": "korea",
    "MX": "mexico mexiko mexique mxn méxico",
    "NL": "holland nederland netherlands niederlande nld",
    "NO": "nok noorwegen norge noruega norvegia norvège norway norwegen",
    "PL": "pln pol poland polen pologne polonia polsce polska polônia zł",
    "PT": "lisboa portogallo portugal portugalia prt",
    "RO": "romania românia roumanie rumänien",
    "RU": "russia россия рф",
    "SE": "schweden sek suecia suède sverige svezia swe sweden szwecja zweden",
    "SG": "singapore",
    "SK": "slovakia slovensko slowakei",
    "TR": "turkey turquie türkei türkiye",
    "UA": "ukraine україна",
}
"""Names of countries in several languages, and of their currencies, by their ISO 3166 codes."""
