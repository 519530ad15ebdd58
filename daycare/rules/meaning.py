"""Meanings: which words, standing near each other, tell an assistant what to do instead of informing it.

Words count by what they mean (`vocabulary`), within a few words of each other (`grammar`), because a paraphrase keeps
the meanings and changes the words. Who does it counts: "I send ..." and "never send ..." tell nobody to send.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from daycare.rules.grammar import WORD_FAR, GrammarRule, grammar
from daycare.rules.vocabulary import TOKEN, Vocable
from daycare.rules.weighing import HARMLESS, Known, Row, Weight, kind, scales

_STEP_TOKENS: Final = 96  # read before others get a turn, some 0.3 ms
_SEGMENT_MIN_WORDS: Final = 5  # shorter sentences are read with the next one
_SEGMENT_MAX_WORDS: Final = 28  # longer ones are read in parts; each part is read with the one before it
_BEFORE_TOKENS: Final = 5  # how far before a verb its subject is looked for
_BEHIND_TOKENS: Final = 4
_FORBIDDEN_TOKENS: Final = 9
_QUOTE_TOKENS: Final = 8
# What a passage weighs (`weighing`): above 0 it is a danger without a rule.
_LIGHT: Final = -0.7  # what a rule finds in a passage that weighs less is a warning
_LIGHT_HIDDEN: Final = -2.0  # ... in a text that was hidden
_GRAVE_HIDDEN: Final = -0.1
_EXCUSED_WARNED: Final = -0.3  # what a rule finds is left out below this, when an everyday meaning is likely
_SURE: Final = 0.2  # what weighs no more than this is a warning: a false alarm costs more than a colour
_HEAVY_WARNED: Final = 0.5  # what talk about such texts makes light is still a warning
_UNLESS_WORDS: Final = 5  # how near an everyday word must stand to make a meaning an everyday one
_SAID_MAX_WORDS: Final = 4_096
_PHRASE_MAX_WORDS: Final = 16
_JOINED_MIN_CHARS: Final = 12  # a longer word that nobody knows may be several
_JOINED_SURE_CHARS: Final = 18  # ... and one that is longer may be even if its end is known
_LETTER_FAR, _STOP_FAR, _LINE_FAR, _BROKEN_FAR = 1, 5, 3, 1
_BROKEN_WORDS: Final = 3
_DETERMINERS: Final = frozenset(("the", "a", "an", "my", "our", "his", "her", "their", "this", "your"))
_CALLING: Final = frozenset(":,!-")
_CALL_TOKENS: Final = 3  # before a name, when it begins a sentence
_SYMBOLS: Final = frozenset("=();{}[]$\\|")
_QUOTES: Final = frozenset("\"'`")


class Meaning(NamedTuple):
    """A meaning and its place in the text that was read."""

    kind: str
    severity: str
    start: int
    end: int


class MeaningReader:
    """Reads one text."""

    def __init__(self, text: str, hidden: bool = False) -> None:
        self._hidden = hidden  # who hides a text has a reason
        self.addresses: list[tuple[int, int, str]] = []
        self.shifted: list[tuple[int, int]] = []  # places of words that mean something with rot13
        self.backwards: list[tuple[int, int]] = []  # ... read backwards
        self.joined: list[tuple[int, int]] = []  # places of words that are too long to be one
        self._text = text
        self._grammar = grammar()
        self._scales = scales()
        self._near: Known = {}
        # Of each token: its classes, how far from the beginning it is, its place, and where its phrase begins.
        self._classes: list[int] = []
        self._far = array("q")
        self._starts = array("q")
        self._ends = array("q")
        self._firsts: dict[int, int] = {}
        self._said: list[str] = []
        self._lemma = ""  # of the last of them, when that is a form of an English verb
        self._tokens: list[int] = []  # of each word said, its token
        self._rows: list[Row] = []  # of the segment before

    def read(self) -> Iterator[Meaning | None]:
        """Return the meanings in the text; None now and then, so that others get a turn."""
        bits = self._grammar.bits
        address, url, edge = bits["address"], bits["url"], bits["edge"]
        here, in_segment, segment, before, broken = 0, 0, 0, 0, 0
        determined, words = False, self._grammar.words
        for count, found in enumerate(TOKEN.finditer(self._text)):
            if count % _STEP_TOKENS == 0:
                yield None
            sort = found.lastgroup
            if sort == "plain" or sort == "word":
                here += WORD_FAR
                in_segment += 1
                word = found[0]
                known = words[word]
                start, end = found.span()
                if known is None and len(word) < _JOINED_MIN_CHARS:
                    self._said.append(word)
                    self._lemma = ""
                    self._tokens.append(len(self._classes))
                    self._add(0, here, start, end)
                else:
                    self._word(known.word if known else word, known, start, end, here, determined)
                determined = word in _DETERMINERS
            elif sort == "running":
                self._running(found[0], found.start(), here)
                length = found.end() - found.start()
                here += length * _LETTER_FAR
                in_segment += (length + 1) // 2
            elif sort in ("url", "mail", "host"):
                here += WORD_FAR
                in_segment += 1
                self.addresses.append((found.start(), found.end(), sort))
                self._add(address | edge | (url if sort == "url" else 0), here, found.start(), found.end())
            elif sort != "blank":
                determined = False
                if found[0][0] in _CALLING and self._classes and self._classes[-1] & bits["ai"]:
                    self._called()
                if sort != "mark":
                    if in_segment - broken < _BROKEN_WORDS:  # words put on lines of their own are still a sentence
                        here += _BROKEN_FAR
                    else:
                        here += _STOP_FAR if sort == "stop" else _LINE_FAR
                    broken = in_segment
                    if in_segment >= _SEGMENT_MIN_WORDS:
                        in_segment = _SEGMENT_MAX_WORDS
                symbols = 0 if _SYMBOLS.isdisjoint(found[0]) else bits["symbols"]
                self._add(edge | symbols, here, found.start(), found.end())
            if in_segment >= _SEGMENT_MAX_WORDS:
                yield from self._meanings(before, segment)
                before, segment, in_segment, broken = segment, len(self._classes), 0, 0
                if len(self._said) > _SAID_MAX_WORDS:
                    del self._said[:-_PHRASE_MAX_WORDS], self._tokens[:-_PHRASE_MAX_WORDS]
                yield None
        yield from self._meanings(before, segment)

    def _add(self, classes: int, far: int, start: int, end: int) -> None:
        self._classes.append(classes)
        self._far.append(far)
        self._starts.append(start)
        self._ends.append(end)

    def _word(self, word: str, known: Vocable | None, start: int, end: int, far: int, determined: bool) -> None:
        mine, first = 0, len(self._classes)
        if (known is None or len(word) >= _JOINED_SURE_CHARS) and word.isalpha():
            self.joined.append((start, end))
        if known is not None:
            mine = known.classes
            if determined:  # a noun
                mine &= ~self._grammar.orders
            words = self._grammar.words
            for phrase, meaning in known.phrases(self._said[-1], self._lemma) if known.endings and self._said else ():
                length = len(phrase)
                if not words.same(self._said[-length:], phrase):
                    continue
                mine |= meaning | (self._classes[self._tokens[-length]] & self._grammar.forms)
                first = min(first, self._tokens[-length])
                if not meaning & self._grammar.negation:
                    mine &= ~self._grammar.negation
                for token in self._tokens[-length:]:
                    self._classes[token] &= ~self._grammar.negation
            if known.shifted:
                self.shifted.append((start, end))
            if known.backwards:
                self.backwards.append((start, end))
        self._said.append(word)
        self._lemma = known.lemma if known else ""
        self._tokens.append(len(self._classes))
        if first < len(self._classes):
            self._firsts[len(self._classes)] = first
            start = self._starts[first]
        self._add(mine, far, start, end)

    def _called(self) -> None:
        """Note that the assistant is spoken to, if the name just read stands at the beginning."""
        last = len(self._classes) - 1
        before = self._classes[max(0, last - _CALL_TOKENS) : last]
        edge = self._grammar.bits["edge"]
        article = last > 0 and self._text[self._starts[last - 1] : self._ends[last - 1]] in _DETERMINERS
        if not article and (len(before) < _CALL_TOKENS or any(other & edge for other in before)):
            self._classes[last] |= self._grammar.bits["called"]

    def steers(self, start: int, end: int) -> bool:
        """Whether a place in the text has words that speak to an assistant or tell somebody to do something."""
        first, last = bisect_left(self._starts, start), bisect_left(self._starts, end)
        return any(classes & self._grammar.steering for classes in self._classes[first:last])

    def _running(self, text: str, start: int, far: int) -> None:
        for first, last, classes in self._grammar.words.running(text):
            self._add(classes, far + first * _LETTER_FAR, start + first, start + last)

    def _meanings(self, before: int, segment: int) -> Iterator[Meaning]:
        """Return what the tokens from `before` mean together; those from `segment` are new."""
        classes, wanted, verbs = self._classes, self._grammar.meaningful, self._grammar.verbs
        for token in range(segment, len(classes)):
            if classes[token] & verbs:
                classes[token] = self._as_meant(token)
        told, orders, far = self._grammar.bits["told"], ~self._grammar.orders, self._far
        fresh = [
            (token, far[token], each, each if each & told else each & orders)
            for token, each in enumerate(classes[segment:], segment)
            if each & wanted
        ]
        rows, since, self._rows = self._rows + fresh, len(self._rows), fresh
        if not fresh:
            return
        rows = self._derived(rows)
        weight = self._weigh(rows[since:])
        light, grave = (_LIGHT_HIDDEN, _GRAVE_HIDDEN) if self._hidden else (_LIGHT, 0.0)
        words = self._grammar
        ruled = [row for row in rows if row[2] & words.ruled]
        danger = False
        for rule in self._grammar.rules.possible(row[2] & words.ruled for row in ruled):
            for anchor, others in self._matches(rule, ruled):
                involved = [anchor[0], *(row[0] for row in others)]
                last = max(involved)
                if last < segment:  # was found with the segment before
                    continue
                excused = (rule.unless and self._everyday(rule.unless, anchor, rows)) or self._reported(
                    before, min(involved), last
                )
                if excused and weight.unexcused < _EXCUSED_WARNED:
                    continue
                heavy = weight.all > light or min(involved) < segment
                severe = rule.severity == "danger" and not excused and heavy
                danger = danger or severe
                yield self._meaning(rule.kind, severe, involved)
                break
        if not danger and weight.unexcused > grave:
            tokens = [row[0] for row in rows[since:] if row[2] & self._grammar.words.signals]
            heavy = bool(tokens) and weight.all > grave and not self._reported(before, tokens[0], tokens[-1])
            severe = heavy and weight.all > grave + _SURE
            if tokens and (heavy or weight.unexcused > _HEAVY_WARNED):
                yield self._meaning(kind(rows, self._grammar), severe, tokens)

    def _weigh(self, rows: list[Row]) -> Weight:
        """Return what the rows weigh together."""
        if not any(row[3] & self._grammar.orders or row[2] & self._grammar.hot for row in rows):
            return HARMLESS
        return self._scales.weigh(self._scales.features(rows, self._near))

    def _meaning(self, name: str, severe: bool, tokens: list[int]) -> Meaning:
        start, end = min(self._starts[token] for token in tokens), max(self._ends[token] for token in tokens)
        return Meaning(name, "danger" if severe else "warning", start, end)

    def _derived(self, rows: list[Row]) -> list[Row]:
        """Return `rows` with the classes that come of others."""
        for rule in self._grammar.derived.possible(row[2] & self._grammar.ruled for row in rows):
            bit = self._grammar.bits[rule.kind]
            marked: set[int] = set()
            for anchor, others in self._matches(rule, rows):
                involved = {anchor[0], *(row[0] for row in others)}
                if rule.kind != "unasked" or not self._forbidden(min(involved)):
                    marked |= involved
            if marked:
                rows = [
                    (token, far, classes | bit, told | bit) if token in marked else (token, far, classes, told)
                    for token, far, classes, told in rows
                ]
        return rows

    def _matches(self, rule: GrammarRule, rows: list[Row]) -> Iterator[tuple[Row, list[Row]]]:
        """Return each row that may be the first of `rule`, and the nearest for its other groups."""
        wanted, told = rule.groups[0]
        rest = [(classes, 3 if must else 2) for classes, must in rule.groups[1:]]
        for anchor in rows:
            if not anchor[3 if told else 2] & wanted:
                continue
            chosen: list[Row] = []
            ordered = rule.ordered and self._text[self._starts[anchor[0]]] < "\u3040"
            for classes, column in rest:
                best, distance = None, rule.far + 1
                for row in rows:
                    if row[column] & classes and row is not anchor:
                        apart = abs(row[1] - anchor[1])
                        if apart < distance and (row[0] > anchor[0] or not ordered):
                            best, distance = row, apart
                        elif row[1] > anchor[1]:
                            break  # later ones are further away
                if best is None and anchor[2] & classes & self._grammar.phrased:
                    best = anchor
                if best is None:
                    break
                chosen.append(best)
            else:
                yield anchor, chosen

    def _as_meant(self, token: int) -> int:
        """Return the classes of a verb as its sentence means it: told, denied, or said of somebody."""
        classes, words, text = self._classes, self._grammar, self._text
        mine, count = classes[token], len(classes)
        edge, start, end = words.bits["edge"], self._starts[token], self._ends[token]
        # Verbs that do not change their form, and German infinitives at the end, tell unless a subject says otherwise.
        told = text[start] >= "\u3040" or (
            text[end - 2 : end] == "en" and (token + 1 == count or bool(classes[token + 1] & edge))
        )
        form = mine & words.forms  # an English verb in a form that tells only beside some words
        needed = words.helpers.get(form, 0)
        helped = not needed
        denied, begun, sure = False, False, True
        at = self._firsts.get(token, token)
        for distance in range(1, _BEFORE_TOKENS + 1):
            at -= 1
            other = classes[at] if at >= 0 else edge
            if other & edge:
                begun = sure
                break
            if other & needed:
                helped = told = True
            if other & words.bits["without"] and not other & words.bits["neg"]:
                break  # "do nothing without asking" does not deny the asking
            if other & words.bits["neg"]:
                denied = denied or distance < _BEFORE_TOKENS
            elif other & words.subjects and not form & words.bits["participle"]:
                return mine & ~words.verbs
            elif other & words.tellers:
                told = True
                if form & words.bits["participle"]:
                    continue
                break
            elif not other & words.passed:
                sure = False
            at = self._firsts.get(at, at)
        if not helped:
            return mine if form & words.bits["gerund"] else mine & ~words.verbs
        for other in classes[token + 1 : token + 1 + _BEHIND_TOKENS]:
            if other & edge or other & words.verbs & ~mine:
                break
            denied = denied or bool(other & words.bits["negafter"])
        if denied:
            turned = sum(words.bits["n" + name] for name in ("ask", "inform", "obey", "act") if mine & words.bits[name])
            return (mine & ~words.verbs) | turned
        mine &= ~form
        return mine | (words.bits["told"] if told or begun else 0) | (words.bits["begun"] if begun else 0)

    def _everyday(self, words: int, anchor: Row, rows: list[Row]) -> bool:
        return any(row[2] & words and abs(row[1] - anchor[1]) <= _UNLESS_WORDS * WORD_FAR for row in rows)

    def _forbidden(self, token: int) -> bool:
        """Whether what comes without asking is what somebody must not do."""
        for other in reversed(self._classes[max(0, token - _FORBIDDEN_TOKENS) : token]):
            if other & self._grammar.bits["edge"]:
                return False
            if other & self._grammar.negation:
                return True
        return False

    def _reported(self, before: int, first: int, last: int) -> bool:
        classes, bits = self._classes, self._grammar.bits
        around = classes[max(before, first - _QUOTE_TOKENS) : last + 1 + _QUOTE_TOKENS]
        about = sum(1 for other in classes[before:] if other & bits["report"])
        if self._quoted(range(max(before, first - _QUOTE_TOKENS), first)) and self._quoted(
            range(last + 1, min(len(classes), last + 1 + _QUOTE_TOKENS))
        ):
            return about > 0 or any(other & bits["mention"] for other in around)
        begun = any(classes[token] & bits["begun"] for token in range(first, last + 1))
        return about > 1 or (about == 1 and not begun)

    def _quoted(self, tokens: range) -> bool:
        return any(
            self._classes[token] & self._grammar.bits["edge"]
            and not _QUOTES.isdisjoint(self._text[self._starts[token] : self._ends[token]])
            for token in tokens
        )
