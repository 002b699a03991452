"""Words that say that a name is one of a thing (a firm, a brand, a room, a department), in eight languages."""

import functools
import re
from collections.abc import Collection
from typing import Final

from backend.redaction.rules.labels import label_entities, may_name, plain_label

_SURE: Final = 0.8
# Names of columns, keys and fields whose values are no people and no addresses.
_THINGS: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "brand make manufacturer model product department dept section division team queue component module "
        "feature carrier courier supplier publisher laptop notebook device equipment vehicle car machine tool "
        "hardware software theme font provider backend engine edition plan tier license licence framework "
        "platform browser channel topic tag label category subcategory colour color material status state "
        "currency unit sku version size checksum hash digest commit uuid build warehouse branch site depot "
        "plant store environment priority severity role position occupation profession rank grade genre "
        "format marke hersteller modell produkt abteilung bereich warengruppe kategorie lieferant verlag "
        "gerät ausstattung fahrzeug maschine werkzeug farbe größe einheit währung standort filiale lager werk "
        "stelle beruf funktion priorität rolle anwendung sprache ziel sicherung häufigkeit application langue "
        "outil cible sauvegarde certificat fréquence aplicación idioma herramienta destino copia applicazione "
        "lingua toepassing taal aplikacja język marque fabricant modèle produit département rayon catégorie "
        "fournisseur éditeur transporteur appareil véhicule logiciel couleur taille unité devise statut "
        "entrepôt agence poste fonction métier priorité rôle moteur édition police thème service marca "
        "fabricante modelo producto departamento sección categoría proveedor editorial transportista canal "
        "dispositivo equipo vehículo máquina talla unidad moneda estado almacén sucursal puesto cargo "
        "profesión prioridad tienda produttore modello prodotto reparto settore categoria fornitore editore "
        "vettore corriere causale porto apparecchio veicolo macchina colore taglia unità valuta stato "
        "magazzino mansione ruolo professione merk fabrikant afdeling categorie leverancier uitgever "
        "vervoerder apparaat voertuig kleur maat eenheid magazijn filiaal vestiging functie beroep rol seção "
        "setor fornecedor editora transportadora veículo cor tamanho unidade moeda armazém loja profissão "
        "producent dział kategoria dostawca wydawca przewoźnik urządzenie pojazd kolor rozmiar jednostka "
        "waluta magazyn oddział stanowisko zawód priorytet rola produto produkty products categories tags "
        "modules produkte catégories modèles"
    ).split()
)
# Names of columns that are of goods where a quantity or a price stands beside them.
_GOODS: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "description item article title designation service artikel bezeichnung beschreibung leistung ware "
        "désignation libellé artículo descripción concepto descrizione articolo omschrijving descrição artigo "
        "opis nazwa towar usługa produktu"
    ).split()
)
_NAMES: Final = frozenset({"name", "nom", "nombre", "nome", "naam", "nazwa"})
_QUANTITIES: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "qty quantity sku ean gtin isbn units price amount publisher menge anzahl stückzahl einzelpreis preis "
        "betrag gesamt verlag quantité quantite qté prix montant éditeur cantidad unidades uds precio importe "
        "editorial quantità q.tà qta prezzo importo editore aantal prijs bedrag uitgever quantidade qtd preço "
        "valor ilość cena kwota wydawca"
    ).split()
)
# Words of labels whose values are people, whatever else they name: brand manager, responsable rayon.
_PEOPLE: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "contact owner manager lead leader head agent rep representative by person user customer client "
        "employee author member assignee driver responsible supervisor director home private personal kontakt "
        "kunde kunden mitarbeiter leiter leiterin leitung verantwortlich verantwortliche zuständig benutzer "
        "responsable chef contacto cliente encargado encargada jefe usuario responsabile capo referente "
        "utente klant klanten medewerker hoofd gebruiker responsável contato klient klienta kierownik osoba "
        "pracownik"
    ).split()
)
# Before the name of a firm, a brand, an institution, a room, a product, a department.
_BEFORE_NAME: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "firma firmy firmą firmie société sociedad empresa azienda ditta bedrijf company agentur agence "
        "agencia agenzia cabinet kanzlei hersteller fabricant fabricante produttore producent fabrikant "
        "fournisseur proveedor fornitore lieferant leverancier dostawca supplier hébergeur éditeur vettore "
        "transporteur transportista corriere spediteur vervoerder carrier marke marque marca merk marki marka "
        "brand konzern groupe grupo gruppo grupa stadtwerke banque banco banca bank caja versicherung verlag "
        "editorial éditions laboratoires apotheke pharmacie farmacia apteka klinik klinikum krankenhaus "
        "hôpital hospital ospedale ziekenhuis szpital clinique clínica clinica hotel hôtel restaurant "
        "ristorante restaurante bar café schule école colegio scuola szkoła museum musée museo raum saal "
        "salle sala zaal halle stand quai serie série seria baureihe modell modèle modelo modello model "
        "version versión versione wersja edition édition software programm logiciel programa programma module "
        "modul módulo modulo moduł connecteur conector connettore plattform plateforme plataforma piattaforma "
        "platforma portal portail portale produkt produit producto prodotto gerät appareil aparato "
        "apparecchio urządzenie projekt projet proyecto progetto project tarif gamme gama gamma système "
        "sistema system systeem serveur servidor server servicio servizio dienst pasarela abteilung afdeling "
        "dział département departamento reparto rayon équipe equipo zespół contenedor conteneur messe salon "
        "feria fiera beurs targi autohaus bäckerei metzgerei schreinerei tischlerei druckerei gärtnerei "
        "elektro möbel spedition brauerei verband landratsamt amtsgericht landgericht finanzamt bundesamt "
        "ministerium universität gymnasium gemeinde transports établissements ets menuiserie plomberie "
        "boulangerie garage atelier ateliers pépinières comptoir imprimerie assurances mutuelle crédit caisse "
        "mairie lycée université syndicat association fédération fondation construcciones pinturas fincas "
        "transportes muebles talleres instalaciones electricidad fontanería seguros bodegas viajes instituto "
        "universidad ayuntamiento asociación fundación sindicato ceramiche autotrasporti trasporti officina "
        "cantina panificio istituto università cassa assicurazioni associazione fondazione mobili edilizia "
        "groothandel drukkerij bakkerij gemeente universiteit verzekeringen zakład przedsiębiorstwo "
        "spółdzielnia sklep hurtownia urząd fundacja stowarzyszenie towarzystwo uniwersytet przychodnia "
        "spółka wydawnictwo "
        # Of diseases, tests and scales with the name of who described them.
        "morbus syndrom syndrome síndrome sindrome syndroom zespół maladie enfermedad malattia morbo ziekte "
        "doença choroba test score échelle escala scala schaal skala skali classification klassifikation "
        "clasificación stadium"
    ).split()
)
# Words that end in these, in languages that write them together: Besprechungsraum, Bouwbedrijf.
_BEFORE_NAME_ENDINGS: Final = (
    *("raum", "saal", "zaal", "bedrijf", "betrieb", "kammer", "werke", "gruppe", "serie", "reihe", "agentur", "bank"),
    *("sparkasse", "verlag", "klinik", "krankenhaus", "zentrum", "centrum", "gesellschaft", "genossenschaft"),
    *("corporatie", "stichting", "vereniging", "verein", "software", "system", "systeem", "gerät", "anlage"),
    *("maschine", "hersteller"),
)
# Behind the name of a firm or a product.
_BEHIND_NAME: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "ltd limited inc llc llp plc corp corporation gmbh ag kg ug ohg mbh sa sas sarl srl s.r.l s.p.a s.a "
        "s.l sl spa bv nv b.v n.v sp oy ab aps pty co company software systems solutions technologies "
        "technology energy consulting services group gruppe groupe holding associates industries analytics "
        "logistics insurance pharma labs laboratories studio studios media motors airlines foods bank council "
        "cloud platform server connector desktop edition pro turbo business lite homes estates properties "
        "builders construction interiors kitchens roofing plumbing joinery cars tyres travel tours catering "
        "farms bakery brewery pharmacy electronics electrical telecom wireless water gas power steel "
        "chemicals plastics textiles press publishing records films games recruitment railways airways "
        "highways playgrounds hospital clinic university college academy library museum committee association "
        "society club trust registry ministry agency department restaurant theatre foundation institute "
        "federation union authority test score sign syndrome disease palsy scale index classification grade "
        "stage procedure manoeuvre reflex fracture catheter lymphoma syndrom krankheit klassifikation zeichen "
        "reihe serie werk system express relay store plan tier gateway worker module systèmes portal"
    ).split()
)
_ELISION: Final = re.compile(r"^(?:l|d|dell|all|nell|un|qu)['\u2019]")
# Ranks that German writes as one word.
_RANK: Final = re.compile(
    r"\w{2,}(?:arzt|ärztin|leiter|leiterin|führer|führerin|meister|meisterin|techniker|technikerin|ingenieur|"
    r"ingenieurin|assistent|assistentin|kauffrau|kaufmann|referent|referentin)"
)


