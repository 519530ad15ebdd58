"""Meanings: which words, standing near each other, tell an assistant what to do instead of informing it.

Words count by what they mean (`vocabulary`), in any order, within a few words of each other, because a paraphrase keeps
the meanings and changes the words. Who does it counts: "I send ..." and "never send ..." tell nobody to send.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from daycare.rules.vocabulary import TOKEN, Vocabulary, same, vocabulary

STEP_TOKENS: Final = 192  # read before others get a turn, less than 1 ms
SEGMENT_MIN_WORDS: Final = 5  # shorter sentences are read with the next one
SEGMENT_MAX_WORDS: Final = 28  # longer ones are read in parts; each part is read with the one before it
_BEFORE_TOKENS: Final = 5  # how far before a verb its subject is looked for
_BEHIND_TOKENS: Final = 4
_WORD, _CHAR, _STOP, _LINE = 2, 1, 5, 3  # how far things put words apart


class Rule(NamedTuple):
    """Classes that make a meaning when they stand together; the first is the one the others must be near to."""

    kind: str
    severity: str
    groups: tuple[tuple[int, bool], ...]  # any of these classes; told: only when somebody is told to do it
    gap: int
    unless: int
    all: int  # every group, in one for a quick look


class Meaning(NamedTuple):
    """A meaning and its place in the text that was read."""

    kind: str
    severity: str
    start: int
    end: int
    reported: bool  # the words around it are about such texts, or only name it


# kind, severity ("" makes a class for the rules below), classes ("!": only as an order), words between, unless near
_RULES: Final = (
    ("private", "", "files + all|user|data", 4, ""),
    ("private", "", "data|secret|inner", 0, ""),
    ("ignore", "", "lay + aside", 8, ""),
    ("hushed", "", "ninform + user", 5, ""),
    ("hushed", "", "unknown + user", 6, ""),
    ("unasked", "", "needless + check|ask", 7, ""),
    ("unasked", "", "nact + check", 5, ""),
    ("unasked", "", "without + check|ask", 4, ""),
    ("unasked", "", "nask + check|user", 5, ""),
    ("override", "danger", "ignore + rules + prior|all|you|ai|authority|user", 7, "benign"),
    ("override", "danger", "ignore! + rules + older", 5, "benign"),
    ("override", "danger", "skip! + rules + you|ai", 6, "benign"),
    ("override", "danger", "ignore + inner|newrules", 5, ""),
    ("override", "danger", "ignore! + above", 5, ""),
    ("override", "danger", "nobey + rules + prior|all|you|ai", 7, "benign"),
    ("override", "danger", "nobey + inner|above", 6, ""),
    ("override", "danger", "newrules + you|ai|obey|ignore|authority", 6, "benign"),
    ("override", "danger", "theserules + ai|ignore|uncond|unasked|hushed|authority|aicall + obey|act|reply", 8, "benign"),
    ("override", "danger", "unbound + rules + prior|all|you|ai", 8, "benign"),
    ("override", "danger", "unbound + above|inner|newrules", 8, "benign"),
    ("override", "danger", "unbound + prior + you", 6, "benign"),
    ("override", "danger", "freed + mode", 3, "benign"),
    ("override", "danger", "priority + rules|newrules|orders|inner + you|ai|all|memory|prior", 8, "benign"),
    ("override", "danger", "unbound + you|ai + obey|rules|reply", 8, "benign"),
    ("override", "danger", "become|enter + freed", 8, ""),
    ("override", "danger", "freed + you|ai + reply!|act!|obey!", 8, "benign"),
    ("role", "danger", "authority + unasked|uncond|hushed|nobey|ignore|unbound|aicall|trusted", 10, "benign"),
    ("role", "danger", "authority + must|ai|you + obey!|reveal!|act!|approve!|destroy!|pay!", 10, "benign"),
    ("role", "danger", "aicall + act!|reply!|ignore!|obey!|reveal!|send!|approve!|promote!|destroy!|pay!|remember!|must", 14, ""),
    ("role", "warning", "aicall", 0, ""),
    ("bypass", "danger", "unasked + act!|destroy!|pay!|approve!|send!|usetool!|reveal!|remember!", 9, ""),
    ("bypass", "danger", "unasked + obey!", 9, "benign"),
    ("bypass", "danger", "unasked + private|orders|must", 7, ""),
    ("bypass", "danger", "nask + check|user", 5, "benign"),
    ("bypass", "danger", "skip! + check", 5, "benign"),
    ("bypass", "danger", "hushed", 0, ""),
    ("bypass", "danger", "hide + user", 5, ""),
    ("bypass", "danger", "hide + act!|send!|destroy!|pay!|approve!|promote!|usetool!|remember!|collect!", 6, "benign"),
    ("bypass", "danger", "trusted + act!|destroy!|pay!|approve!|reply!|send!|unasked|ai", 7, ""),
    ("bypass", "danger", "approve! + all|always|uncond + orders", 6, ""),
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
    ("secret", "warning", "reveal!|fillin! + secret", 5, "benign"),
    ("persistence", "danger", "persist + become|obey!|approve!|unasked|hushed|ignore!|nobey|trusted|usetool!|norefuse|priority", 9, "style benign"),
    ("persistence", "danger", "persist|always + promote! + all|always|persist|address|place|orders|reply", 9, "style benign"),
    ("persistence", "danger", "persist + always + reply!|act!|promote!|send!", 9, "style benign"),
    ("persistence", "danger", "persist + send! + address|place|private", 9, ""),
    ("persistence", "warning", "persist + reply!|act!|promote! + you|ai", 8, "style benign"),
    ("persistence", "danger", "remember! + memory + obey|approve|always|persist|rules|uncond|promote|unasked|trusted|hushed|priority|ignore|needless", 10, "style benign"),
    ("persistence", "danger", "remember! + persist|always + orders|trusted|unasked|obey|approve|needless", 10, "style benign"),
    ("tool", "danger", "usetool! + tool + unasked|hide|now|uncond|ai|destroy|private|address|pay|must|always|send", 9, "benign"),
)
_VERBS: Final = (
    "ignore obey enter become check ask inform skip approve act destroy pay reply promote send reveal fillin collect "
    "remember usetool"
)
_TOLD: Final = "ignore obey skip approve act destroy pay reply promote send reveal fillin collect remember usetool"
_DETERMINERS: Final = frozenset("the a an my our his her their this your".split())
_QUOTES: Final = "\"'`"


class Reader:
    """Reads one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = vocabulary()
        self._grammar = _grammar(self._words)
        self.addresses: list[tuple[int, int, str]] = []
        self.turned: list[tuple[int, int, int]] = []  # places of words that mean something when they are turned
        self.joined: list[tuple[int, int]] = []  # places of words that are too long to be one
        # Of each token: its classes, how far from the beginning it is, its place.
        self._classes: list[int] = []
        self._far: list[int] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._firsts: list[int] = []  # the token with which its phrase begins

    def read(self) -> Iterator[Meaning | None]:
        """Return the meanings in the text; None now and then, so that others get a turn."""
        words, grammar = self._words, self._grammar
        classes, far, starts, ends, firsts = self._classes, self._far, self._starts, self._ends, self._firsts
        edge, address = words.bits["edge"], words.bits["address"]
        negation = grammar.negation
        said: list[str] = []
        tokens: list[int] = []  # of each word said, its token
        here, in_segment, segment, before, count = 0, 0, 0, 0, 0
        determined = False
        for found in TOKEN.finditer(self._text):
            count += 1
            if count % STEP_TOKENS == 0:
                yield None
            sort = found.lastgroup
            start, end = found.span()
            if sort == "word":
                word = found[0]
                here += _WORD
                known = words[word]
                mine, begin = 0, len(classes)
                if known is not None:
                    mine = known.classes
                    if determined:
                        mine &= ~grammar.told
                    for phrase, meaning in known.endings:
                        length = len(phrase)
                        if said[-length:] and same(said[-length:], phrase):
                            mine |= meaning
                            begin = min(begin, tokens[-length])
                            for token in tokens[-length:]:
                                classes[token] &= ~negation
                            if not meaning & negation:
                                mine &= ~negation
                    if known.turned:
                        self.turned.append((start, end, known.turned))
                elif end - start >= 14:
                    self.joined.append((start, end))
                determined = word in _DETERMINERS
                said.append(word)
                tokens.append(len(classes))
                classes.append(mine)
                far.append(here)
                starts.append(starts[begin] if begin < len(starts) else start)
                firsts.append(begin)
                ends.append(end)
                in_segment += 1
            elif sort == "running":
                at = start
                for first, last, mine in words.running(found[0]):
                    here += (start + first - at) * _CHAR + _CHAR
                    classes.append(mine)
                    far.append(here)
                    firsts.append(len(firsts))
                    starts.append(start + first)
                    ends.append(start + last)
                    here += (last - first - 1) * _CHAR
                    at = start + last
                here += (end - at) * _CHAR
                in_segment += (end - start + 1) // 2
            else:
                mine = edge
                if sort in ("url", "mail", "host"):
                    here += _WORD
                    in_segment += 1
                    mine = address
                    self.addresses.append((start, end, sort or ""))
                elif sort == "stop":
                    here += _STOP
                elif sort == "line":
                    here += _LINE
                determined = False
                classes.append(mine)
                far.append(here)
                firsts.append(len(firsts))
                starts.append(start)
                ends.append(end)
                if sort in ("stop", "line") and in_segment >= SEGMENT_MIN_WORDS:
                    in_segment = SEGMENT_MAX_WORDS
            if in_segment >= SEGMENT_MAX_WORDS:
                yield from self._meanings(before, segment, len(classes))
                before, segment, in_segment = segment, len(classes), 0
                if len(said) > 4096:
                    del said[:-16], tokens[:-16]
        yield from self._meanings(before, segment, len(classes))

    def _meanings(self, before: int, segment: int, end: int) -> Iterator[Meaning]:
        """Return what the tokens from `before` mean together; those from `segment` are new."""
        classes, grammar = self._classes, self._grammar
        for token in range(segment, end):
            if classes[token] & grammar.verbs:
                classes[token] = self._as_meant(token, end)
        hits = [token for token in range(before, end) if classes[token] & grammar.meaningful]
        if not hits:
            return
        near: dict[int, int] = {}  # derived classes, by token
        union = 0
        for token in hits:
            union |= classes[token]
        for rule in grammar.derived:
            if not _possible(rule, union):
                continue
            for anchor in hits:
                if self._told(anchor, rule.groups[0], near) and (
                    others := self._others(rule, anchor, hits, near)
                ) is not None:
                    if rule.kind == "unasked" and self._forbidden(min(anchor, *others, anchor)):
                        continue
                    for token in {anchor, *others}:
                        near[token] = near.get(token, 0) | grammar.bits[rule.kind]
                    union |= grammar.bits[rule.kind]
        for rule in grammar.candidates(union):
            for anchor in hits:
                if not self._told(anchor, rule.groups[0], near):
                    continue
                others = self._others(rule, anchor, hits, near)
                if others is None:
                    continue
                involved = [anchor, *others]
                if max(involved) < segment:  # was found with the segment before
                    continue
                if rule.unless and self._near(rule.unless, anchor, hits, rule.gap + 4):
                    continue
                first, last = min(involved), max(involved)
                yield Meaning(
                    rule.kind,
                    rule.severity,
                    min(self._starts[token] for token in involved),
                    max(self._ends[token] for token in involved),
                    self._reported(before, first, last, end),
                )
                break

    def _as_meant(self, token: int, end: int) -> int:
        """Return the classes of a verb as its sentence means it: told, denied, or said of somebody."""
        classes, grammar = self._classes, self._grammar
        mine = classes[token]
        denied, sure = False, True
        # Verbs that do not change their form, and German infinitives at the end, tell unless a subject says otherwise.
        told = self._text[self._starts[token]] >= "\u3040" or (
            self._text[self._ends[token] - 2 : self._ends[token]] == "en"
            and (token + 1 == end or bool(classes[token + 1] & grammar.bits["edge"]))
        )
        at = self._firsts[token]
        for distance in range(1, _BEFORE_TOKENS + 1):
            at -= 1
            other = classes[at] if at >= 0 else grammar.bits["edge"]
            if other & grammar.bits["edge"]:
                told = told or sure
                break
            if other & grammar.bits["neg"]:
                denied = denied or distance <= 4
            elif other & grammar.tellers:
                told = True
                break
            elif other & grammar.subjects:
                return mine & ~grammar.verbs
            elif not other & grammar.passed:
                sure = False
            at = self._firsts[at]
        for other in classes[token + 1 : min(end, token + 1 + _BEHIND_TOKENS)]:
            if other & grammar.bits["edge"] or other & grammar.verbs & ~mine:
                break
            denied = denied or bool(other & grammar.bits["negafter"])
        if denied:
            turned = sum(grammar.bits["n" + name] for name in ("ask", "inform", "obey", "act") if mine & grammar.bits[name])
            return (mine & ~grammar.verbs) | turned
        return mine | grammar.bits["told"] if told or mine & grammar.bits["told"] else mine

    def _told(self, token: int, group: tuple[int, bool], near: dict[int, int]) -> bool:
        mine = self._classes[token] | near.get(token, 0)
        return bool(mine & group[0]) and (
            not group[1] or bool(mine & self._grammar.bits["told"]) or not mine & group[0] & self._grammar.told
        )

    def _others(self, rule: Rule, anchor: int, hits: list[int], near: dict[int, int]) -> list[int] | None:
        """Return the nearest token for each of the other groups of `rule`, or None if one is missing."""
        chosen: list[int] = []
        for group in rule.groups[1:]:
            best, distance = -1, rule.gap + 1
            for token in hits:
                apart = abs(self._far[token] - self._far[anchor])
                if apart < distance and token != anchor and self._told(token, group, near):
                    best, distance = token, apart
            if best < 0:
                mine = self._classes[anchor] | near.get(anchor, 0)
                if not mine & group[0] & self._grammar.phrased:
                    return None
                best = anchor
            chosen.append(best)
        return chosen

    def _near(self, unwanted: int, anchor: int, hits: list[int], gap: int) -> bool:
        return any(self._classes[token] & unwanted and abs(self._far[token] - self._far[anchor]) <= gap for token in hits)

    def _forbidden(self, token: int) -> bool:
        """Whether what comes without asking is what somebody must not do."""
        for other in self._classes[max(0, token - 9) : token][::-1]:
            if other & self._grammar.bits["edge"]:
                return False
            if other & (self._grammar.bits["neg"] | self._grammar.bits["negafter"]):
                return True
        return False

    def _reported(self, before: int, first: int, last: int, end: int) -> bool:
        classes, bits = self._classes, self._grammar.bits
        quoted = self._quote(range(max(before, first - 8), first)) and self._quote(range(last + 1, min(end, last + 9)))
        about = [token for token in range(before, end) if classes[token] & bits["report"]]
        named = any(classes[token] & bits["mention"] for token in range(max(before, first - 10), min(end, last + 8)))
        if quoted:
            return bool(about) or named
        told = any(classes[token] & bits["told"] for token in range(first, last + 1))
        return bool(about) and (not told or len(about) > 1)

    def _quote(self, tokens: range) -> bool:
        return any(
            self._classes[token] & self._grammar.bits["edge"] and self._text[self._starts[token]] in _QUOTES
            for token in tokens
        )


