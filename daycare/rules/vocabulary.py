"""What words mean: a text becomes a row of tokens, each with the classes of `lexicon.toml` that it belongs to.

A class is one bit. Words are looked up as they stand, by their stem, and read as somebody would who sees letters of
another script or digits for letters. Phrases are found by their last word, so that a text is read once and forwards.
"""

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from itertools import combinations
from typing import Final, NamedTuple

from daycare.rules.normal import fold, lookalike, unleet

WORD_MAX_CHARS: Final = 64  # a longer one goes on in the next token
_KNOWN_MAX_WORDS: Final = 10_000  # looked up and remembered; some 2 MB, more than most texts of 100 KB have
_PIECE_MAX_CHARS: Final = 14
_LETTER_COST = 9  # of a letter that is in no word
_WORD_COSTS: Final = (0, 0, 7, 6, *(5,) * (_PIECE_MAX_CHARS - 3))  # by length: short ones are in everything
_STEM_MIN_CHARS: Final = 3
_COMPOUND_MIN_CHARS: Final = 10  # a shorter word is one
_COMPOUND_HEAD_MIN_CHARS: Final = 6
_HEADS: Final = "rules check secret data orders money"  # what a German or Dutch compound may end in
# Classes that no word has by itself: of tokens, of verbs as they are meant, and of several words together.
_MADE_CLASSES: Final = (
    *("address", "url", "edge", "told", "begun"),
    *("nask", "ninform", "nobey", "nact"),
    *("unasked", "hushed", "private", "called"),
    "symbols",  # of programs
    *("participle", "indicative", "gerund"),  # forms of English verbs that do not tell by themselves
)
_INFLECTED: Final = (("participle", "ed"), ("gerund", "ing"), ("indicative", "s"))
# Endings of other languages, in plain letters, and what the form in the lexicon ends in; these tell like that form.
_ENDINGS: Final = (
    *(("ar", "a"), ("ir", "e"), ("ir", "i"), ("are", "a"), ("ere", "i"), ("ire", "i"), ("ez", "e"), ("es", "a")),
    *(
        ("as", "e"),
        ("en", "a"),
        ("an", "e"),
        ("em", "a"),
        ("am", "e"),
        ("e", "a"),
        ("en", "e"),
        ("t", "e"),
        ("st", "e"),
    ),
    *((clitic, "") for clitic in ("lo", "la", "los", "las", "me", "nos", "mi", "melo", "le", "les", "li", "ci")),
    *(("ите", "и"), ("ть", "и"), ("ить", "ь"), ("те", ""), ("ить", "и"), ("st", "e")),
)
_BY_LETTER: Final = {
    letter: tuple((ending, other) for ending, other in _ENDINGS if ending[-1] == letter)
    for letter in {ending[-1] for ending, _ in _ENDINGS}
}
_VERBS: Final = "ignore obey ask inform skip approve act destroy pay promote send reveal remember usetool"
_IRREGULAR: Final = {
    **{
        "sent": "send",
        "told": "tell",
        "given": "give",
        "paid": "pay",
        "left": "leave",
        "shown": "show",
        "made": "make",
    },
    **{"hidden": "hide", "kept": "keep", "written": "write", "forgotten": "forget", "done": "do", "taken": "take"},
    **{"overridden": "override", "withheld": "withhold", "bought": "buy", "carries": "carry", "carried": "carry"},
    "made": "make",
}
_COMMON: Final = "fill first third pronoun neg negafter benign style mention report"  # tell nothing by themselves
_TURNED_MIN_CHARS: Final = 4  # shorter words turned round or shifted are too often other words
_RUNNING: Final = "\u3005\u3040-\u30ff\u3400-\u9fff"  # scripts without blanks between words

