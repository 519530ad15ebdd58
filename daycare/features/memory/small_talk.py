"""Greetings, thanks and farewells: messages that are about nothing, so that nothing remembered fits them."""

import re
from typing import Final

_CHARS_MAX: Final = 80  # longer messages say something else as well
_GREETINGS: Final = (  # English, German, French, Spanish, Italian, Portuguese, Dutch; the longer of two first
    "hello again|hello there|hello|hi again|hi there|hi|hey there|hey|hiya|howdy|yo|greetings|welcome back|"
    "good (?:morning|afternoon|evening|night|day)|(?:many )?thanks(?: a lot| so much| again)?|"
    "thank you(?: very much| so much| again)?|thx|cheers|bye(?: bye)?|goodbye|good bye|"
    "see you(?: soon| later| tomorrow)?|talk to you later|take care",
    "hallo|servus|moin|grüß (?:dich|gott)|guten (?:morgen|tag|abend)|gute nacht|danke(?: schön| sehr| dir)?|"
    "vielen dank|besten dank|tschüss|tschüß|ciao|bis (?:bald|später|morgen|dann)|auf wiedersehen",
    "bonjour|bonsoir|bonne (?:nuit|journée|soirée)|salut|coucou|merci(?: beaucoup| bien)?|"
    "au revoir|à (?:bientôt|demain)",
    "hola|buenos d[ií]as|buenas (?:tardes|noches)|(?:muchas )?gracias|adiós|hasta (?:luego|mañana)",
    "buongiorno|buonasera|buonanotte|grazie(?: mille)?|arrivederci",
    "olá|oi|bom dia|boa (?:tarde|noite)|(?:muito )?obrigad[oa]|tchau|até logo",
    "hoi|goedemorgen|goedemiddag|goedenavond|dank je(?: wel)?|bedankt|tot ziens",
)
_ANSWERS: Final = (
    "nice to (?:meet|see) you|how are you(?: doing)?|how(?: i)? ?s it going|how do you do|what(?: i)? ?s up|"
    "are you there|i ?m (?:back|fine)|you(?: a)? ?re welcome|no problem|never mind|ok(?:ay)?|alright|all right|got it|"
    "i see|cool|great|nice|perfect|awesome|wonderful|good(?: job)?|well done|lol|haha|test|ping",
    "wie geht ?s(?: dir)?|wie geht es dir|super|prima|alles klar|gut|ça va|comment ça va|d accord|qué tal|"
    "cómo estás|vale|come stai|tudo bem|hoe gaat het",
)
_SMALL_TALK: Final = re.compile(
    rf"(?:(?:{'|'.join(_ANSWERS + _GREETINGS)})(?: |$))*(?:(?:{'|'.join(_GREETINGS)}) [^\W\d_]+)?"  # "hi Ann"
)
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")


def is_small_talk(text: str) -> bool:
    """Return whether a message is nothing but courtesies, a name after them, or signs without a word."""
    if len(text) > _CHARS_MAX:
        return False
    words = _BETWEEN_WORDS.sub(" ", text.casefold()).strip()
    return _SMALL_TALK.fullmatch(words) is not None
