"""The names that a range of conversation mentions, gathered: one entity for each, with its other names and sources."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from daycare.features.memory.facts.learned import ALIASES_MAX, ENTITIES_MAX, EntityKind, NewEntity, plain
from daycare.features.memory.language.names import Mention

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