class _Grammar:
    """The rules in terms of one vocabulary."""

    def __init__(self, words: Vocabulary) -> None:
        self.bits = words.bits
        self.verbs = words.mask(_VERBS)
        self.told = words.mask(_TOLD)
        self.negation = words.mask("neg negafter")
        self.tellers = words.mask("you ai must")
        self.subjects = words.mask("first third")
        self.passed = words.mask("fill all user always persist now uncond hide neg")
        self.phrased = words.mask("must me uncond persist private you all ai check prior")
        self.derived: list[Rule] = []
        self.rules: list[Rule] = []
        for kind, severity, groups, gap, unless in _RULES:
            parsed = tuple(self._group(words, group) for group in groups.split(" + "))
            every = 0
            for classes, _ in parsed:
                every |= classes
            rule = Rule(kind, severity, parsed, gap * _WORD, words.mask(unless), every)
            (self.rules if severity else self.derived).append(rule)
        self.meaningful = words.mask(" ".join(words.bits)) & ~words.mask("edge fill pronoun neg negafter first third told")
        self._candidates: dict[int, list[Rule]] = {}

    def candidates(self, union: int) -> list[Rule]:
        """Return the rules whose classes are all there."""
        found = self._candidates.get(union)
        if found is None:
            found = [rule for rule in self.rules if _possible(rule, union)]
            if len(self._candidates) > 4096:
                self._candidates.clear()
            self._candidates[union] = found
        return found

    @staticmethod
    def _group(words: Vocabulary, group: str) -> tuple[int, bool]:
        return words.mask(group.replace("|", " ").replace("!", "")), "!" in group


_grammars: Final[dict[int, _Grammar]] = {}


def _grammar(words: Vocabulary) -> _Grammar:
    if id(words) not in _grammars:
        _grammars[id(words)] = _Grammar(words)
    return _grammars[id(words)]


def _possible(rule: Rule, union: int) -> bool:
    return all(union & classes for classes, _ in rule.groups)
