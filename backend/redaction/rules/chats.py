"""Rules for names in chats, written without capitals: of speakers, in answers to questions, and behind greetings."""

import re
from collections.abc import Callable
from typing import Final

from backend.redaction.rules.labels import label_entities
from backend.redaction.rules.name_forms import may_be_person
from backend.redaction.rules.name_words import ROLE_FIELDS
from backend.redaction.rules.rule import Rule

_LETTER: Final = "A-Za-z\u00c0-\u00ff"
_SMALL: Final = "a-z\u00df-\u00ff"
_CLOCK: Final = "[0-2]?[0-9]:[0-5][0-9](?: ?[AaPp][Mm])?"
_DATE: Final = "[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{2,4},? "
_SPEAKER: Final = f"[{_LETTER}][0-9{_LETTER}_-]{{0,20}}: ?"
_WORD: Final = f"[{_LETTER}][{_LETTER}'.-]{{0,20}}"
# \u00ff is a letter beyond Latin-1 in normalised text.
_QUESTION: Final = (
    "full name|(?:your|ur|his|her|their|last|first|the) name|surname|"
    "(?:ihren?|deinen?|vollen|voller|vollständigen?|welchen) namen?|nachname|"
    "(?:votre|ton|quel) nom|nom complet|nom et prénom|nom de famille|"
    "(?:su|tu|qué) nombre|nombre completo|nombre y apellidos|apellidos|"
    "(?:uw|je|welke|volledige) naam|achternaam|imi\u00ff i nazwisko|nazwisko|"
    "(?:suo|tuo) nome|nome completo|nome e cognome|cognome|seu nome|sobrenome"
)
_YES: Final = (
    "(?i:yes|yeah|yep|sure|ok|hi|its|it's|it is|i'm|i am|ja|klar|gerne|ich bin|oui|c'est|je suis|s[íi]|es|soy|claro|"
    "het is|ik ben|tak|jestem|s\u00ec|sono|sim|sou)"
)
_ANSWER: Final = f"(?:{_YES}[ ,.]{{1,2}}){{0,3}}({_WORD}(?: {_WORD}){{0,4}})[ .!]{{0,2}}\r?(?m:$)"
_GREETING: Final = (
    "(?i:hey|hi|hiya|hello|yo|moin|hallo|hi zusammen|servus|salut|slt|coucou|bonjour|bjr|hola|buenas|hoi|h\u00e9|dag|"
    "cze\u00ff\u00ff|czesc|hej|siema|ciao|salve|ol\u00e1|oi)"
)
_I_AM: Final = (
    "(?i:its|it's|this is|i'm|im|hier(?: ist| is| spricht)?|ich bin(?: die| der)?|(?:moi )?c'?(?:est)?|ici|je suis|soy|"
    "met|ik ben|tu|tutaj|z tej strony|jestem|sono|qui|sou(?: a| o)?|aqu\u00ed)"
)
# Whom a greeting is for, by no name.
_NOBODY: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "babe boss bro dude everybody gang girls guys hun love lovely ladies mate mates mum dad man people pal "
        "gorgeous morning zusammen alle ihr leute lieber liebe liebes mama mutti papa schatz m\u00e4dels jungs "
        "ch\u00e9ri ch\u00e9rie maman tous toutes tout monde madame monsieur amor buenas cari\u00f1o chicas chicos "
        "familia gente guapa guapo t\u00edo t\u00eda allemaal iedereen jongens lieverd meiden schat kochanie "
        "wszystkim ludzie mamo tato wszyscy amore bella bello ragazzi tutti gente pessoal galera querida querido "
        "neighbour buddy champ folks team there hello hey hi hallo hola salut"
    ).split()
)
# Answers that are none, and what else follows a greeting.
_NO_NAMES: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "\u00ffe a aan aber about again agent al ale algo all alles already als also an and any anyone api aquí "
        "are as asked at attends au auch aussi avec bad been before berater bien bij bin bitte bon bot break "
        "build but call can cant ce ces cette che chi ci co cold com come como con course cron cuando czy da dan "
        "dans das dat db de dein del dem den deploy der des di did die dit dla do doch does doing don't dont door "
        "du e een eens ein eine el ella elle ellos en er era eres es esa ese eso espera est esta este esto está "
        "et etwas eu even falsch fine first foi fun gdzie ge geen gerade gern given goed gonna good got had has "
        "have hay heb heeft here het hier hij hoe hot how i ich idk ihr ik il ils im in io is isso ist it ja jak "
        "je jest jestem jij job jou jouw just juz kalt kan kein klar klopt know konsultant kto la laat las last "
        "late later le les like lo los lunch ma maar mais mam man mas maybe me meeting mein meine merci met meu "
        "mi mij mijn mine minha mit mnie moderator moi moje moment mon monitor muy my na naar name nas ne nee "
        "need nein nella nem nice nicht nie niet no noch nochmal nog nombre non nope nos not nous now nu nur não "
        "o od of off om on one only ook op operator or os otra otro ou oui out over où par para pas per perché "
        "pero più please plus pm po por porque pour pourquoi pra prosz\u00ff przez qual quand que quel quelle "
        "quem qui quién quoi qué raining ready right sa same schon se sec sei sem ser server ses seu si si\u00ff "
        "sie sin sk\u00ffd so son sono sorry speaker still su sua sur system sé sí ta tak tam también task te tem "
        "ten tengo than that thats the their them then there they this ti time to todo toi told ton too topic tot "
        "tout trop tu tutaj ty u uit um uma un una und under une uno up urgent usted va vale van vc von voor "
        "votre vous w waar waarom wacht wait warum was wat we weet wegen weiß wel welche welchen welcher welke "
        "wer what whats when where which who whose why wie wieder wiem wij will wir with wo worker wrong ya yeah "
        "yep yes yo you your z za zij zijn zu"
    ).split()
)
_NOT_NAMES: Final = _NO_NAMES | _NOBODY
_PARTICLES: Final = frozenset(
    "al da das de del den der des di do du e el en et la las le los of ten ter van von y zu".split()  # noqa: SIM905 - as above
)
_ROLE: Final = re.compile(f"(?:{ROLE_FIELDS})", re.IGNORECASE)


