"""Words that stand before names: titles, fields, salutations and closings, in eight languages, for normalised text."""

from typing import Final

# A dot that a title must have is written; any may have one. \u00ff is a letter beyond Latin-1.
TITLES: Final = (
    "Mr|Mrs|Ms|Miss|Dra|Exm[oa]\\. Sr\\.ª?|Sz\\. ?P\\.|(?:[Dd]e |Geachte )[Hh]eer|Herr Kollege|Frau "
    "Kollegin|Panie|Pani\u00ff|dr|prof|Spett\\.le|Mx|Dr|Prof|Professor|Sir|Dame|Rev|Herr|Herrn|Frau|Hr|Fr\\.|"
    "Dipl\\.-Ing|Madame|Mme|Mlle|Mademoiselle|"
    "Monsieur|Me\\.|Maître|[Dd]octeure?|[Ss]eñor(?:a|ita)?|Sr\\.|Sra|Srta|Doña|D\\.ª|Dña|Don|[Dd]octora?|"
    "[Ss]ignora?|[Ss]ignorina|[Ss]ignore|[Ss]ig\\.(?:ra|na)?|[Ss]igg\\.|Dott|[Dd]ott\\.(?:ssa)?|[Aa]vv\\.|[Dd]ottor(?:e|essa)?|Avv|[Ss]enhora?|Dona|"
    "Sr\\.ª|Eng\\.|Ing\\.|[Dd]hr|[Mm]evr|[Mm]evrouw|[Mm]eneer|[Mm]w\\.|Pani?|Pan\u00ff|Pana|Panem|Panu|[Dd]oktor|prof\\.|dr\\."
)
# Initials are written so as well, but before other titles.
INITIAL_TITLES: Final = "D\\.|M\\."
# Before two words or more of a name; one of them alone may be something else.
FULL_TITLES: Final = "don|doña|dona|p\\.|[Pp]ani|[Pp]ana|[Pp]anu|[Pp]anem|pani\u00ff|pan\u00ff|pan"
NO_FULL_NAME: Final = "(?!Asian|European|African|American|Arab|Pacific)"
CAPITAL_TITLES: Final = "MRS|MISS|HERRN?|FRAU|MME|MLLE|SIGNORA?|SEÑORA?"
FULL_CAPITAL_TITLES: Final = "MR|MS|DR\\."
# What MR and MS also stand before.
NO_CAPITAL_NAME: Final = "(?!IMAG|SCAN|ANGIO|WORD|OFFICE|SQL|EXCEL|TEAMS|WINDOWS|ACCESS|OUTLOOK|PROJECT|DOS)"
# Fields whose value is a name.
NAME_FIELDS: Final = (
    "(?:(?:full|first|last|given|family|middle|maiden|birth)[ _-]?|customer |client |contact |employee |patient |user |"
    "sur|fore|cardholder |account holder )?names?|surname|forename|attn|signed by|"
    "nachname|vorname|familienname|geburtsname|zuname|name und vorname|vor- und nachname|z\\. ?hd\\.?|"
    "nom|prénom|nom et prénom|nom de famille|nom complet|"
    "nombre|nombre completo|nombre y apellidos|apellidos?|nome|cognome|nome e cognome|nome completo|sobrenome|apelido|"
    "naam|voornaam|achternaam|imi\u00ff|nazwisko|imi\u00ff i nazwisko|"
    "kunden?name|name de[sr] (?:kunden|kundin|patienten|patientin|versicherten|mieters|antragstellers)|"
    "nom d[ue] (?:client|patient|titulaire|salarié)|nombre del? (?:cliente|paciente|titular)|"
    "nome del? (?:cliente|paziente)|nome d[oa] (?:cliente|paciente|titular)|(?:klant|patiënt)naam|naam klant|"
    "volledige naam|nominativo|signed|signed by|signature|unterschrift|gezeichnet|gez\\.|signé|signé par|"
    "fdo\\.?|firmato|"
    "ondertekend|ondertekend door|assinado|assinado por|podpis|podpisano|t\\. ?a\\. ?v\\.?"
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
    "insured|policy ?holder|buyer|seller|driver|interpreter|nurse|carer|trainer|teacher|lawyer|interviewer|"
    "interviewee|candidate|pt|cc|bcc|to|from|present|attendees|participants|"
    "bewerber(?:in)?|käufer(?:in)?|verkäufer(?:in)?|fahrer(?:in)?|gast|teilnehmer(?:in)?|anwesend|teilnehmende|besteller(?:in)?|"
    "ärztin|arzt|hausarzt|hausärztin|vertragspartner(?:in)?|rechnungsempfänger(?:in)?|zeug(?:e|in)|betreuer(?:in)?|"
    "erziehungsberechtigte[rn]?|halter(?:in)?|eigentümer(?:in)?|versicherungsnehmer(?:in)?|patienten?|anrufer(?:in)?|"
    "benutzer(?:in)?|schüler(?:in)?|lehrer(?:in)?|rechnung an|lieferung an|an|von|"
    "médecin|demandeur|demanderesse|acheteu(?:r|se)|vendeu(?:r|se)|conduct(?:eur|rice)|témoin|patiente?|présents|"
    "participants|élève|abonnée?|adhérente?|propriétaire|utilisat(?:eur|rice)|"
    "médic[oa]|solicitante|comprador[a]?|vendedor[a]?|conductor[a]?|testigo|arrendatari[oa]|propietari[oa]|usuari[oa]|"
    "alumn[oa]|tutor[a]?|asistentes|abonad[oa]|asociad[oa]|huésped|"
    "medic[oa]|richiedente|assicurat[oa]|acquirente|venditore|conducente|testimone|inquilin[oa]|proprietari[oa]|utente|"
    "presenti|alliev[oa]|"
    "arts|huisarts|verzekerde|aanvrager|koper|verkoper|bestuurder|getuige|eigenaar|gebruiker|aanwezig|leerling|"
    "requerente|segurad[oa]|comprador|condutor[a]?|testemunha|inquilin[oa]|proprietári[oa]|utilizador[a]?|presentes|alun[oa]|"
    "lekarz|ubezpieczony|ubezpieczona|wnioskodawca|osoba kontaktowa|kupuj\u00ffcy|kupuj\u00ffca|"
    "sprzedaj\u00ffcy|kierowca|"
    "\u00ffwiadek|najemca|zamawiaj\u00ffcy|zamawiaj\u00ffca|u\u00ffytkownik|obecni|ucze\u00ff|"
    "destinatári[oa]|funcionári[oa]|klient(?:ka)?|pacjent(?:ka)?|nadawca|odbiorca|pracownik|w\u00ffa\u00ffciciel(?:ka)?"
)
PHRASES: Final = (
    "(?:[Mm]y|[Hh]is|[Hh]er|[Tt]heir) name is|[Mm]y name's|[Nn]amed|[Cc]alled|[Ii]ch heiße|[Mm]ein [Nn]ame ist|namens|"
    "[Jj]e m'appelle|[Mm]on nom est|nommée?|[Mm]e llamo|[Mm]i nombre es|[Mm]i chiamo|[Ii]l mio nome è|[Ii]k heet|"
    "[Mm]ijn naam is|[Cc]hamo-me|[Mm]eu nome é|[Nn]azywam si\u00ff|[Mm]am na imi\u00ff"
)
# Words before a person's name whatever follows it.
RELATIONS: Final = (
    "(?:[Mm]y|[Hh]is|[Hh]er|[Tt]heir|[Oo]ur|[Yy]our) (?:late )?(?:husband|wife|son|daughter|partner|mother|"
    "father|brother|"
    "sister|friend|flatmate|roommate|neighbou?r|boss|colleague|manager|uncle|aunt|cousin|niece|nephew|fianc(?:é|ée|e|ee)|"
    "girlfriend|boyfriend|grandmother|grandfather|grandson|granddaughter|doctor|lawyer)|"
    "(?:[Mm]eine?|[Ss]eine?|[Ii]hre?|[Uu]nsere?)[mnrs]? (?:Mann|Frau|Ehemann|Ehefrau|Sohn|Tochter|Partner|Partnerin|"
    "Lebensgefährt(?:e|in)|Mutter|Vater|Bruder|Schwester|Freund|Freundin|Nachbar|Nachbarin|Kolleg(?:e|en|in)|Chef|Chefin|"
    "Onkel|Tante|Neffe|Nichte|Enkel|Enkelin|Mitbewohner|Mitbewohnerin)|(?:Tochter|Sohn|Ehefrau|Ehemann|Bruder|Schwester)|"
    "(?:[Mm]on|[Mm]a|[Ss]on|[Ss]a|[Ll]eur|[Nn]otre|[Vv]otre) (?:mari|femme|épouse|époux|fils|fille|compagne|"
    "compagnon|mère|"
    "père|frère|s\u00ffur|soeur|ami|amie|voisine?|collègue|oncle|tante|conjointe?)|"
    "(?:[Mm]i|[Ss]u|[Nn]uestr[oa]) (?:marido|mujer|esposa|esposo|hij[oa]|pareja|madre|padre|herman[oa]|"
    "amig[oa]|vecin[oa]|"
    "compañer[oa]|jef[ea]|tí[oa]|prim[oa]|niet[oa]|suegr[oa])|"
    "(?:[Mm]i[oa]|[Ss]u[oa]|[Nn]ostr[oa]) (?:marito|moglie|figli[oa]|compagn[oa]|madre|padre|fratello|sorella|"
    "amic[oa]|vicin[oa]|"
    "collega|zi[oa]|cugin[oa]|nipote)|"
    "(?:[Mm]ijn|[Zz]ijn|[Hh]aar|[Oo]nze) (?:man|vrouw|zoon|dochter|partner|moeder|vader|broer|zus|vriend|"
    "vriendin|buurman|"
    "buurvrouw|collega|oom|tante)|"
    "(?:[Mm]eu|[Mm]inha|[Ss]eu|[Ss]ua) (?:marido|mulher|esposa|esposo|filh[oa]|companheir[oa]|mãe|pai|irmão|"
    "irmã|amig[oa]|"
    "vizinh[oa]|colega|ti[oa])|"
    "(?:[Mm]\u00ffj|[Mm]oja|[Jj]ego|[Jj]ej) (?:m\u00ff\u00ff|\u00ffona|syn|córka|partnerka|matka|ojciec|brat|siostra)"
)
# Words before a name of two words or more: what a person says of itself, and roles in a sentence.
INTRODUCTIONS: Final = (
    "(?:[Tt]his|[Hh]ere) is|I am|I'm|[Hh]ier (?:ist|spricht)|[Ii]ch bin|[Jj]e suis|[Ss]oy|[Ll]e atiende|[Hh]abla|"
    "[Ss]ono|[Pp]arla|[Ii]k ben|[Ss]ou [oa]|[Ff]ala|[Jj]estem|"
    "(?:des|dem|den|der|vom|beim) (?:Kunden|Kundin|Patienten|Patientin|Mieters?|Mieterin|Mitarbeiters?|Mitarbeiterin|"
    "Versicherten|Zeugen|Zeugin)|"
    "(?:[Tt]he )?(?:patient|customer|client|tenant|employee|claimant|witness)|"
    "(?:[Ll]e |[Ll]a |du |de la )?(?:patiente?|cliente?|salariée?|locataire|témoin)|"
    "(?:[Ee]l |[Ll]a |al |del )?(?:paciente|cliente|inquilin[oa]|emplead[oa]|testigo)|"
    "(?:[Ii]l |[Ll]a |del |della )(?:paziente|cliente|signor)|"
    "c/o|[Pp]repared by|[Aa]pproved by|[Rr]eviewed by|[Ss]igned by|[Zz]u H(?:ä|ae)nden(?: von)?|z\\. ?Hd\\.(?: von)?|"
    "[AaÀà] l'attention de|[Aa] la atención de|[Aa]ll'attenzione di|[Oo]ndertekend door|[Tt]\\. ?a\\. ?v\\.|"
    "[Aa]o cuidado de|"
    "[Uu]nterzeichnet von|[Ss]igné par|[Ff]irmado por|[Ff]irmato da|[Aa]ssinado por|[Pp]odpisano przez"
)
# Fields with several names.
PARTICIPANTS: Final = (
    "present|attendees|participants|in attendance|attending|apologies|absent|anwesend|anwesende|teilnehmer(?:innen)?|"
    "teilnehmende|entschuldigt|abwesend|présents|participants|excusés|absents|asistentes|participantes|presentes|ausentes|"
    "presenti|partecipanti|assenti|aanwezig|deelnehmers|deelnemers|afwezig|obecni|uczestnicy|nieobecni|cc|to|passengers|guests"
)
# Fields with a name on the line below.
BELOW_FIELDS: Final = (
    "bill(?:ed)? to|ship(?:ped)? to|sold to|deliver to|invoice to|customer|client|recipient|patient|tenant|"
    "rechnungsempfänger(?:in)?|rechnung an|lieferung an|lieferadresse|rechnungsadresse|kunde|kundin|empfänger|an|"
    "facturé à|livré à|destinataire|client|adresse de facturation|adresse de livraison|"
    "facturar a|enviar a|destinatario|cliente|datos del cliente|fatturare a|spedire a|spett\\.le|"
    "factuuradres|afleveradres|aan|klant|faturar a|destinatário|nabywca|odbiorca|sprzedawca|name|nombre|nom|nome|naam"
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
    "(?:mit )?(?:freundlich|best|herzlich|lieb|viel|schön|kollegial|sonnig)en? gr(?:ü|ue)(?:ß|ss)en?|"
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
# Nouns of people in capitals, which stand beside names.
NOUNS_OF_PEOPLE: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "mann frau ehemann ehefrau tochter sohn schwester bruder mutter vater oma opa onkel tante kollege "
        "kollegen kollegin nachbar nachbarn nachbarin freund freundin kläger klägerin beklagte beklagter "
        "zeuge zeugin lehrling lehrlinge azubi azubis praktikant praktikantin pfleger pflegerin hausmeister "
        "hausmeisterin monteur meister geselle monter hydraulik kurier majster brygadzista sister nurse "
        "matron councillor cllr"
    ).split()
)
