"""What people write, cut into sentences and clauses, without what belongs to the tone only."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from daycare.features.memory.language.patterns import either, pattern

TEXT_MAX_CHARS: Final = 4_000  # looked at of one message: longer text was pasted, and is not talk
SENTENCE_MAX_CHARS: Final = 1_000  # of one sentence, some ms to look at: what has no end is read in pieces
_SENTENCES_MAX: Final = 60  # of one message

_FENCED: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED: Final = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_LINK: Final = re.compile(r"\bhttps?://\S+")
_MARKS: Final = re.compile(r"(?<![\w*_`#])[*_`#]{1,3}(?=\w)|(?<=\w)[*_`]{1,3}(?![\w*_`])")
_SPACE: Final = re.compile(r"(?:[^\S\n]|\u200b)++")  # patterns below count on single blanks
# After these a full stop ends no sentence.
_SHORT: Final = pattern(
    r"\b"
    + either(
        r"dr, mr, mrs, ms, prof, st, hr, fr, vs, etc, e\.g, i\.e, z\.b, bzw, ca, nr, jr, sr, inc, ltd, corp",
        r"approx, a\.m, p\.m",
        "(?-i:[A-Z])",
    )
    + r"\.$"
)
_ORDINAL: Final = re.compile(r"\b\d{1,2}\.$")
_END: Final = re.compile(
    "(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019)]*+(?=\\s|$)|\n+|(?<=[\U0001f300-\U0001faff\u2600-\u27bf])\\s+"
)
_JOINING: Final = either(
    "but, because, cause, so that, although, though, even though, aber, weil, obwohl, denn, sondern"
)
_CLAUSE: Final = pattern(
    "\\s+[-\u2013\u2014]+\\s+|\\s*(?:--+|\u2014)\\s*|;\\s+|\\s*[()]\\s*|:\\s+"
    rf"|,?\s+{_JOINING}\s+|,\s+(?:and|so|while|und)\s+"
    r"|,\s+(?=(?:it|that|they|this|there|he|she)(?:'s| was| is| are| were|'re| has| had)\b)"
    r"|\s+(?:and|und)\s+(?=(?:I|we|it|he|she|they|it's|I'm|I've|we're|ich|wir)\b)"
)
# Where a long clause has a part that it can do without.
_ADJUNCT: Final = re.compile(
    rf",?\s+{either('which, when, where, while, since, until, as, whenever, so, wobei, während, damit')}\s|,\s(?="
    + either(
        r"the, my, our, with, especially, giving, making, \w+ing, then, even, just, plus, not, too, though, to",
        r"at, for, in, on",
    )
    + r"\b)"
)
_SPLICE: Final = re.compile(r",\s+(?=(?:I|I'm|I've|my|we|we're)\s)")
_CONDITION: Final = pattern(
    either(
        "if, when, whenever, once, until, since, ever since, after, before, because, while, although, though, as",
        "unless, wenn, falls, als",
    )
    + r"\b"
)
_LONG_CHARS: Final = 45
_CORE_MIN_CHARS: Final = 25

_EXCLAIMED: Final = either(  # before a comma or a full stop only
    r"no, well, right, sure, great, cool, nice, man, sorry, awesome, exactly, absolutely, definitely, totally",
    r"indeed, so, thanks(?: [\w ]{1,12})?, thank you(?: [\w ]{1,12})?, then, lol, haha, ok, okay, hey, hi, hello",
    "nein, danke, klar, genau, na",
)
_BEGUN: Final = either(
    "oh, wow, yeah, yep, yes, yup, nope, btw, by the way, actually, honestly, anyway, also, plus, and, but, or",
    "so(?! far), hey",
    "aww?, guess what, on top of that, in the meantime",
    "on (?:another|a (?:different|side|positive|happier)) note, as for me",
    "since we (?:last )?(?:spoke|talked|chatted|met), let me tell you (?:about|that)?, here(?:'s| is)",
    "check (?:this )?out",
    "i (?:just )?wanted to (?:tell|let) you (?:know|about|that)?(?: that)?, check it out, (?:take a )?look at",
    "i think, i guess",
    "i mean, i believe, in fact, to be honest, of course, luckily, unfortunately, sadly, fortunately",
    "apparently, ja, ach, naja",
    "hallo, übrigens, eigentlich, leider, ehrlich gesagt, tja, und, aber, fyi",
)
_OPENING: Final = pattern(
    f"(?:(?:{_EXCLAIMED}(?=[,.!:;\u2013\u2014])|{_BEGUN})(?![\\w'-])[\\s,!.:;\u2013\u2014-]*){{1,6}}"
)
_FILLING: Final = pattern(
    r"(?<!not )(?<!n't )\b"
    + either(
        "really, super, just, actually, totally, definitely, quite, very, kinda, kind of, sort of, truly",
        "absolutely, literally",
        "pretty(?= (?:much|good|cool|nice)), basically, honestly, wirklich, echt, eigentlich, halt, sehr",
        r"so(?= (?:much|many|happy|glad|excited|proud|grateful|thankful|cool|fun|good|great|nice)\b)",
    )
    + r"\s+"
)
_EDGES: Final = " \t.,;:!?\u2026\u2013\u2014-~"
_GERMAN: Final = pattern(
    r"\b"
    + either(
        "ich, und, nicht, der, die, das, ist, wir, mein, meine, meinen, meiner, unser, unsere, habe, haben, hat",
        "bin, sind, war",
        "waren, mit, ein, eine, einen, auf, für, von, vom, zu, zum, zur, bei, beim, im, nach, auch, mir, mich",
        "dir, dich, kannst",
        "bitte, heiße, heißt, gestern, heute, morgen, wie, es, dass, letzten, nächste, danke, vielen, vor, den",
        "dem, sie, er, ihr",
        "kein, keine, gern, du, uns, wohnt, sehr",
    )
    + r"\b|[äöüß]"
)
_ENGLISH: Final = pattern(
    r"\b"
    + either(
        "i, the, and, my, is, are, were, to, of, you, we, it, that, have, has, had, with, for, at, on, from",
        "our, he, she, they",
        "this, a, be, do, does, did, not, but, i'm, i've, don't, what, how, will, would, can, your",
    )
    + r"\b"
)
_GIST_MAX_CHARS: Final = 48
_QUESTION_WORDS: Final = pattern(
    "(?:"
    + either(
        "do, does, did, have, has, had, are, is, was, were, can, could, would, will, what(?:'s|'re)?, which",
        "any, kind, type, sort",
        r"of, you, your, the, an?, got, ever, been, some, hast, bist, welche\w?, du, deine?\w?, ist, sind, es, there",
    )
    + r"\s+){1,8}"
)
_ASKING: Final = pattern(
    r"^(?:(?:and|so|but|well|und),? )?"
    + either(
        "who, what, when, where, why, which, how, do, does, did, is, are, am, can, could, would, will, should",
        "shall, have, has",
        r"may, wer, was, wann, wo, warum, welche\w?, wie, kannst, könntest, hast, bist, gibt, ist, sind",
    )
    + r"\b"
)
_TAG: Final = pattern(
    r",\s+"
    + either(
        "can you, do you, don't you, isn't it, aren't they, right, huh, eh, you know, ok, okay, what about you",
        "how about you, and you, was it, oder, nicht wahr",
    )
    + r"\b[^,.?]{0,40}\?$"
)


class Sentence(NamedTuple):
    """A sentence, and whether it asks."""

    text: str
    asks: bool


def clean(text: str) -> str:
    """Return the words of a message: no code, no quotation of others, no links, no marks of Markdown."""
    text = text[:TEXT_MAX_CHARS]
    if "`" in text or ">" in text or "*" in text or "_" in text or "#" in text:
        text = _MARKS.sub("", _QUOTED.sub("", _FENCED.sub("\n", text)))
    if "://" in text:
        text = _LINK.sub("", text)
    return _SPACE.sub(" ", text.replace("\u2019", "'").replace("\u2018", "'")).strip()


def language_of(text: str) -> str:
    """Return `de` for German, `en` for everything else."""
    german = len(_GERMAN.findall(text))
    return "de" if german and german > len(_ENGLISH.findall(text)) else "en"


def sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a cleaned text, in order."""
    begin, count = 0, 0
    for found in _END.finditer(text):
        if found[0][0] == "." and not _ends(text[begin : found.start() + 1], text[found.end() :]):
            continue
        part = text[begin : found.end()].strip()
        begin = found.end()
        if part:
            yield from _whole(part)
            count += 1
            if count == _SENTENCES_MAX:
                return
    part = text[begin:].strip()
    if part:
        yield from _whole(part)


