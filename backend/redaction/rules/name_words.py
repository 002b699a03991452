"""Words that stand before names: titles, fields, salutations and closings, in eight languages, for normalised text."""

from typing import Final

# A dot that a title must have is written; any may have one. \u00ff is a letter beyond Latin-1.
TITLES: Final = (
    "Mr|Mrs|Ms|Miss|Mx|Dr|Prof|Professor|Sir|Dame|Rev|Herr|Herrn|Frau|Hr|Fr\\.|Dipl\\.-Ing|Madame|Mme|Mlle|Mademoiselle|"
    "Monsieur|M\\.|Me\\.|Maître|[Dd]octeure?|[Ss]eñor(?:a|ita)?|Sr\\.|Sra|Srta|Doña|D\\.ª|Dña|Don|[Dd]octora?|"
    "[Ss]ignora?|[Ss]ignorina|[Ss]ignore|Sig\\.|Sig\\.ra|Dott|Dott\\.ssa|[Dd]ottor(?:e|essa)?|Avv|[Ss]enhora?|Dona|"
    "Sr\\.ª|Eng\\.|Ing\\.|[Dd]hr|[Mm]evr|[Mm]evrouw|[Mm]eneer|[Mm]w\\.|Pani?|Pan\u00ff|Pana|Panem|Panu|[Dd]oktor|prof\\.|dr\\."
)
# Fields whose value is a name.
NAME_FIELDS: Final = (
    "(?:full |first |last |given |family |middle |maiden |birth |customer |client |contact |employee |patient |user |"
    "sur|fore|cardholder |account holder )?names?|surname|forename|attn|signed by|"
    "nachname|vorname|familienname|geburtsname|zuname|name und vorname|vor- und nachname|z\\. ?hd\\.?|"
    "nom|prénom|nom et prénom|nom de famille|nom complet|"
    "nombre|nombre completo|nombre y apellidos|apellidos?|nome|cognome|nome e cognome|nome completo|sobrenome|apelido|"
    "naam|voornaam|achternaam|imi\u00ff|nazwisko|imi\u00ff i nazwisko"
)
# Fields whose value may also be a thing or a group.
ROLE_FIELDS: Final = (
    "patient|employee|customer|client|contact|contact person|emergency contact|author|owner|tenant|landlord|applicant|"
    "caller|assignee|assigned to|reported by|approved by|prepared by|doctor|physician|manager|guardian|spouse|"
    "next of kin|beneficiary|account holder|card ?holder|passenger|guest|member|sender|recipient|reporter|requester|"
    "witness|student|kund(?:e|in)|patientin|mitarbeiter(?:in)?|ansprechpartner(?:in)?|kontakt|kontaktperson|kontoinhaber(?:in)?|"
    "mieter(?:in)?|vermieter(?:in)?|absender(?:in)?|empfänger(?:in)?|(?:sach)?bearbeiter(?:in)?|antragsteller(?:in)?|"
    "versicherte[rn]?|auftraggeber(?:in)?|inhaber(?:in)?|geschäftsführer(?:in)?|notfallkontakt|"
    "cliente?|titulaire|destinataire|expéditeur|salariée?|employée?|locataire|bénéficiaire|personne à contacter|"
    "interlocuteur|assurée?|titular|paciente|contacto|persona de contacto|remitente|destinatari[oa]|emplead[oa]|"
    "inquilin[oa]|beneficiari[oa]|firmado|asegurad[oa]|intestatari[oa]|paziente|contatto|mittente|dipendente|referente|"
    "klant|patiënt|contactpersoon|afzender|ontvanger|werknemer|rekeninghouder|huurder|contato|remetente|"
    "destinatári[oa]|funcionári[oa]|klient(?:ka)?|pacjent(?:ka)?|nadawca|odbiorca|pracownik|w\u00ffa\u00ffciciel(?:ka)?"
)
PHRASES: Final = (
    "(?:[Mm]y|[Hh]is|[Hh]er|[Tt]heir) name is|[Mm]y name's|[Nn]amed|[Cc]alled|[Ii]ch heiße|[Mm]ein [Nn]ame ist|namens|"
    "[Jj]e m'appelle|[Mm]on nom est|nommée?|[Mm]e llamo|[Mm]i nombre es|[Mm]i chiamo|[Ii]l mio nome è|[Ii]k heet|"
    "[Mm]ijn naam is|[Cc]hamo-me|[Mm]eu nome é|[Nn]azywam si\u00ff|[Mm]am na imi\u00ff"
)
SALUTATIONS: Final = (
    "Dear|Hi|Hello|Hey|Good morning|Good afternoon|Good evening|Liebe[rs]?|Hallo|Guten Tag|Guten Morgen|Moin|"
    "Bonjour|Bonsoir|Salut|Chère?|Cher|Hola|Buenos días|Buenas tardes|Estimad[oa]|Querid[oa]|Ciao|Buongiorno|"
    "Gentile|Car[oa]|Beste|Geachte|Dag|Olá|Bom dia|Prezad[oa]|Cze\u00ff\u00ff|Witaj|Drogi|Droga"
)
# Lines that close a letter, in upper or lower case.
CLOSINGS: Final = (
    "(?:with |many thanks and )?(?:my )?(?:very )?(?:best |kind |kindest |warm |warmest )?regards|"
    "(?:with )?(?:best|kind|warm) wishes|all the best|kind greetings|"
    "yours (?:very )?(?:sincerely|faithfully|truly)|(?:sincerely|respectfully|cordially)(?: yours)?|"
    "(?:mit )?(?:freundlich|best|herzlich|lieb|viel|schön)en? gr(?:ü|ue)(?:ß|ss)en?|"
    "mit (?:freundlich|best)em gru(?:ß|ss)|hochachtungsvoll|mfg|"
    "(?:bien |très )?cordialement|bien à vous|amicalement|respectueusement|"
    "(?:[^\n]{0,60}[ ])?(?:meilleures |sincères |mes )?salutations(?: distinguées)?|sincèrement|"
    "(?:un )?(?:cordial )?saludos?(?: cordial(?:es)?)?|atentamente|cordialmente|"
    "(?:cordiali |distinti |cari )?saluti|un (?:cordiale )?saluto|"
    # This word has a letter beyond Latin-1.
    "z powa\u00ffaniem|z wyrazami szacunku|(?:serdecznie )?pozdrawiam|pozdrowienia|"
    "(?:met )?(?:vriendelijke |hartelijke )?groet(?:en)?|"
    "atenciosamente|(?:com os )?(?:melhores )?cumprimentos|"
    "(?:med )?vänliga? hälsning(?:ar)?|(?:med )?venn?lig hilsen|ystävällisin terveisin"
)
# Lines that also occur inside a letter.
THANKS: Final = (
    "(?:many )?thanks(?: again| in advance| a lot| so much)?|thank you(?: so much| in advance)?|cheers|best|take care|"
    "(?:with )?love|(?:vielen )?danke?|lg|vg|mvh|merci(?: d'avance)?|(?:muchas )?gracias|grazie|abraços?"
)
