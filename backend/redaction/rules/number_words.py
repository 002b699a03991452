"""Words before a number that say whose number it is: of an order, of an account.

As rules read them: a letter beyond Latin-1 is \u00ff.
"""

from typing import Final

_OTHERS: Final = (
    "order orders invoice reference ref ticket case serial tracking parcel article item product part batch lot "
    "sku ean gtin isbn issn doi vat tax account acct policy contract customer client member code version build "
    "revision total amount sum price cost revenue population budget turnover bestellung rechnung auftrag vorgang "
    "vertrag artikel konto aktenzeichen betrag summe preis umsatz einwohner sendung commande facture référence "
    "réf dossier contrat compte colis montant prix siren siret somme pedido factura referencia expediente "
    "contrato cuenta artículo importe precio envío seguimiento población nif cif dni nie iva ordine fattura "
    "riferimento pratica contratto conto importo totale prezzo spedizione articolo piva bestelling factuur "
    "referentie rekening bedrag totaal prijs zending kvk bsn btw encomenda fatura referência processo conta "
    "artigo valor preço montante população nipc niss cnpj cpf contribuinte utente zamówienie zamówienia faktura "
    "faktury referencyjny sprawa sprawy umowa umowy konta kwota kwoty suma cena przesyÿka przesyÿki artykuÿ regon "
    "nip krs pesel ludnoÿÿ ordre referanse sak kontrakt beløp beløb pris org orgnr cvr sag beställning belopp "
    "ärende objednávka objednávky iÿo diÿ ÿástka"
)
OTHER_NUMBERS: Final = frozenset(_OTHERS.split())
"""Words that name another number than that of a phone."""
# Without those that may stand between the name of a phone and its number, as in "phone of the customer".
ORDER_NUMBERS: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "order orders invoice ref reference ticket tracking parcel sku ean isbn version build total amount price "
        "bestellung rechnung auftrag vorgang betrag preis commande facture référence montant prix pedido factura "
        "referencia importe precio ordine fattura riferimento importo prezzo bestelling factuur referentie bedrag "
        "prijs encomenda fatura referência valor preço zamówienie zamówienia faktura faktury kwota"
    ).split()
)
"""Words that do so although the name of a phone stands before them."""
_FILLERS: Final = (
    "number no nr num nummer numer número numéro numero n id ids code is ist est es é è to er lautet de del von "
    "di da of der the el la le die das"
)
FILLERS: Final = frozenset(_FILLERS.split())
"""Words that may stand between such a word and its number."""