def _whole(text: str) -> Iterator[Sentence]:
    """Yield a sentence, or the pieces of one that no person says."""
    for start in range(0, len(text), SENTENCE_MAX_CHARS):
        yield from _sentence(text[start : start + SENTENCE_MAX_CHARS])


def _sentence(text: str) -> Iterator[Sentence]:
    """Yield a sentence; what is said before "..., can you believe it?" is no question."""
    tag = _TAG.search(text)
    if tag and not _ASKING.match(text):
        yield Sentence(text[: tag.start()], False)
        text = text[tag.start() :].lstrip(", ")
    yield Sentence(text, _asks(text))


def _ends(before: str, after: str) -> bool:
    if _SHORT.search(before[-8:]):
        return False
    return not (_ORDINAL.search(before[-4:]) and after[1:2].isalpha())


def _asks(text: str) -> bool:
    return text.rstrip("\"')\u201d ").endswith("?") or bool(_ASKING.match(text) and not text.endswith((".", "!")))


def clauses(sentence: str) -> list[str]:
    """Return the parts of a sentence that can stand alone."""
    wholes = [whole for part in _CLAUSE.split(sentence) for whole in _spliced(bare(part))]
    parts = [part for whole in wholes for part in _shortened(whole)]
    return [part for part in parts if part]