TOKEN: Final = re.compile(
    rf"(?P<plain>[a-z]{{1,{WORD_MAX_CHARS}}}+(?=[ ,\n]))|(?P<running>[{_RUNNING}]{{1,32}})"  # most words, at once
    rf"|(?P<url>(?:(?:h(?:tt|xx)ps?|ftp|wss?)://|www\.(?=\w))[^\s<>\"'`\u3000-\u303f\uff00-\uffef{_RUNNING}]{{1,2000}}+"
    rf"|data:[a-z]+/[a-z]|javascript:(?=[a-z(]))"
    rf"|(?P<mail>(?:mailto:)?[a-z0-9_.+-]{{1,64}}+@(?:[a-z0-9-]{{1,63}}+\.){{1,4}}[a-z]{{2,24}})"
    rf"|(?P<host>(?:[a-z0-9-]{{1,63}}+\.){{1,4}}(?:com|net|org|io|ru|cn|de|xyz|info|example|test|top|site|dev|app|me|co)\b/?"
    rf"|\d{{1,3}}(?:\.\d{{1,3}}){{3}}\b|\+\d{{1,3}}(?:[ ./()-]{{1,2}}\d{{2,8}}){{2,5}}\b)"
    rf"|(?P<word>[^\W_{_RUNNING}]{{1,{WORD_MAX_CHARS}}}(?:'(?:t|re|ll|ve|s|m|d)\b|[@$!|]{{1,3}}(?=[^\W_])[^\W_]{{1,20}}){{0,8}})"
    rf"|(?P<stop>[.!?\u3002]{{1,200}}(?=[\s\"')\]*_]|[^\x00-\x7f]|\Z)|\u3002)|(?P<line>\n[ \t\n]{{0,200}}+)"
    rf"|(?P<mark>[^\s\w']{{1,200}}+|(?<!\w)'+|'+(?!\w))|(?P<blank>[^\S\n]{{2,}}+)"
)
_WORDS: Final = re.compile(rf"[^\W_{_RUNNING}]+(?:'(?:t|re|ll|ve|s|m|d)\b)?\*?|[{_RUNNING}]+")
_ONLY_RUNNING: Final = re.compile(rf"[{_RUNNING}]+")
_ROT13: Final = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")


Phrase = tuple[tuple[str, ...], int]  # the words before the last one, and the classes of all


_NONE: Final[list[Phrase]] = []
_NO_ENDINGS: Final[dict[str, list[Phrase]]] = {}  # one for all words that end no phrase


class Vocable(NamedTuple):
    """What is known of a word."""

    classes: int  # by itself
    endings: dict[str, list[Phrase]]  # by the word before it; "" for those where that is a stem
    word: str  # as somebody reads it
    shifted: bool = False  # read with rot13 it would mean something
    backwards: bool = False
    lemma: str = ""  # of a form of an English verb

    def phrases(self, before: str, lemma: str) -> list[Phrase]:
        """Return the phrases that this word may end when it comes behind that one."""
        endings = self.endings
        found = endings.get(before, _NONE)
        if "" in endings:
            found = found + endings[""]
        if lemma and lemma in endings:
            found = found + endings[lemma]
        return found


