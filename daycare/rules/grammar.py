"""Grammar: which classes of words, standing near each other, make a meaning.

The order of the words does not count, because a paraphrase in another language changes it. The table is the whole of it:
a meaning is a line.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from daycare.rules.vocabulary import Vocabulary, vocabulary

WORD_FAR: Final = 2  # how far a word puts others apart; a letter of a script without blanks, half of it
_CACHED_MAX: Final = 4_096


class Rule(NamedTuple):
    """Classes that make a meaning when they stand together; the first is the one the others must be near to."""

    kind: str
    severity: str
    groups: tuple[tuple[int, bool], ...]  # any of these classes; told: only when somebody is told to do it
    far: int
    unless: int


# kind, severity ("" makes a class for the rules below), classes ("!": only as an order), words between, unless near
_RULES: Final = (
    ("private", "", "files + all|user|data", 4, ""),
    ("private", "", "data|secret|inner", 0, ""),
    ("ignore", "", "lay + aside", 8, ""),
    ("hushed", "", "ninform + user", 5, ""),
    ("hushed", "", "unknown + user", 6, ""),
    ("unasked", "", "needless + check|ask", 7, ""),
    ("unasked", "", "nact + check", 5, ""),
    ("unasked", "", "without + inform + user", 6, ""),
    ("unasked", "", "later", 0, ""),
    ("unasked", "", "without + check|ask", 4, ""),
    ("unasked", "", "nask + check|user", 5, ""),
    ("override", "danger", "ignore + rules + prior|all|you|ai|authority|user", 7, "benign"),
    ("override", "danger", "ignore! + rules + older", 5, "benign"),
    ("override", "danger", "skip! + rules + you|ai", 6, "benign"),
    ("override", "danger", "ignore + inner|newrules", 5, ""),
    ("override", "danger", "ignore! + above", 5, ""),
    ("override", "danger", "nobey + rules + prior|all|you|ai", 7, "benign"),
    ("override", "danger", "nobey + inner|above", 6, ""),
    ("override", "danger", "newrules + you|ai|obey!|ignore|authority", 6, "benign"),
    ("override", "danger", "theserules + ai|ignore|uncond|unasked|hushed|authority|aicall + obey|act|reply", 8, "benign"),
    ("override", "danger", "unbound + rules + prior|all|you|ai", 8, "benign"),
    ("override", "danger", "unbound + above|inner|newrules", 8, "benign"),
    ("override", "danger", "unbound + prior + you", 6, "benign"),
    ("override", "danger", "asif + rules + prior|neg|you|unbound|all", 7, "benign"),
    ("override", "danger", "freed + mode", 3, "benign"),
    ("override", "danger", "priority + rules|newrules|orders|inner + you|ai|all|memory|prior", 8, "benign"),
    ("override", "danger", "unbound + you|ai + obey|rules|reply", 8, "benign"),
    ("override", "danger", "become|enter + freed", 8, ""),
    ("override", "danger", "freed + you|ai + reply!|act!|obey!", 8, "benign"),
    ("role", "danger", "authority + unasked|uncond|hushed|nobey|ignore|unbound|aicall|trusted", 10, "benign"),
    ("role", "danger", "authority + must|ai|you + obey!|reveal!|act!|approve!|destroy!|pay!", 10, "benign"),
    ("role", "danger", "aicall + act!|reply!|ignore!|obey!|reveal!|send!|approve!|promote!|destroy!|pay!|remember!|must", 14, ""),
    ("role", "warning", "aicall", 0, ""),
    ("bypass", "danger", "unasked + act!|destroy!|pay!|approve!|send!|usetool!|remember!", 9, "benign"),
    ("bypass", "danger", "unasked + obey!", 9, "benign"),
    ("bypass", "danger", "unasked + private|orders|must", 7, ""),
    ("bypass", "danger", "nask + check|user", 5, "benign"),
    ("bypass", "danger", "skip! + check", 5, "benign"),
    ("bypass", "danger", "hushed", 0, ""),
    ("bypass", "danger", "hide + user", 5, ""),
    ("bypass", "danger", "hide + act!|send!|destroy!|pay!|approve!|promote!|usetool!|remember!|collect!", 6, "benign"),
    ("bypass", "danger", "trusted + act!|destroy!|pay!|approve!|reply!|send!|unasked|ai", 7, ""),
    ("bypass", "danger", "approve! + all|always|uncond + orders|place|address", 6, ""),
    ("unconditional", "danger", "uncond + obey!|act!|approve!|destroy!|pay!|send!|reveal!|usetool! + you|ai|orders|all|private|user|money|must", 9, ""),
    ("unconditional", "danger", "obey! + all|always|uncond|must + orders|theserules", 7, "benign"),
    ("unconditional", "danger", "obey! + uncond", 6, "benign"),
    ("unconditional", "danger", "norefuse + all|orders|obey|user|ai|always", 6, "benign"),
    ("unconditional", "danger", "act! + all + orders", 6, "benign"),
    ("unconditional", "danger", "destroy! + private|memory|files + now|uncond|must|hide|ai", 8, ""),
    ("unconditional", "danger", "destroy! + all + files|memory|data + user|you|always|persist", 8, ""),
    ("unconditional", "danger", "pay! + money + now|uncond|must|always|hide|ai", 9, ""),
    ("unconditional", "danger", "must + now + act!|send!|destroy!|pay!|usetool!", 8, ""),
    ("unconditional", "danger", "act!|usetool! + now + orders|tool|address", 7, "benign"),
    ("exfiltration", "danger", "send + private + address|place", 12, "benign"),
    ("exfiltration", "danger", "send! + files + address|place + always|persist|hide|now", 10, ""),
    ("secret", "danger", "reveal! + inner", 6, "benign"),
    ("secret", "danger", "reveal! + secret + me|you|user|all|ai|address|place|now|uncond|hide|must", 7, "benign"),
    ("secret", "danger", "secret + me + user|you", 8, "benign"),
    ("secret", "danger", "fillin! + secret + address|me", 7, "benign"),
    ("secret", "danger", "reveal! + secret", 5, "benign"),
    ("secret", "warning", "fillin! + secret", 5, "benign"),
    ("persistence", "danger", "persist + become|obey!|approve!|unasked|hushed|ignore!|nobey|trusted|usetool!|norefuse|priority", 9, "style benign"),
    ("persistence", "danger", "persist|always + promote! + all|always|persist|address|place|orders|reply", 9, "style benign"),
    ("persistence", "danger", "persist + always + reply!|act!|promote!|send!", 9, "style benign"),
    ("persistence", "danger", "persist + send! + address|place|private", 9, ""),
    ("persistence", "warning", "persist + reply!|act!|promote! + you|ai", 8, "style benign"),
    ("persistence", "danger", "remember! + memory + obey|approve|always|persist|rules|uncond|promote|unasked|trusted|hushed|priority|ignore|needless", 10, "style benign"),
    ("persistence", "danger", "remember! + persist|always|all + orders|trusted|unasked|obey|approve|needless + trusted|unasked|obey|approve|needless|priority|norefuse", 10, "style benign"),
    ("persistence", "danger", "persist + promote + address|place|all", 8, "style benign"),
    ("persistence", "danger", "persist + trusted|unasked", 8, "style benign"),
    ("tool", "danger", "usetool! + tool + unasked|hide|now|uncond|ai|destroy|private|address|pay|must|always|send", 9, "benign"),
)
_VERBS: Final = (
    "ignore obey enter become check ask inform skip approve act destroy pay reply promote send reveal fillin collect "
    "remember usetool"
)
_TOLD: Final = "ignore obey skip approve act destroy pay reply promote send reveal fillin collect remember usetool"


class Grammar:
    """The rules in terms of one vocabulary."""

    def __init__(self, words: Vocabulary) -> None:
        self.words: Final = words
        self.bits: Final = words.bits
        self.verbs: Final = words.mask(_VERBS)
        self.orders: Final = words.mask(_TOLD)
        self.negation: Final = words.mask("neg negafter")
        self.tellers: Final = words.mask("you ai must")
        self.subjects: Final = words.mask("first third")
        self.passed: Final = words.mask("fill all user always persist now uncond hide neg")
        self.phrased: Final = words.mask("must me uncond persist private you all ai check prior")
        self.meaningful: Final = words.mask(" ".join(words.bits)) & ~words.mask(
            "edge fill pronoun negafter first third told report mention"
        )
        rules = [self._rule(*line) for line in _RULES]
        self.derived: Final = _Finder([rule for rule in rules if not rule.severity])
        self.rules: Final = _Finder([rule for rule in rules if rule.severity])

    def _rule(self, kind: str, severity: str, groups: str, apart: int, unless: str) -> Rule:
        parsed = tuple(
            (self.words.mask(group.replace("|", " ").replace("!", "")), "!" in group) for group in groups.split(" + ")
        )
        return Rule(kind, severity, parsed, apart * WORD_FAR, self.words.mask(unless))


class _Finder:
    """Finds the rules of which every group is there, without asking each."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        deepest = max(len(rule.groups) for rule in rules)
        self._by_class: list[dict[int, int]] = []  # of each place in a rule: class, and a bit for each rule
        for place in range(deepest):
            table: dict[int, int] = {}
            for number, rule in enumerate(rules):
                classes = rule.groups[place][0] if place < len(rule.groups) else -1
                for bit in range(96):
                    if classes >> bit & 1:
                        table[1 << bit] = table.get(1 << bit, 0) | 1 << number
            self._by_class.append(table)
        self._known: dict[int, tuple[Rule, ...]] = {}

    def possible(self, union: int) -> tuple[Rule, ...]:
        """Return the rules that a text with these classes may have."""
        found = self._known.get(union)
        if found is None:
            left, present = union, []
            while left:
                present.append(left & -left)
                left &= left - 1
            numbers = -1
            for table in self._by_class:
                here = 0
                for bit in present:
                    here |= table.get(bit, 0)
                numbers &= here
                if not numbers:
                    break
            found = tuple(rule for number, rule in enumerate(self._rules) if numbers >> number & 1) if numbers else ()
            if len(self._known) >= _CACHED_MAX:
                self._known.clear()
            self._known[union] = found
        return found


@cache
def grammar() -> Grammar:
    """Return the grammar over the vocabulary that is shipped."""
    return Grammar(vocabulary())
