"""Weighing: how much a passage reads like an order to an assistant, from which classes of words stand near each other.

The rules of `grammar` name what somebody thought of; the weights are learned from the labelled texts (`weights.toml`,
written by `tests/rules/train_weights.py`) and judge the other ways to put classes together. Everyday words and talk
about such texts make a passage lighter, but never silent: somebody who attacks can write them too.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import combinations
from typing import Final, NamedTuple

from daycare.rules.grammar import WORD_FAR, Grammar, grammar

NEAR: Final = 10 * WORD_FAR  # classes that are further apart have nothing to do with each other
_NEIGHBOURS_MAX: Final = 8  # looked at behind each word
_UNWEIGHED: Final = frozenset(("edge", "told", "begun", "passive", "ongoing", "gerund", "fill"))
_EXCUSES: Final = "benign report mention style first third home"

_KINDS: Final = {  # the classes by which a passage is named
    "exfiltration": "send place data private address",
    "secret": "secret inner reveal fillin me",
    "tool": "usetool tool",
    "role": "authority aicall",
    "bypass": "unasked hushed check ask needless hide skip unknown trusted",
    "override": "ignore rules prior above newrules freed unbound become",
    "persistence": "persist always remember memory promote",
    "unconditional": "uncond obey whatever norefuse orders pay destroy",
}
_MARKS: Final = {name: 3 + len(classes.split()) for name, classes in _KINDS.items()}

Own = tuple[tuple[int, ...], int, tuple[tuple[int, dict[int, int]], ...]]
Known = dict[int, Own]
Row = tuple[int, int, int, int]  # token, how far it is, its classes, those of them that are told


class Weight(NamedTuple):
    """How much a passage weighs; above 0 it is a danger."""

    all: float
    unexcused: float  # without what everyday words take away


HARMLESS: Final = Weight(-9.0, -9.0)


class Scales:
    """Weighs passages with learned weights."""

    def __init__(self, words: Grammar, table: Mapping[str, float], bias: float) -> None:
        self._told_shift: Final = len(words.bits)
        self._orders: Final = words.orders
        self._names: Final = {1 << place: name for place, name in enumerate(self._all_names(words))}
        bits = {name: bit for bit, name in self._names.items()}
        self._bias: Final = bias
        self._weights: Final[list[float]] = []
        self._excuses: Final[set[int]] = set()
        self._single: Final[dict[int, int]] = {}
        self._pairs: Final[dict[int, dict[int, int]]] = {}
        excuses = set(_EXCUSES.split())
        for name, weight in table.items():
            parts = name.split("+")
            feature = len(self._weights)
            self._weights.append(weight)
            if weight < 0 and not excuses.isdisjoint(parts):
                self._excuses.add(feature)
            if len(parts) == 1:
                self._single[bits[name]] = feature
            else:
                for one, other in (parts, parts[::-1]):
                    self._pairs.setdefault(bits[one], {})[bits[other]] = feature
        self._partners: Final = {one: sum(others) for one, others in self._pairs.items()}
        self._used: Final = sum(set(self._single) | set(self._pairs))

    @staticmethod
    def _all_names(words: Grammar) -> list[str]:
        return [*words.bits, *(name + "!" for name in words.bits)]

    def classes(self, row: Row) -> int:
        """Return the classes of a row; an order counts as such too."""
        return row[2] | (row[3] & self._orders) << self._told_shift

    def features(self, rows: Sequence[Row], known: Known) -> set[int]:
        """Return the features of rows; `known` is what is known of single ones, by their classes."""
        shift, orders, used = self._told_shift, self._orders, self._used
        masks = [(row[2] | (row[3] & orders) << shift) & used for row in rows]
        found: set[int] = set()
        for number, mine in enumerate(masks):
            if not mine:
                continue
            own = known.get(mine)
            if own is None:
                own = known[mine] = self._own(mine)
            features, wanted, partners = own
            found.update(features)
            if wanted:
                far, near = rows[number][1] - NEAR, 0
                for other in range(number - 1, max(-1, number - 1 - _NEIGHBOURS_MAX), -1):
                    if rows[other][1] < far:
                        break
                    near |= masks[other]
                if near & wanted:
                    _find(partners, near, found)
        return found

    def weigh(self, features: set[int]) -> Weight:
        """Return what the features weigh together."""
        weight = self._bias + sum(map(self._weights.__getitem__, features))
        return Weight(weight, weight - sum(map(self._weights.__getitem__, features & self._excuses)))

    def names(self, rows: Sequence[Row]) -> set[str]:
        """Return the names of the features of rows, those that have no weight as well."""
        atoms = [self._names_of(self.classes(row)) for row in rows]
        found: set[str] = set()
        for number, mine in enumerate(atoms):
            found.update(mine)
            found.update(_pair(one, other) for one, other in combinations(mine, 2))
            for other in range(number - 1, max(-1, number - 1 - _NEIGHBOURS_MAX), -1):
                if rows[other][1] < rows[number][1] - NEAR:
                    break
                found.update(_pair(one, another) for one in mine for another in atoms[other])
        return found

    def _names_of(self, classes: int) -> list[str]:
        return [name for bit, name in self._names.items() if classes & bit and name not in _UNWEIGHED]

    def _own(self, classes: int) -> Own:
        """Return what is known of a row with these classes."""
        features: set[int] = set()
        partners: list[tuple[int, dict[int, int]]] = []
        wanted, left = 0, classes
        while left:
            bit = left & -left
            left ^= bit
            if bit in self._single:
                features.add(self._single[bit])
            if mask := self._partners.get(bit, 0):
                partner = (mask, self._pairs[bit])
                partners.append(partner)
                wanted |= mask
                if mask & left:
                    _find((partner,), left, features)
        return tuple(features), wanted, tuple(partners)


def _find(partners: Iterable[tuple[int, dict[int, int]]], near: int, found: set[int]) -> None:
    for mask, pairs in partners:
        hits = mask & near
        while hits:
            bit = hits & -hits
            hits ^= bit
            found.add(pairs[bit])


def _pair(one: str, other: str) -> str:
    return f"{one}+{other}" if one < other else f"{other}+{one}"


def kind(rows: Sequence[Row], words: Grammar) -> str:
    """Return what a heavy passage is about."""
    classes = 0
    for row in rows:
        classes |= row[2]
    return max(_KINDS, key=lambda name: (classes & words.words.mask(_KINDS[name])).bit_count() * 4 / _MARKS[name])


@cache
def scales() -> Scales:
    """Return the scales with the weights that are shipped."""
    table = tomllib.loads(files("daycare.rules").joinpath("weights.toml").read_text(encoding="utf-8"))
    return Scales(grammar(), table["weights"], table["bias"])
