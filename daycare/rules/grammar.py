"""Grammar: which classes of words, standing near each other, make a meaning.

The order of the words does not count, because a paraphrase or another language changes it. The table is the whole of
it: a meaning is a line.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple

from daycare.base.bounded import Bounded
from daycare.rules.vocabulary import Vocabulary, vocabulary

WORD_FAR: Final = 2  # how far a word puts others apart; a letter of a script without blanks, half of it
_CACHED_MAX: Final = 4_096
_GROUPS_MAX: Final = 4


class GrammarRule(NamedTuple):
    """Classes that make a meaning when they stand together; the first is the one the others must be near to."""

    kind: str
    severity: str
    groups: tuple[tuple[int, bool], ...]  # any of these classes; told: only when somebody is told to do it
    far: int
    unless: int
    ordered: bool  # the first comes before the others, except in scripts without blanks


# kind, severity ("" makes a class for the rules below), classes ("!": only as an order), words between, unless near
_RULES: Final = (
    ("private", "", "files + all|user|data", 4, ""),
    ("private", "", "data|secret|inner", 0, ""),
    ("ignore", "", "lay + aside", 8, ""),
    ("unbound", "", "neg|negafter + hold", 4, ""),
    ("freed", "", "none + rules", 3, "benign"),
    ("norefuse", "", "neg|negafter|uncond + refuse", 4, ""),
    ("hushed", "", "ninform + user", 5, ""),
    ("hushed", "", "unknown + user", 6, ""),
    ("unasked", "", "needless + check|ask", 7, ""),
    ("unasked", "", "nact + check", 5, ""),
    ("unasked", "", "without + inform + user", 6, ""),
    ("unasked", "", "later", 0, ""),
    ("unasked", "", "lay + aside + check", 6, ""),
    ("unasked", "", "without + check|ask", 4, ""),
    ("unasked", "", "nask + check|user", 5, ""),
    ("override", "danger", "ignore + rules + prior|all|you|ai|authority|user", 7, "benign"),
    ("override", "danger", "ignore! + rules + older", 5, "benign"),
    ("override", "danger", "skip! + rules + you|ai", 6, "benign"),
    ("override", "danger", "ignore + inner|newrules", 5, ""),
    ("override", "danger", "ignore! + above", 5, ""),
    ("override", "danger", "ignore! + task + prior", 4, "benign"),
    ("override", "danger", "ignore!|nobey + maker", 6, ""),
    ("override", "danger", "obey! + master", 6, "benign"),
    ("override", "danger", "master + you|ai|persist|remember", 7, "benign"),
    ("override", "danger", "nobey + rules + prior|all|you|ai", 7, "benign"),
    ("override", "danger", "nobey + inner|above", 6, ""),
    ("override", "danger", "newrules + you|ai|obey!|ignore|authority", 6, "benign"),
    (
        "override",
        "danger",
        "theserules + ai|uncond|unasked|hushed|authority|aicall + obey|act|reply",
        8,
        "benign",
    ),
    ("override", "danger", "unbound + rules + prior|all|you|ai", 8, "benign"),
    ("override", "danger", "unbound + above|inner|newrules", 8, "benign"),
    ("override", "danger", "unbound + prior + you", 6, "benign"),
    ("override", "danger", "asif + rules + prior|neg|you|unbound|all", 7, "benign"),
    ("override", "danger", "freed + mode", 3, "benign"),
    ("override", "danger", "freed + asif|persist + you|ai|reply|act|obey|mode", 7, "benign"),
    ("override", "danger", "freed + become|asif", 7, "benign"),
    ("override", "danger", "priority + rules|newrules|orders|inner + you|ai|all|memory|prior", 8, "benign"),
    ("override", "danger", "unbound + you|ai|become|asif + obey|rules|reply", 8, "benign"),
    ("override", "danger", "rules + become! + neg", 7, "benign"),
    ("override", "danger", "become|enter + freed", 8, ""),
    ("override", "danger", "become + villain", 6, "benign"),
    ("override", "danger", "freed + you|ai + reply!|act!|obey!", 8, "benign"),
    ("role", "danger", "authority + unasked|uncond|hushed|nobey|ignore|unbound|aicall|trusted", 10, "benign"),
    ("role", "danger", "authority + must|ai|you + obey!|reveal!|act!|approve!|destroy!|pay!", 10, "benign"),
    (
        "role",
        "danger",
        "aicall + act!|reply!|ignore!|obey!|reveal!|send!|approve!|promote!|destroy!|pay!|remember!|must",
        14,
        "",
    ),
    ("role", "warning", "aicall", 0, ""),
    (
        "role",
        "danger",
        "called + act!|reply!|ignore!|obey!|reveal!|send!|approve!|promote!|destroy!|pay!|remember!|inform|must",
        9,
        "benign style",
    ),
    ("bypass", "danger", "unasked + act!|destroy!|pay!|approve!|send!|usetool!|remember!", 9, "benign"),
    ("bypass", "danger", "unasked + obey!", 9, "benign"),
    ("bypass", "danger", "unasked + private|orders|must", 7, ""),
    ("bypass", "danger", "nask + check|user", 5, "benign"),
    ("bypass", "danger", "skip! + check", 5, "benign"),
    ("bypass", "danger", "nask + act!|pay!|destroy!|approve!|send!", 5, "benign"),
    ("bypass", "danger", "ninform + nobody + act!|pay!|destroy!|approve!|send!|usetool!", 7, "benign"),
    ("bypass", "danger", "hushed", 0, ""),
    ("bypass", "danger", "hide + user", 5, ""),
    ("bypass", "danger", "hide + act!|send!|destroy!|pay!|approve!|promote!|usetool!", 6, "benign"),
    ("bypass", "danger", "trusted + act!|destroy!|pay!|approve!|reply!|send!|unasked|ai", 7, ""),
    ("bypass", "danger", "approve! + all|always|uncond + orders|place|address", 6, ""),
    (
        "unconditional",
        "danger",
        "uncond + obey!|act!|approve!|destroy!|pay!|send!|reveal!|usetool! + you|ai|orders|all|private|user|money|must",
        9,
        "",
    ),
    ("unconditional", "danger", "obey! + all|always|uncond|must + orders|theserules", 7, "benign"),
    ("unconditional", "danger", "obey! + uncond", 6, "benign"),
    ("unconditional", "danger", "whatever + orders|place", 6, "benign"),
    ("unconditional", "danger", "pay! + uncond|all", 6, "benign"),
    ("unconditional", "danger", "norefuse + all|orders|obey|user|ai|always", 6, "benign"),
    ("unconditional", "danger", "act! + all + orders", 6, "benign"),
    ("unconditional", "danger", "destroy! + private|memory|files + now|uncond|must|hide|ai", 8, ""),
    ("unconditional", "danger", "destroy! + all + files|memory|data + user|you|always|persist", 8, ""),
    ("unconditional", "danger", "pay! + money + now|uncond|must|always|hide|ai", 9, ""),
    ("unconditional", "danger", "must + now + act!|send!|destroy!|pay!|usetool!", 8, ""),
    ("unconditional", "danger", "act!|usetool! + now + orders|tool|address", 7, "benign"),
    ("exfiltration", "danger", "send + private + address|place", 12, "benign"),
    ("exfiltration", "danger", "send! + files|code|secret + url", 9, "benign"),
    ("exfiltration", "danger", "send! + files + address|place + always|persist|hide|now", 10, ""),
    ("secret", "danger", "reveal! + inner", 8, "benign"),
    ("secret", "danger", "ask!|reveal! + user + secret|code", 8, "benign"),
    ("secret", "danger", "promote|reply + secret + must|neg|all|you|promote", 7, "benign"),
    ("secret", "danger", "reveal! + secret + me|you|user|all|ai|address|place|now|uncond|hide|must", 7, "benign"),
    ("secret", "danger", "secret + me + user|you", 8, "benign"),
    ("secret", "danger", "fillin! + secret + address|me", 7, "benign"),
    ("secret", "danger", "reveal! + secret", 5, "benign"),
    ("secret", "warning", "fillin! + secret", 5, "benign"),
    (
        "persistence",
        "danger",
        "persist + become|obey!|approve!|unasked|hushed|ignore!|nobey|trusted|usetool!|norefuse|priority",
        9,
        "style benign",
    ),
    (
        "persistence",
        "danger",
        "persist|always + promote! + all|always|persist|address|place|orders|reply",
        9,
        "style benign",
    ),
    ("persistence", "danger", "persist + always + reply!|act!|promote!|send!", 9, "style benign"),
    ("persistence", "danger", "persist + send! + address|place|private", 9, ""),
    ("persistence", "warning", "persist + reply!|act!|promote! + you|ai", 8, "style benign"),
    (
        "persistence",
        "danger",
        "remember! + memory + obey|approve|always|persist|rules|uncond|promote|unasked|trusted|hushed"
        "|priority|ignore|needless",
        10,
        "style benign",
    ),
    (
        "persistence",
        "danger",
        "remember! + persist|always|all + orders|trusted|unasked|obey|approve|needless + trusted"
        "|unasked|obey|approve|needless|priority|norefuse",
        10,
        "style benign",
    ),
    ("persistence", "danger", "persist + promote + address|place|all", 8, "style benign"),
    ("persistence", "danger", "persist + trusted|unasked", 8, "style benign"),
    (
        "tool",
        "danger",
        "usetool! + tool + unasked|hide|now|uncond|ai|destroy|private|address|pay|must|always|send",
        9,
        "benign",
    ),
)
_VERBS: Final = (
    "ignore obey ask inform skip approve act destroy pay reply promote send reveal fillin collect remember usetool"
)
_HOT: Final = (  # a passage without any of them, in which nobody is told anything, is not weighed
    "private secret inner uncond persist freed unbound above newrules aicall called master whatever norefuse trusted"
    " hide unknown unasked hushed needless authority become nask ninform nobey nact alone villain priority later skip"
    " check"
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
        self.steering: Final = words.mask("told you ai must user rules authority newrules unbound freed")
        self.tellers: Final = words.mask("you ai must")
        self.subjects: Final = words.mask("first third")
        self.forms: Final = words.mask("participle indicative gerund")
        self.helpers: Final = {
            words.bits["participle"]: words.mask("passive"),
            words.bits["indicative"]: words.mask("ai"),
            words.bits["gerund"]: words.mask("ongoing"),
        }
        self.passed: Final = words.mask("fill all user always persist now uncond hide neg")
        self.phrased: Final = words.mask("must me uncond persist private you all ai check prior")
        self.meaningful: Final = words.mask(" ".join(words.bits)) & ~words.mask(
            "edge fill told begun passive ongoing gerund"
        )
        self.hot: Final = words.mask(_HOT)
        self.ruled: Final = self.meaningful & ~words.mask(
            "pronoun negafter first third report mention home symbols participle indicative"
        )
        rules = [self._rule(*line) for line in _RULES]
        self.derived: Final = _Finder([rule for rule in rules if not rule.severity])
        self.rules: Final = _Finder([rule for rule in rules if rule.severity])

    def _rule(self, kind: str, severity: str, groups: str, apart: int, unless: str) -> GrammarRule:
        parsed = tuple(
            (self.words.mask(group.replace("|", " ").replace("!", "")), "!" in group) for group in groups.split(" + ")
        )
        return GrammarRule(
            kind, severity, parsed, apart * WORD_FAR, self.words.mask(unless), groups.startswith(("without", "nact"))
        )


class _Finder:
    """Finds the rules of which every group is there, without asking each."""

    def __init__(self, rules: Sequence[GrammarRule]) -> None:
        self._rules = rules
        self._by_classes: Bounded[int, tuple[int, int, int, int]] = Bounded(_CACHED_MAX)
        self._found: Bounded[int, tuple[GrammarRule, ...]] = Bounded(_CACHED_MAX)
        assert all(len(rule.groups) <= _GROUPS_MAX for rule in rules)

    def possible(self, rows: Iterable[int]) -> tuple[GrammarRule, ...]:
        """Return the rules that words with these classes may have."""
        first, second, third, fourth = 0, 0, 0, 0
        known = self._by_classes
        for classes in rows:
            here = known.get(classes)
            if here is None:
                here = self._place(classes)
            first |= here[0]
            second |= here[1]
            third |= here[2]
            fourth |= here[3]
        numbers = first & second & third & fourth
        found = self._found.get(numbers)
        if found is None:
            found = tuple(rule for number, rule in enumerate(self._rules) if numbers >> number & 1)
            self._found[numbers] = found
        return found

    def _place(self, classes: int) -> tuple[int, int, int, int]:
        """Return in which rules a word may be the first, the second and so on, a bit for each."""
        places = [0] * _GROUPS_MAX
        for number, rule in enumerate(self._rules):
            for place in range(_GROUPS_MAX):
                if place >= len(rule.groups) or classes & rule.groups[place][0]:
                    places[place] |= 1 << number
        self._by_classes[classes] = (places[0], places[1], places[2], places[3])
        return self._by_classes[classes]


@cache
def grammar() -> Grammar:
    """Return the grammar over the vocabulary that is shipped."""
    return Grammar(vocabulary())