@functools.lru_cache(maxsize=4096)
def names_things(label: str) -> bool:
    """Returns whether the name of a column, key or field says that its values are no people and no addresses."""
    words = _words(label)
    # The name of an application.
    named = len(words) > 1 and words[-1] in _NAMES and words[-2] in _THINGS
    return bool(words) and (named or words[-1] in _THINGS) and not _is_of_people(label, words)


def names_goods(label: str, beside: Collection[str]) -> bool:
    """Returns whether a label is of goods, as a quantity or a price has a label beside it."""
    return may_head_goods(label) and any(map(is_quantity, beside))


@functools.lru_cache(maxsize=4096)
def is_quantity(label: str) -> bool:
    """Returns whether a label names quantities, prices, or numbers of goods."""
    words = [*_words(label)[-2:], label.lower()]
    return not _QUANTITIES.isdisjoint(words)


def may_head_goods(label: str) -> bool:
    """Returns whether a label may be of goods."""
    words = _words(label)
    return bool(words) and words[-1] in _GOODS and not _is_of_people(label, words)


def comes_before_name(word: str) -> bool:
    """Returns whether what follows a word is the name of a firm, a product, a room or alike."""
    lower = _ELISION.sub("", word.lower())
    return lower in _BEFORE_NAME or lower.endswith(_BEFORE_NAME_ENDINGS)


def comes_behind_name(word: str) -> bool:
    """Returns whether a word in capitals ends the name of a firm or a product."""
    return word.lower().rstrip(".") in _BEHIND_NAME


def has_thing_behind_hyphen(word: str) -> bool:
    """Returns whether a word is the name of a thing with what it is behind a hyphen: Parkinson-Syndrom."""
    return word.rpartition("-")[0] != "" and comes_behind_name(word.rpartition("-")[2])


def is_rank(word: str) -> bool:
    """Returns whether a word is the name of a rank or an occupation."""
    return _RANK.fullmatch(word.lower()) is not None


def _words(label: str) -> list[str]:
    return plain_label(label).split() or label.lower().split()


def _is_of_people(label: str, words: list[str]) -> bool:
    if not _PEOPLE.isdisjoint(words) or any(map(may_name, words[:-1])):
        return True
    return any(
        entity in {"PERSON", "LOCATION"} and score >= _SURE for entity, score in label_entities(plain_label(label))
    )