class Vocabulary(dict[str, Vocable | None]):
    """Words and what they mean; filled as words come."""

    def __init__(self, tables: dict[str, dict[str, str]]) -> None:
        super().__init__()
        names = [*_MADE_CLASSES, *tables]
        self.bits: Final = {name: 1 << place for place, name in enumerate(names)}
        self._exact: dict[str, int] = {}
        self._stems: dict[str, int] = {}
        self._endings: dict[str, list[Phrase]] = {}
        self._shared: dict[int, int] = {}  # a number of so many bits takes as much as a word
        self._running: dict[str, int] = {}
        self._spoken: dict[str, None] = {}  # words of phrases
        for name, languages in tables.items():
            for entry in ",".join(languages.values()).split(","):
                self._learn(fold(entry.strip()), self.bits[name])
        self._stem_lengths: Final = sorted({len(stem) for stem in self._stems}, reverse=True)
        self._stem_beginnings: Final = {stem[:_STEM_MIN_CHARS] for stem in self._stems}
        self._longest_running: dict[str, int] = {}
        for entry in self._running:
            self._longest_running[entry[0]] = max(len(entry), self._longest_running.get(entry[0], 0))
        every = {**self._exact, **self._endings, **self._spoken}
        self._pieces: Final = {word for word in every if 2 <= len(word) <= _PIECE_MAX_CHARS}
        self._beginnings: Final[dict[str, int]] = {}  # of pieces, and the longest that begins so
        for word in self._pieces:
            self._beginnings[word[:2]] = max(len(word), self._beginnings.get(word[:2], 0))
        apart = self.mask("neg negafter without none needless")  # longer entries with them mean something of their own
        for entry, classes in dict(self._running).items():
            for start, end in combinations(range(len(entry) + 1), 2):
                inside = self._running.get(entry[start:end], 0)
                if not (inside | classes) & apart:
                    self._running[entry] |= inside
        self._nouns: Final = self.mask(_HEADS)
        self._verbs: Final = self.mask(_VERBS)
        self.signals: Final = self.mask(" ".join(tables)) & ~self.mask(_COMMON)

    def mask(self, names: str) -> int:
        """Return the classes of `names`, which are separated by blanks."""
        return sum(self.bits[name] for name in set(names.split()) if name in self.bits)

    def lemma(self, word: str) -> str:
        """Return the verb that a word read before is a form of, or the word."""
        known = self.get(word)
        return (known and known.lemma) or word

    def same(self, said: list[str], phrase: tuple[str, ...]) -> bool:
        """Whether the words said are those of a phrase, which may have stems in it."""
        return len(said) == len(phrase) and all(
            one == other or (other[-1] == "*" and one.startswith(other[:-1])) or self.lemma(one) == other
            for one, other in zip(said, phrase, strict=True)
        )

    def running(self, text: str) -> Iterable[tuple[int, int, int]]:
        """Return the places and classes of what is known in a script without blanks."""
        at, found = 0, []
        while at < len(text):
            for length in range(self._longest_running.get(text[at], 0), 0, -1):
                if (classes := self._running.get(text[at : at + length])) is not None and at + length <= len(text):
                    found.append((at, at + length, classes))
                    at += length
                    break
            else:
                at += 1
        return found

    def pieces(self, text: str) -> list[str]:
        """Return the words that stand in `text` without blanks between them, and the letters between those.

        Of all ways to cut it, the one with the fewest letters left over, and then the fewest words.
        """
        count = len(text)
        costs, lengths = [0] * (count + 1), [1] * (count + 1)
        for at in range(count - 1, -1, -1):
            cost, best = costs[at + 1] + _LETTER_COST, 1
            longest = self._beginnings.get(text[at : at + 2], 0)
            for length in range(2, min(longest, count - at) + 1):
                if text[at : at + length] in self._pieces and costs[at + length] + _WORD_COSTS[length] <= cost:
                    cost, best = costs[at + length] + _WORD_COSTS[length], length
            costs[at], lengths[at] = cost, best
        found, at = [], 0
        while at < count:
            found.append(text[at : at + lengths[at]])
            at += lengths[at]
        return found

    def __missing__(self, word: str) -> Vocable | None:
        if len(self) >= _KNOWN_MAX_WORDS:
            self.clear()
        known = self._look_up(word)
        if known is None:
            known = self._as_seen(word)
        self[word] = known
        return known

    def _as_seen(self, word: str) -> Vocable | None:
        plain = word if word.isascii() else lookalike(word)
        readings = [plain] if plain != word else []
        if not plain.isalpha():
            readings.extend(unleet(plain))
        for reading in readings:
            if found := self._look_up(reading):
                return found
        if len(word) < _TURNED_MIN_CHARS:
            return None
        backwards = self._signals_in(word[::-1])
        shifted = word.isascii() and self._signals_in(word.translate(_ROT13))
        return Vocable(0, _NO_ENDINGS, word, shifted, backwards) if shifted or backwards else None

    def _signals_in(self, word: str) -> bool:
        found = self._look_up(word, forms=False)
        return found is not None and bool(found.classes & self.signals)

    def _look_up(self, word: str, forms: bool = True) -> Vocable | None:
        classes = self._exact.get(word, 0)
        endings = self._endings.get(word, [])
        if word[:_STEM_MIN_CHARS] in self._stem_beginnings:
            for length in self._stem_lengths:
                if word[:length] in self._stems:
                    classes |= self._stems[word[:length]]
                    endings = endings + self._endings.get(word[:length] + "*", [])
        lemma = ""
        if forms and not classes & self._verbs:
            lemma, inflected = self._inflected(word)
            classes |= inflected
        if classes or endings:
            before: dict[str, list[Phrase]] = {} if endings else _NO_ENDINGS
            for phrase, meaning in endings:
                before.setdefault("" if phrase[-1].endswith("*") else phrase[-1], []).append((phrase, meaning))
            return Vocable(classes, before, word, lemma=lemma)
        return Vocable(0, _NO_ENDINGS, word) if word in self._spoken else None

    def _inflected(self, word: str) -> tuple[str, int]:
        """Return the English verb that `word` is a form of, and its classes and the form."""
        if irregular := _IRREGULAR.get(word):
            form = "indicative" if word.endswith("s") else "participle"
            return irregular, (self._exact.get(irregular, 0) & self._verbs) | self.bits[form]
        for form, ending in _INFLECTED:
            stem = word.removesuffix(ending)
            if stem == word or len(stem) < _STEM_MIN_CHARS:
                continue
            bases = [stem] if ending == "s" else [stem, stem + "e"]
            if stem[-1] == stem[-2]:  # stopped
                bases.append(stem[:-1])
            elif stem[-1] == "i":  # notified
                bases.append(stem[:-1] + "y")
            elif ending == "s" and stem[-1] == "e":  # bypasses, notifies
                bases += [stem[:-1], stem[:-2] + "y"]
            for base in bases:
                if classes := self._exact.get(base, 0) & self._verbs:
                    return base, classes | self.bits[form]
                if base in self._spoken:
                    return base, self.bits[form]
        for ending, other in _BY_LETTER.get(word[-1], ()):
            if word.endswith(ending) and len(word) > len(ending) + _STEM_MIN_CHARS:
                base = word[: -len(ending)] + other
                if classes := self._exact.get(base, 0) & self._verbs:
                    return base, classes
        if (
            word.startswith("ge")
            and word[-1] == "t"
            and (classes := self._exact.get(word[2:-1] + "e", 0) & self._verbs)
        ):
            return word[2:-1] + "e", classes
        if len(word) >= _COMPOUND_MIN_CHARS and word.isalpha():  # Sicherheitsabfrage
            for start in range(3, len(word) - _COMPOUND_HEAD_MIN_CHARS + 1):
                if classes := self._exact.get(word[start:], 0) & self._nouns:
                    return word, classes
        return "", 0

    def _learn(self, entry: str, bit: int) -> None:
        if _ONLY_RUNNING.fullmatch(entry):
            self._put(self._running, entry, bit)
            return
        words = [found[0] for found in _WORDS.finditer(entry)]
        if not words or any(_ONLY_RUNNING.match(word) for word in words):
            return
        if len(words) > 1:
            self._spoken.update(dict.fromkeys(words[:-1]))
            self._endings.setdefault(words[-1], []).append((tuple(words[:-1]), bit))
            if words[-1].endswith("*"):
                self._stems.setdefault(words[-1][:-1], 0)
        elif words[0].endswith("*"):
            self._put(self._stems, words[0][:-1], bit)
        else:
            self._put(self._exact, words[0], bit)

    def _put(self, known: dict[str, int], word: str, bit: int) -> None:
        classes = known[word] | bit if word in known else bit
        known[word] = self._shared.setdefault(classes, classes)


@cache
def vocabulary() -> Vocabulary:
    """Return the vocabulary of `lexicon.toml`, read once."""
    return Vocabulary(tomllib.loads(files("daycare.rules").joinpath("lexicon.toml").read_text(encoding="utf-8")))
