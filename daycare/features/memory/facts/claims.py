"""What people say of themselves in plain forms: "I like ...", "my dentist is ...", "remember that ...".

Only what is said as a fact counts: no wish, nothing with an if; questions are not asked for here.
"""

import re
from collections.abc import Iterator
from typing import Final

from daycare.features.memory.facts.claim import Claim
from daycare.features.memory.facts.learned import VALUE_MAX_CHARS
from daycare.features.memory.language.common_words import COMMON
from daycare.features.memory.language.english import claims as claims_english
from daycare.features.memory.language.german import claims as claims_german
from daycare.features.memory.language.patterns import pattern

_LEAD_IN: Final = pattern(r"^(?!(?:if|when|wenn|my|our|i)\b)[\w' ]{1,40}, (?=(?:I|I'm|my|ich|meine?)\b)")


def claims(clause: str, language: str, last_subject: str = "") -> Iterator[Claim]:
    """Yield what a clause claims. `last_subject` is who was spoken of before it, for "they" and "she"."""
    clause = _LEAD_IN.sub("", clause)
    found = claims_german.claims(clause) if language == "de" else claims_english.claims(clause, last_subject)
    seen: set[str] = set()
    for claim in found:
        value = " ".join(claim.value.split()).strip(" .,;:!\"'")
        if value and len(value) <= VALUE_MAX_CHARS and claim.attribute not in seen:
            seen.add(claim.attribute)
            yield claim._replace(value=value, attribute=claim.attribute.lower())


def subject_of(clause: str) -> str:
    """Return who a clause is about, as it names them; empty if that does not show."""
    found = re.match(r"(?:my|our|the|meine?|unsere?) [\w'-]{2,20}\b|[A-Z][\w-]+\b", clause, re.IGNORECASE)
    if found is None or (" " not in found[0] and (found[0].lower() in COMMON or found[0].islower())):
        return ""
    return found[0]
