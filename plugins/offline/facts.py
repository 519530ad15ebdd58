"""Facts that people tell in plain sentences, and finding them again. It reads a conversation and keeps nothing."""

import re
from typing import Final

_SUBJECT: Final = r"(?P<what>[^\W\d_][\w '\u2019-]{0,60}?)"
_NAME: Final = r"(?:is|are)\s+(?:called|named)"
_VERBS: Final = (
    r"like|love|hate|prefer|want|need|have|live in|live at|live with|work at|work as|work for|come from|speak"
)
_FLAGS: Final = re.IGNORECASE

_USER: Final = re.compile(r"(?:please\s+)?(?:my name is|call me|i am called|i'm called)\s+(?P<value>.{1,60})", _FLAGS)
_POSSESSED: Final = re.compile(rf"(?:my|our)\s+{_SUBJECT}(?:['\u2019]s\s+name\s+is|\s+{_NAME})\s+(?P<value>.+)", _FLAGS)
_PROPERTY: Final = re.compile(
    rf"(?P<whose>my|our|the)\s+{_SUBJECT}\s+(?P<verb>is|are|was|were)\s+(?P<value>.+)", _FLAGS
)
_THEIRS: Final = re.compile(
    rf"(?:my|our)\s+{_SUBJECT}\s+(?P<verb>(?:lives?|works?) (?:in|at|with|near|as|for)|comes? from|has|have|"
    r"(?:like|love|hate|prefer|want|need|speak|play|own|drive)s?)\s+(?P<value>.+)",
    _FLAGS,
)
_HABIT: Final = re.compile(rf"i\s+(?:(?:really|also)\s+)?(?P<verb>{_VERBS})\s+(?P<value>.+)", _FLAGS)
_NOTE: Final = re.compile(
    r"(?:please\s+)?(?:remember|note|don['\u2019]t forget|do not forget)(?:\s*:|\s+that\b|\b)\s*(?P<value>.+)",
    _FLAGS | re.DOTALL,
)
_QUESTION: Final = re.compile(r"(?:what|who|where|when|why|how|which|is|are|do|does|can)\b", _FLAGS)

_MINE: Final = {"my": "your", "our": "your", "me": "you", "i": "you", "i'm": "you are", "mine": "yours", "am": "are"}


class OfflineFacts:
    """What was told, in the order it was told; a later fact of the same subject replaces the earlier one."""

    def __init__(self) -> None:
        self.name = ""  # of the user
        self._said: dict[str, str] = {}  # subject -> the whole sentence, to the user

    def learn(self, line: str) -> str:
        """Take the fact that `line` tells; return it as a sentence to the user, "" if it tells none."""
        line = line.strip()
        note = _NOTE.fullmatch(line)
        if note:
            value = note["value"].strip().rstrip(".!")
            quoted = f"\u201c{value}\u201d"
            return self._fact(value, noted=True) or self._keep(f"note {value.casefold()}", quoted)
        return self._fact(line, noted=False)

    def _fact(self, line: str, *, noted: bool) -> str:
        if line.endswith("?") or _QUESTION.match(line):
            return ""
        line = line.rstrip(" .!")
        if found := _USER.fullmatch(line):
            self.name = found["value"].strip()
            return self._keep("name", f"your name is {self.name}")
        if found := _POSSESSED.fullmatch(line):
            what, value = found["what"].strip(), found["value"].strip()
            return self._keep(f"{what.casefold()} name", f"your {what} is called {value}")
        if (found := _PROPERTY.fullmatch(line)) and (noted or found["whose"].casefold() != "the"):
            what, value = found["what"].strip(), found["value"].strip()
            whose = "the" if found["whose"].casefold() == "the" else "your"
            return self._keep(what.casefold(), f"{whose} {what} {found['verb'].casefold()} {value}")
        if found := _THEIRS.fullmatch(line):
            what, verb, value = found["what"].strip(), found["verb"].casefold(), found["value"].strip()
            return self._keep(f"{what} {verb} {value}", f"your {what} {verb} {_to_you(value)}")
        if found := _HABIT.fullmatch(line):
            verb, value = found["verb"].casefold(), found["value"].strip()
            return self._keep(f"{verb} {value.casefold()}", f"you {verb} {_to_you(value)}")
        return ""

    def _keep(self, key: str, sentence: str) -> str:
        key = _normal(key)
        self._said.pop(key, None)  # so that the new one stands last
        self._said[key] = sentence
        return sentence

    def about(self, what: str, *, name_first: bool = False) -> str:
        """Return the sentence on a subject such as "cat", "" if nothing was told.

        If it was told what that is or is called, this; else what was told last of it, as of "sister Clara" on "sister".
        """
        key = _normal(what)
        keys = (f"{key} name", key) if name_first else (key, f"{key} name")
        known = next((self._said[found] for found in keys if found in self._said), "")
        if known or name_first:
            return known
        return next((said for said in reversed(self._said.values()) if _normal(said).startswith(f"your {key} ")), "")

    def doing(self, verb: str) -> list[str]:
        """Return the sentences on what the user likes, where they live, and so on."""
        return [said for key, said in self._said.items() if key.startswith(f"{verb.casefold()} ")]

    def all(self) -> list[str]:
        """Return every sentence, the oldest first."""
        return list(self._said.values())

    def clear(self) -> None:
        """Drop everything."""
        self.name = ""
        self._said.clear()


def _normal(key: str) -> str:
    return " ".join(key.casefold().replace("\u2019", "'").split())


def _to_you(words: str) -> str:
    return " ".join(_MINE.get(word.casefold(), word) for word in words.split())