def _spliced(clause: str) -> Iterator[str]:
    """Yield what only a comma divides: "I'm a cat person, I don't like dogs". An "if" belongs to what follows."""
    found = None if _CONDITION.match(clause) else _SPLICE.search(clause)
    if found is None:
        yield clause
    else:
        yield clause[: found.start()]
        yield bare(clause[found.end() :])


def _shortened(clause: str) -> tuple[str, ...]:
    if len(clause) > _LONG_CHARS:
        for found in _ADJUNCT.finditer(clause, _CORE_MIN_CHARS):
            return bare(clause[: found.start()]), bare(clause[found.start() :])
    return (clause,)


def bare(text: str) -> str:
    """Return a clause without the words that only open it."""
    text = text.strip(_EDGES)
    found = _OPENING.match(text)
    return text[found.end() :].strip(_EDGES) if found else text


def unaddressed(text: str, names: Iterable[str]) -> str:
    """Return a clause without the names of those who are spoken to."""
    for name in names:
        if name and name.lower() in text.lower():
            called = re.escape(name)
            text = re.sub(rf"^{called}\s*[,!.:]\s*|,\s*{called}(?=\s*$|\s*[,!.])", "", text, flags=re.IGNORECASE)
    return text.strip(_EDGES)


def squeezed(text: str) -> str:
    """Return a clause without words that weaken or strengthen it only."""
    return _SPACE.sub(" ", _FILLING.sub("", text)).strip(_EDGES)


def gist(question: str) -> str:
    """Return what a question is about, without the words that make it one."""
    words = squeezed(bare(question))
    found = _QUESTION_WORDS.match(words)
    rest = (words[found.end() :] if found else words) or words
    return rest if len(rest) <= _GIST_MAX_CHARS else rest[:_GIST_MAX_CHARS].rpartition(" ")[0] or rest[:_GIST_MAX_CHARS]
