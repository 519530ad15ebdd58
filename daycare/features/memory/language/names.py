"""Names in sentences: of people, places and things, by what stands around them and by lists of known ones.

Each candidate, a run of words with capitals, collects evidence for each kind; the kind with the most is what it is, if
that is enough. What has no evidence is left out: better a name missed than a thing made up. Those of a range of
conversation are gathered: one entity for each, with its other names and sources.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from daycare.features.memory.facts.learned import (
    ALIASES_MAX,
    ENTITIES_MAX,
    NAME_MAX_CHARS,
    EntityKind,
    NewEntity,
    plain,
)
from daycare.features.memory.language import name_signs as signs
from daycare.features.memory.language.lists import COMMON, GIVEN, PLACES

ENOUGH: Final = 2.0
_WORDS_MAX: Final = 6  # of one name
_NAMES_MAX: Final = 16  # of one sentence: more is a list of something
_LOOKED_AT_MAX: Final = 64  # runs of capitals in it that are judged: .25 ms each, and no sentence of people has more
_AROUND_CHARS: Final = 60  # looked at on each side of a name

_CAPITAL: Final = r"[^\W\d_a-zß-öø-ÿ][\w'&-]*"  # begins with a letter that is not lower case in Latin
_PARTICLE: Final = r"(?:of the|of|the|de la|del|de|di|da|do|du|la|le|van der|van|von|der|bin|al|el)"
_NAME: Final = re.compile(
    rf"(?:\b(?P<title>{signs.TITLE})\s+)?(?P<name>\b{_CAPITAL}(?:\.(?=\s?[A-Z]))?"
    rf"(?:(?:\s+|\s*&\s*)(?:{_PARTICLE}\s+)?{_CAPITAL}){{0,{_WORDS_MAX}}})"
)
_QUOTE: Final = re.compile('["\u201c\u201e\u00ab]([^"\u201c\u201d\u201e\u00ab\u00bb]{2,80})["\u201d\u201c\u00bb]')
_LEADING: Final = re.compile(rf"{_PARTICLE} ")
_LISTED: Final = re.compile(rf"(?:,? and|,? und|,| &)\s+(?P<name>{_CAPITAL})(?=[\s,.!;]|$)")
_WORD: Final = re.compile(r"[^\W\d_][\w'-]*")
_OPEN: Final = " \"'(\u201c\u201e"


class Mention(NamedTuple):
    """A name in a sentence. `certainty` grows with the evidence; `relation` is what was said of it ("sister")."""

    start: int
    end: int
    name: str
    kind: EntityKind
    certainty: float
    relation: str = ""


def find(text: str, language: str = "en") -> list[Mention]:
    """Return the names in a sentence, in order."""
    found = list(_titles(text))
    candidates = _lower(text) if text == text.lower() else _candidates(text, language)
    for start, end, title, name in islice(candidates, _LOOKED_AT_MAX):
        if len(found) == _NAMES_MAX:
            break
        if not any(start < other.end and other.start < end for other in found):
            mention = _judged(text, start, end, title, name, language)
            if mention:
                found.append(mention)
    return _with_lists(text, sorted(found))


def _titles(text: str) -> Iterator[Mention]:
    """Yield what stands in quotation marks as a title does."""
    for quoted in _QUOTE.finditer(text):
        title = quoted[1].strip(" ,.")
        common = all(word.lower() in COMMON for word in _WORD.findall(title))
        if title[:1].isupper() and not common and len(title.split()) <= _WORDS_MAX + 1 and title[-1] not in "!?":
            yield Mention(quoted.start(1), quoted.end(1), title, "thing", ENOUGH)


def _candidates(text: str, language: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield (start, end, title, name) of each run of words with capitals that may be a name."""
    for found in _NAME.finditer(text):
        title, name, start = found["title"] or "", found["name"], found.start("name")
        if not title:
            name, start = _trimmed(text, name, start, language)
        name = re.sub(r"'s$|(?<![.&'-])[.&'-]++$", "", name)
        if name and len(name) <= NAME_MAX_CHARS:
            yield start, start + len(name), title, name


def _trimmed(text: str, name: str, start: int, language: str) -> tuple[str, int]:
    """Take words from both ends of a run that are no part of a name."""
    while word := _WORD.match(name):
        last = word.end() >= len(name)
        if not _is_plain(word[0].lower(), text[:start], last=last or language != "de"):
            break
        if not last and word[0].lower() in ("new", "the") and _is_known_place(name):
            break
        rest = name[word.end() :].lstrip(" &")
        rest = rest[found.end() :] if (found := _LEADING.match(rest)) else rest
        start, name = start + len(name) - len(rest), rest
    while name and (name.endswith(" I") or signs.CALENDAR.match(name.split()[-1])):
        name = name.rpartition(" ")[0].rstrip()
    return name, start


