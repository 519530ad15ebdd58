"""A person's words as a statement that names them: "I live in Bonn" becomes "Ann lives in Bonn".

That is done where it is safe. Where it is not, the words are quoted as they are: "Ann: we had my brother over".
"""

import re
from typing import Final

from daycare.features.memory.language.patterns import words

_FIRST: Final = re.compile(
    r"\b(?:I|I'm|I've|I'll|I'd|me|my|mine|myself|we|we're|we've|we'll|us|our|ours|you|your|yours|you're|you've)\b",
    re.IGNORECASE,
)
_AUXILIARIES: Final = {
    "'m": "is", " am": "is", "'ve": "has", " have": "has", "'ll": "will", " do": "does", " don't": "doesn't",
    " haven't": "hasn't", " was": "was", " wasn't": "wasn't", " had": "had", " did": "did", " didn't": "didn't",
    " will": "will", " won't": "won't", " can": "can", " can't": "can't", " could": "could", " couldn't": "couldn't",
    " would": "would", " must": "must", " might": "might", " may": "may", " should": "should", " used": "used",
}  # fmt: skip
_I: Final = re.compile(r"^I(?P<verb>'m|'ve|'ll| [a-z']+)\b(?P<rest>.*)$", re.DOTALL)
_MY: Final = re.compile(r"^my (?P<rest>\S.*)$", re.IGNORECASE | re.DOTALL)
_PRESENT: Final = words(
    "love like enjoy hate prefer live work need want think hope play speak know go study drive run own use plan",
    "teach volunteer",
    "collect believe feel see make take get keep write read paint cook bake sing dance swim hike travel visit",
    "eat drink sleep",
    "train practice practise wear watch find help miss wish dislike adore look start spend try leave come call",
    "remember grow",
    "sell buy support manage organize organise attend meet suffer struggle dream draw knit sew garden surf ski climb",
)
_SAME_IN_PAST: Final = words("read put cut set hit let")
_PAST: Final = words(
    "went got made took bought met saw found won gave came left began lost told spent built ran flew drove wrote",
    "broke caught",
    "felt kept taught sang swam grew became chose fell heard held knew led lent paid quit rode sent sold spoke",
    "stood thought",
    "threw woke wore ate drank slept brought fought hid hurt forgot understood",
)


def told(speaker: str, said: str, language: str = "en") -> str:
    """Return a statement of what somebody said."""
    if language == "en":
        found = _I.match(said)
        if found and not _FIRST.search(found["rest"]):
            verb = _third(found["verb"])
            if verb:
                return f"{speaker} {verb}{found['rest']}"
        found = _MY.match(said)
        if found and not _FIRST.search(found["rest"]):
            return f"{speaker}'s {found['rest']}"
        first, _, rest = said.partition(" ")
        if first.lower() in _PAST and rest and not _FIRST.search(rest):
            return f"{speaker} {first.lower()} {rest}"
    return f"{speaker}: {said}"


def _third(verb: str) -> str:
    """Return the verb behind an "I" in the third person, "" if it is not known."""
    if verb in _AUXILIARIES:
        return _AUXILIARIES[verb]
    verb = verb.strip()
    if verb in _PAST or (verb.endswith("ed") and len(verb) > 3 and verb != "need") or verb in _SAME_IN_PAST - {"read"}:
        return verb
    if verb not in _PRESENT or verb in _SAME_IN_PAST:
        return ""
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"