def _is_name(text: str) -> bool:
    """Returns whether words in small letters may be a name: none of them is a common word of a chat."""
    words = {*text.lower().split()} - _PARTICLES
    return bool(words) and words.isdisjoint(_NOT_NAMES) and may_be_person(text) and _ROLE.fullmatch(text) is None


def may_speak(word: str) -> bool:
    """Returns whether a word in small letters before a colon may be the name of who speaks."""
    return _is_name(word) and not label_entities(word)


def _is_account(text: str) -> bool:
    return may_be_person(re.sub("[._-]", " ", text)) and _is_name(text)


def _named(pattern: str, opening: str, check: Callable[[str], bool] = _is_name) -> Rule:
    return Rule(
        "PERSON",
        pattern,
        0.8,
        check=check,
        longest=400,
        opening=opening,
        numeric=False,
        before="",
        after="",
    )


_ACCOUNT: Final = "(?i:user|username|login|account|actor|utilisateur|usuario|benutzer|utente|gebruiker)"
_SESSION: Final = (
    "(?i:(?:has |is |successfully )?(?:logged|signed) (?:in|out|on|off)|authenticated|angemeldet|abgemeldet|"
    "hat sich (?:an|ab)gemeldet|(?:s'est )?(?:dé)?connectée?|ha iniciado sesión)"
)

RULES: Final = (
    # Whose account a log names: a given name and a family name with a dot between, or who logged in.
    _named(
        rf"{_ACCOUNT}=[\"']?([a-z][{_SMALL}]{{1,20}}\.[{_SMALL}]{{2,24}})(?:[ \t\"',;)\]\r]|(?m:$))",
        f"{_ACCOUNT}=[\"']?[a-z]",
        _is_account,
    ),
    _named(
        rf"{_ACCOUNT}(?:=| )[\"']?([a-z][0-9{_SMALL}._-]{{2,30}})[\"']? {_SESSION}(?:[ \t,.;)\]\r]|(?m:$))",
        f"{_ACCOUNT}(?:=| )[\"']?[a-z]",
        _is_account,
    ),
    # Who speaks.
    _named(
        rf"(?m:^)(?:\[(?:{_DATE})?{_CLOCK}\] ?|{_DATE}{_CLOCK} - )([a-z][0-9{_SMALL}_.-]{{1,20}}): ",
        rf"(?m:^)(?:\[|{_DATE})[0-9]",
    ),
    _named(
        rf"(?m:^)\[?{_CLOCK}\]? <[@+]?([a-z][0-9{_SMALL}_.-]{{1,20}})> ",
        rf"(?m:^)\[?{_CLOCK}\]? <",
    ),
    # The line below a question for the name, or the next speaker's.
    _named(
        rf"(?i:{_QUESTION})[^\n:=]{{0,40}}\?[ ]{{0,2}}\r?\n(?:{_SPEAKER})?{_ANSWER}",
        rf"(?i:{_QUESTION})[^\n:=]{{0,40}}\?[ ]{{0,2}}\r?\n",
    ),
    _named(
        rf"(?m:^){_SPEAKER}[^\n:=]{{0,36}}(?i:{_QUESTION})[^\n:=]{{0,24}}\r?\n{_SPEAKER}{_ANSWER}",
        rf"(?m:^){_SPEAKER}[^\n:=]{{0,36}}(?i:{_QUESTION})[^\n:=]{{0,24}}\r?\n",
    ),
    # A greeting, and who it is.
    _named(
        rf"(?m:^)(?:{_SPEAKER})?{_GREETING}[ ,!.]{{1,2}}{_I_AM} ([{_LETTER}][{_LETTER}'-]{{1,20}})(?:[ ,.!?\r]|(?m:$))",
        rf"(?m:^)(?:{_SPEAKER})?{_GREETING}[ ,!.]{{1,2}}{_I_AM} ",
    ),
    # A greeting, and whom it is for.
    _named(
        rf"(?m:^)(?:{_SPEAKER})?{_GREETING} ([{_SMALL}][{_SMALL}'-]{{1,20}})[ ]?[,!]",
        rf"(?m:^)(?:{_SPEAKER})?{_GREETING} [{_SMALL}]",
    ),
)