def _is_plain(word: str, before: str, *, last: bool) -> bool:
    """Tell whether a word with a capital has it for other reasons than being a name."""
    if signs.CONTRACTION.search(word) or word.removesuffix("'s") in signs.NO_NAMES or word == "the":
        return True
    if not last and (signs.NO_GERMAN_NAME.match(word) or signs.is_noun(word)):
        return True  # all nouns of German have one
    first = not before.strip(_OPEN) or before.rstrip()[-1:] in ".!?:"
    return word in COMMON and (first or word not in GIVEN | PLACES)


def _is_given(word: str) -> bool:
    """Tell whether a word, or the part before its hyphen, is a known given name, with or without its accents."""
    plain = "".join(letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter))
    return not GIVEN.isdisjoint((word, word.partition("-")[0], plain))


def _is_known_place(name: str) -> bool:
    return signs.is_place(name) or any(word in PLACES for word in name.lower().split())


def _lower(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield known names in a text that is written without any capitals."""
    for found in _WORD.finditer(text):
        word = found[0].removesuffix("'s")
        if word in signs.AMBIGUOUS or word in COMMON or word in signs.NO_NAMES:
            continue
        before = text[max(0, found.start() - _AROUND_CHARS) : found.start()]
        if (
            word in GIVEN
            or word in PLACES
            or signs.PET_BEFORE.search(before)
            or (signs.RELATION_BEFORE.search(before) and not signs.VERBAL.search(word))
        ):
            yield found.start(), found.start() + len(word), "", word


def _judged(text: str, start: int, end: int, title: str, name: str, language: str) -> Mention | None:
    lead = start - len(title) - 1 if title else start
    before, after = text[max(0, lead - _AROUND_CHARS) : lead], text[end : end + _AROUND_CHARS]
    if title:
        score: dict[EntityKind, float] = {"thing" if signs.PET_BEFORE.search(before) else "person": 5.0}
    else:
        score = {"person": 0.0, "place": 0.0, "thing": 0.0}
        _look_around(score, before, after, name)
        _look_at(score, before, after, name, language)
        if language == "de" and signs.is_noun(name):
            score["place"] -= 2.2
    kind = max(score, key=lambda one: (score[one], one))
    if score[kind] < ENOUGH:
        return None
    relation = signs.RELATIVE_OF.search(before) if kind != "place" else None
    whole = f"{title} {name}" if title else name
    return Mention(lead, end, whole, kind, score[kind], relation["what"].lower() if relation else "")


def _look_around(score: dict[EntityKind, float], before: str, after: str, name: str) -> None:
    """Add what stands around a name."""
    for sign in signs.SIGNS:
        where = before if sign.where == "before" else name
        if sign.pattern.match(after) if sign.where == "after" else sign.pattern.search(where):
            score[sign.kind] += sign.points


def _look_at(score: dict[EntityKind, float], before: str, after: str, name: str, language: str) -> None:
    """Add what the name itself says."""
    low = name.lower().split()
    first, given = not before.strip(_OPEN), _is_given(low[0])
    known = 2.0 if len(low) < 4 else 1.0
    if not first and language == "en" and low[0] not in COMMON:
        score["person"] += 0.0 if given else 0.7  # what has a capital within a sentence is somebody or something
        score["place"] += 0.3
        score["thing"] += 0.3
    if given:
        score["person"] += known - (0.5 if len(low) == 1 and low[0] in PLACES else 0.0)
        score["thing"] -= 0.0 if before.rstrip().endswith("called") else 1.6
    elif len(low) > 1:
        score["person"] -= 0.5
    if any(word in PLACES for word in low):
        score["place"] += known
    if len(low) > 1 and signs.is_place(name):
        score["place"] += 2.6
    if signs.GREETING.match(before) and (given or not first) and re.match(r"\s*[,!]", after):
        score["person"] += 1.6
    if first and signs.SAYS.match(after):
        score["person"] += 0.5  # only people say and think
    if first and not given and (low[0] in COMMON or signs.is_noun(low[0])):
        score["person"] -= 2.0
    if signs.A_RELATION.match(low[0]) or (first and low[0] in signs.AMBIGUOUS and not signs.SAYS.match(after)):
        score["person"] -= 2.0
    if signs.PET_BEFORE.search(before) or signs.PET_AFTER.match(after):
        score["person"] = score["place"] = 0.0
        score["thing"] = 2 * ENOUGH
    if len(name) < 2:
        score["person"] = score["place"] = score["thing"] = 0.0
    elif name.isupper() and low[0] not in PLACES:
        score["person"] -= 2.0
        score["place"] -= 2.0 if len(name) > 2 else 0.0


def _with_lists(text: str, found: list[Mention]) -> list[Mention]:
    """Let what stands in a list be of one kind: in "Marta, Luis and Pedro" all are people or none is."""
    known = {mention.start: mention for mention in found}
    for mention in found:
        mention = known[mention.start]
        at = mention.end
        while (listed := _LISTED.match(text, at)) and len(known) < 2 * _NAMES_MAX:
            name, start = listed["name"], listed.start("name")
            if name.lower() in COMMON or _is_plain(name.lower(), text[:start], last=True):
                break
            at = listed.end("name")
            other = known.get(start)
            if other is None or other.certainty < mention.certainty:
                known[start] = mention._replace(start=start, end=at, name=name)
    return sorted(known.values())


_SHORT_MIN_CHARS: Final = 3  # of a short form: "Mel" for Melanie


class Gathering:
    """Collects mentions; `people` are those who talk."""

    def __init__(self, people: Collection[str]) -> None:
        self._people = people
        self._kinds: defaultdict[str, Counter[EntityKind]] = defaultdict(Counter)
        self._names: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._sources: defaultdict[str, set[int]] = defaultdict(set)
        self._descriptions: dict[str, str] = {}

    def add(self, mention: Mention, no: int, speaker: str) -> None:
        """Take a mention in the line `no` of a speaker."""
        key = plain(mention.name)
        if not key or (key not in self._kinds and len(self._kinds) >= 4 * ENTITIES_MAX):
            return
        certainty = round(mention.certainty * 10)
        if any(key == plain(person) for person in self._people):
            certainty += 100  # whatever stands around it: they talk
            self._kinds[key]["person"] += certainty
        else:
            self._kinds[key][mention.kind] += certainty
        self._names[key][mention.name] += 1
        self._sources[key].add(no)
        if mention.relation and mention.kind != "place":
            self._descriptions.setdefault(key, f"{speaker}'s {mention.relation}")

    def entities(self) -> Iterator[NewEntity]:
        """Yield the entities, those with the most sources first."""
        into = {key: self._whole(key) for key in self._kinds}
        together: defaultdict[str, list[str]] = defaultdict(list)
        for key, whole in into.items():
            together[whole].append(key)
        found = [self._entity(whole, keys) for whole, keys in together.items()]
        yield from sorted(found, key=lambda entity: (-len(entity.sources), entity.sources, entity.name))

    def _whole(self, key: str) -> str:
        """Return the name that a shorter one stands for, if there is exactly one; else the name itself."""
        kind = self._kind(key)
        if kind == "person" and len(key.split()) == 1 and len(key) >= _SHORT_MIN_CHARS:
            meant = [
                plain(person)
                for person in self._people
                if plain(person).split()[:1] and plain(person).split()[0].startswith(key)
            ]
            if len(meant) == 1:
                return meant[0]
        longer = [
            other
            for other in self._kinds
            if other != key and self._kind(other) == kind and set(key.split()) < set(other.split())
        ]
        return longer[0] if len(longer) == 1 and kind == "person" else key

    def _kind(self, key: str) -> EntityKind:
        return self._kinds[key].most_common(1)[0][0] if key in self._kinds else "person"

    def _entity(self, whole: str, keys: Sequence[str]) -> NewEntity:
        names: Counter[str] = Counter()
        for key in keys:
            names.update(self._names[key])
        speaker = next((person for person in self._people if plain(person) == whole), "")
        own = self._names[whole].most_common(1) if whole in self._names else []
        name = speaker or own[0][0]
        aliases = [
            other
            for other, _ in names.most_common()
            if plain(other) != plain(name) or other.casefold() != name.casefold()
        ]
        return NewEntity(
            name=name,
            kind=self._kind(whole),
            sources=tuple(sorted({no for key in keys for no in self._sources[key]})),
            aliases=tuple(aliases[:ALIASES_MAX]),
            description=next((self._descriptions[key] for key in (whole, *keys) if key in self._descriptions), ""),
        )
