"""What a text is like, apart from what it is about: whether it asks, tells a time, a number or a name, says much.

Traits are one number, so that those of a million memories are an array: a bit for each, and how many words say
something. 0 is of a text that nobody has looked at.
"""

import re
from typing import Final

from daycare.features.memory.language.patterns import words
from daycare.features.memory.language.stop_words import EVERY_STOP_WORD
from daycare.features.memory.language.word_runs import words_in

KNOWN: Final = 1
ASKS: Final = 2
TIMES: Final = 4
NUMBERS: Final = 8
NAMES: Final = 16
SAYS: Final = 32  # and up: the number of words

_SAYS_MAX: Final = 1_000
_LOOKED_AT: Final = 1_000  # characters of a text: what it is like shows early
_QUESTION_MARKS: Final = ("?", "\uff1f", "\u061f")
_CLOSING: Final = "\"')]}*_ \t\r\n\u201d\u2019\u00bb"
_NAME: Final = re.compile(r" [A-Z\u00c0-\u00de](?:(?<=[^\W\d_]..)|(?<=[^\W\d_][,;]..))[^\W\d_]")  # begins no sentence
_DIGIT: Final = re.compile(r"\d")
_TIME: Final = re.compile(r"\b(?:(?:19|20)\d\d|\d{1,2}:\d\d)\b")
_TIMES: Final = words(
    """
    ago april august autumn day days december fall february fri friday january july june just last march may mon monday
    month months morning next night november october recently saturday sat september since spring summer sun sunday
    thu thursday today tomorrow tonight tue tuesday wed wednesday week weekend weeks winter year years yesterday
    """,
    """
    abend dezember dienstag donnerstag februar freitag frühjahr gestern heute herbst jahr jahre jahren januar juli juni
    kürzlich letzte letzten letztes mai mittwoch monat monate montag morgen märz nacht neulich nächste nächsten oktober
    samstag seit sommer sonntag tag tage tagen vorgestern woche wochen wochenende
    """,
    """
    ans an année août aujourd avril depuis demain dernier dernière décembre dimanche février hier janvier jeudi jour
    jours juillet juin lundi mardi matin mai mars mercredi mois nuit octobre prochain samedi semaine septembre soir
    vendredi
    """,
    """
    abril agosto anoche ayer año años diciembre domingo enero febrero hace hoy jueves julio junio lunes martes marzo
    mayo mañana mes meses miércoles noche noviembre octubre pasada pasado próximo septiembre semana sábado viernes
    """,
)
_NUMBERS: Final = words(
    """
    couple dozen eight few first five four hundred nine once one second seven several six ten third thousand three twice
    two acht drei dritte eins einmal elf erste fünf hundert neun paar sechs sieben tausend vier zehn zwei zweimal zwölf
    cinq deux dix fois huit mille neuf quatre sept trois cien cinco cuatro diez dos mil nueve ocho seis siete tres veces
    """
)


def of(text: str) -> int:
    """Return what a text is like."""
    text = text[:_LOOKED_AT]
    found = words_in(text.lower())
    digits = _DIGIT.search(text) is not None
    traits = KNOWN + SAYS * min(len(found - EVERY_STOP_WORD), _SAYS_MAX)
    if text.rstrip(_CLOSING).endswith(_QUESTION_MARKS):
        traits |= ASKS
    if not found.isdisjoint(_TIMES) or (digits and _TIME.search(text) is not None):
        traits |= TIMES
    if digits or not found.isdisjoint(_NUMBERS):
        traits |= NUMBERS
    if _NAME.search(text) is not None:
        traits |= NAMES
    return traits
