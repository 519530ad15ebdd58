"""The model that needs no key and no network: a few rules, which say that they are rules and how to get a model.

It knows nothing but the request, so what it remembers is what stands in the conversation's history, and names it reads
in the prompt. It takes the messages since its last answer one by one; what needs a tool is called first, and told when
the results are there.
"""

import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any, Final

import trio

from daycare.base.clues import SEARCHER
from daycare.base.fence import unfenced
from daycare.base.limits import MERGE_MAX_MESSAGES
from daycare.base.messages import (
    DELIVERED,
    NOT_THE_USER,
    REMINDER,
    SCHEDULED,
    TASKED,
    Message,
    Origin,
    Part,
    Text,
    ToolCall,
    ToolResult,
)
from daycare.base.times import local_time
from daycare.plugin import Completion, InferRequest, Plugin, ProviderConfig, StreamEvent, TextDelta
from daycare_plugins.offline import doing
from daycare_plugins.offline.arithmetic import calculate
from daycare_plugins.offline.doing import DoneCall
from daycare_plugins.offline.every import EVERY
from daycare_plugins.offline.facts import OfflineFacts
from daycare_plugins.offline.introduced import introduced
from daycare_plugins.offline.recalled_lines import lines_on
from daycare_plugins.offline.searching import search
from daycare_plugins.offline.when import WHEN, zone_of

MODEL: Final = "rules"

LINE_MAX_CHARS: Final = 1_000  # longer lines are not matched at all: no rule can be slow on them
_SHOWN_CHARS: Final = 500  # of words that are passed on

_HINT: Final = (
    "I am the offline responder of daycare: a small set of rules, not a language model. To connect a model, run "
    "`daycare keys add openai`, or set base_url in `[providers.NAME]` of config.toml; the README shows how."
)
_HELP: Final = (
    "I can\n"
    '- remember facts of this conversation: "my cat is called Miso", "remember that ...", "I like ...", "call me ..."\n'
    '- recall them: "what is my cat called?", "what do you remember?", "forget everything"\n'
    '- set reminders: "remind me in 10 minutes to stretch", "remind me tomorrow at 9 to call Bob"\n'
    '- repeat them: "every weekday at 8 remind me to stretch", "what is scheduled?"\n'
    '- make an agent of a template: "make a diary agent"; /agents new shows the templates\n'
    '- propose something to remember for good, which you approve: "remember for good that I eat no meat"\n'
    '- write to your other agents: "tell /ana/agent/x that ..."\n'
    '- tell the time and the date, and calculate: "12 * (3 + 4)"'
)
_PUZZLED: Final = 'I did not understand that. Say "help" to see what I can do.'
_PATH_HELP: Final = 'I reach agents by their path only, such as "tell /ana/agent/x that ...".'

_NOTHING: Final = "You have told me nothing in this conversation yet. /memory shows what I remember of others."
_HEARD: Final = {Origin.PERSON, Origin.AGENT, Origin.CRON, Origin.GROUP}  # whose words are matched with the rules
_RELAYED: Final = {
    Origin.TIMER: "Reminder: {text}",
    Origin.AGENT: "{sender} says: {text}",
    Origin.CRON: "Scheduled: {text}",
    Origin.SYSTEM: "Notice: {text}",
    Origin.FORWARD: "I keep what you forwarded in this conversation, but can do nothing else with it.",
    Origin.FILE: "I cannot read files.",
    Origin.WEBHOOK: "A webhook brought: {text}",
}
# Prompts put the local time before a message: "[Fri 2027-01-01 09:00 UTC] hello".
_STAMP: Final = re.compile(r"\s*[\[(<][^\[\]()<>\n]{0,60}\d\d:\d\d[^\[\]()<>\n]{0,40}[\])>]:?\s*")
# Three letters before the full stop: no sentence ends after "Dr." and "a.m."
_SENTENCE_END: Final = re.compile(
    r"(?<=\w{3}[.!?])\s++|(?:,|(?<![\s,]))\s++and\s++(?=(?:i|my|our|what|who)\s)", re.IGNORECASE
)


# -- the provider ----------------------------------------------------------------------------------------------------


class OfflineProvider:
    """Answers by rules, at once, the same to the same request."""

    def __init__(self, name: str = "offline") -> None:
        self.name = name
        self.needs_key = False

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Stream the answer word by word; see `daycare.plugin.Provider`. Never raises."""
        await trio.lowlevel.checkpoint()
        text, calls = answer(request)
        for piece in re.findall(r"(?:\A\s*+)?\S++\s*+", text):
            yield TextDelta(piece)
        parts: tuple[Part, ...] = calls or ((Text(text),) if text else ())
        message = Message("assistant", parts, at_ms=request.now_ms)
        yield Completion(message=message, finish="tools" if calls else "stop", model=MODEL)

    async def models(self) -> list[str]:
        """Return the one name there is; any other works as well."""
        await trio.lowlevel.checkpoint()
        return [MODEL]


def answer(request: InferRequest) -> tuple[str, tuple[ToolCall, ...]]:
    """Return the answer to all messages since the last one; if tools must run first, only their calls."""
    if request.system.startswith(SEARCHER):
        return search(request, "\n".join(_bare(each.text) for each in request.messages if each.role == "user"))
    turn = _Turn(request)
    said: list[str] = []
    puzzled = not turn.pending
    for message in turn.pending:
        if message.role != "user":
            continue
        understood = False
        for line in _lines(message) if message.origin in _HEARD else ():
            reply = _answer_line(turn, line)
            understood = understood or reply is not None
            said.append(reply or "")
        if not understood and message.origin in _RELAYED:
            said.append(_relay(message))
        elif not understood and message.origin in _HEARD and turn.builds:
            said.append(doing.BUILDS)
        elif not understood and message.origin in _HEARD and (known := _remembered(turn, "\n".join(_lines(message)))):
            said.append(known)
        elif not understood:
            puzzled = True
    if turn.calls:
        return "", tuple(turn.calls)
    if puzzled:
        said.append(_PUZZLED)
        if not turn.hinted:
            said.append(_HINT)
    return "\n".join(filter(None, said)), ()


class _Turn:
    """What a rule may know, and the calls it may make."""

    def __init__(self, request: InferRequest) -> None:
        messages = request.messages
        # An assistant message with calls is a step of this turn, one without is an answer given.
        answers = (i for i, m in enumerate(messages) if m.role == "assistant" and not m.tool_calls)
        start = max(answers, default=-1) + 1
        self.pending = messages[start:]
        self.now = local_time(request.now_ms, zone_of(request.zone))
        self.zone = request.zone
        self.hinted = False  # whether the way to a model was shown in this conversation
        self.facts = OfflineFacts()
        self.system = request.system
        self.prompt = introduced(request.system)
        self.calls: list[ToolCall] = []
        self._tools: set[str] = set()
        self.builds = any(spec.name == "agent_propose" for spec in request.tools)  # in the conversation for that
        self._groups = ""
        self._done: list[DoneCall] = []
        self._number = len(messages)
        for message in messages[:start]:  # answering once more, without tools, tells what was told
            if message.role == "user" and message.origin in _HEARD:
                for line in _lines(message):
                    _answer_line(self, line)
        self.hinted = any(_HINT in m.text for m in messages[:start] if m.role == "assistant")
        self._tools = {spec.name for spec in request.tools}
        self._groups = next((spec.description for spec in request.tools if spec.name == "more_tools"), "")
        self._done = list(_done(self.pending, request.now_ms))

    def call(self, tool: str, arguments: dict[str, Any], tell: Callable[[DoneCall], str]) -> str:
        """Call a tool, or, if that was done in this turn, return what `tell` makes of it."""
        if tool not in self._tools and (group := _group_of(tool, self._groups)):
            self.calls.append(ToolCall(f"offline_{self._number}_{len(self.calls)}", "more_tools", {"group": group}))
            return ""
        if tool not in self._tools and self.builds:
            return doing.BUILDS
        if tool not in self._tools:
            return f"I cannot do that here: this agent has no tool `{tool}`."
        done = next((done for done in self._done if done.call.name == tool), None)
        if done is None:
            self.calls.append(ToolCall(f"offline_{self._number}_{len(self.calls)}", tool, arguments))
            return ""
        self._done.remove(done)
        status, text = (done.result.status, done.result.text) if done.result else ("uncertain", "")
        if status == "ok":
            return tell(done)
        if status == "error":
            return f"That did not work: {text[:_SHOWN_CHARS]}"
        return f"I cannot say whether that was done, and did not try again. {text[:_SHOWN_CHARS]}".rstrip()


def _group_of(tool: str, groups: str) -> str:
    """Return the group that a tool is in, as the tool that gets others tells it; "" if none is."""
    named = (part.rpartition(": ") for part in groups.partition(" Groups: ")[2].rstrip(".").split("; "))
    return next((group for group, _, tools in named if tool in tools.split(", ")), "")


def _done(pending: Sequence[Message], now_ms: int) -> Iterator[DoneCall]:
    results = {part.call_id: part for m in pending for part in m.parts if isinstance(part, ToolResult)}
    for message in pending:
        for call in message.tool_calls:
            yield DoneCall(call, results.get(call.id), message.at_ms or now_ms)


def _lines(message: Message) -> list[str]:
    """Return what is answered one by one: the lines, or of a longer text the whole."""
    lines: list[str] = []
    for part in message.parts:
        text = _bare(part.text if isinstance(part, Text) else "")
        split = [line.strip() for line in text.splitlines() if line.strip()]
        lines += split if len(split) <= MERGE_MAX_MESSAGES else [text]
    return lines


def _sentences(line: str) -> list[str]:
    return _SENTENCE_END.split(line)


def _relay(message: Message) -> str:
    text = _bare(message.text)
    if message.origin is Origin.AGENT and " says: " in text:
        return ""  # two of us would talk for ever
    text = re.sub(r"\AReminder:\s*", "", text)[:_SHOWN_CHARS]
    return _RELAYED[message.origin].format(sender=message.sender or "Another agent", text=text)


def _bare(text: str) -> str:
    """Return the words themselves, without what the prompt puts before them."""
    text = text.strip()
    stamp = _STAMP.match(text)
    text = text[stamp.end() :] if stamp else text
    if text.startswith((NOT_THE_USER, SCHEDULED, TASKED, DELIVERED)) and "\n" in text:
        text = unfenced(text.partition("\n")[2])
    return text.removeprefix(REMINDER)


# -- the rules -------------------------------------------------------------------------------------------------------


def _answer_line(turn: _Turn, line: str) -> str | None:
    """Return the answer to a line, "" for one that a tool call will give, None if no rule knows it."""
    if len(line) > LINE_MAX_CHARS:
        return f"A line of {len(line)} characters is too long for me: I read up to {LINE_MAX_CHARS}."
    line = " ".join(line.split())  # the rules try again at each blank of a run
    found = _match_first(_WHOLE_LINE, line)
    if found:
        return found[0](turn, found[1])
    replies = [_answer_sentence(turn, sentence) for sentence in _sentences(line)]
    if all(reply is None for reply in replies):
        return None
    return "\n".join(reply for reply in replies if reply)


def _answer_sentence(turn: _Turn, sentence: str) -> str | None:
    found = _match_first(_WHOLE_LINE + _SENTENCE, sentence)
    if found:
        return found[0](turn, found[1])
    learned = turn.facts.learn(sentence)
    if learned:
        return f"Noted: {learned}."
    greeting = re.match(r"(?:(?:hi|hello|hey)\b[\s,!]+)+(?=\S)", sentence, re.IGNORECASE)
    return _answer_sentence(turn, sentence[greeting.end() :]) if greeting else None


def _greet(turn: _Turn, _: re.Match[str]) -> str:
    hello = f"Hello, {turn.facts.name}!" if turn.facts.name else "Hello!"
    if turn.hinted:
        return hello
    turn.hinted = True
    return f'{hello} {_HINT} Say "help" to see what I can do.'


def _what_are_you(turn: _Turn, _: re.Match[str]) -> str:
    turn.hinted = True
    return f"{_my_name(turn)} {_HINT}" if turn.prompt.agent else _HINT


def _my_name(turn: _Turn) -> str:
    return f"My name is {turn.prompt.agent}." if turn.prompt.agent else "Nobody has given me a name."


def _tell_name(turn: _Turn, _: re.Match[str]) -> str:
    return _my_name(turn)


def _tell_names(turn: _Turn, found: re.Match[str]) -> str:
    return f"{_recall_name(turn, found)} {_my_name(turn)}"


def _time(turn: _Turn, _: re.Match[str]) -> str:
    return f"It is {turn.now:%H:%M} ({turn.zone})."


def _date(turn: _Turn, _: re.Match[str]) -> str:
    return f"It is {doing.day(turn.now)} ({turn.zone})."


def _remember(turn: _Turn, found: re.Match[str]) -> str:
    learned = turn.facts.learn(found["note"])
    return f"Noted, as long as this conversation lasts: {learned}." if learned else "What shall I remember?"


def _forget(turn: _Turn, _: re.Match[str]) -> str:
    turn.facts.clear()
    turn.system = ""  # and what it recalls
    return "I will not bring up what you told me so far; the conversation's history still holds it."


def _recall_all(turn: _Turn, _: re.Match[str]) -> str:
    known = turn.facts.all()
    return f"In this conversation you told me: {'; '.join(known)}." if known else _NOTHING


def _recall_name(turn: _Turn, _: re.Match[str]) -> str:
    name = turn.facts.name or turn.prompt.user
    return f"Your name is {name}." if name else "You have not told me your name."


def _recall_called(turn: _Turn, found: re.Match[str]) -> str:
    known = turn.facts.about(found["what"], name_first=True)
    return _recalled(turn, found, known, f"what your {found['what']} is called")


def _recall_about(turn: _Turn, found: re.Match[str]) -> str | None:
    known = turn.facts.about(found["what"])
    if not known and found["whose"].casefold() == "the":
        return None  # a question on the world, not on what was told
    return _recalled(turn, found, known, f"that about your {found['what']}")


def _recall_doing(turn: _Turn, found: re.Match[str]) -> str:
    known = turn.facts.doing(found["verb"])
    return _recalled(turn, found, "; ".join(known), f"what or where you {found['verb']}")


def _recalled(turn: _Turn, asked: re.Match[str], known: str, missing: str) -> str:
    """Return what was told in this conversation; if it was not, what is remembered of others."""
    if known:
        return f"{known[:1].upper()}{known[1:]}."
    return _remembered(turn, asked.string) or f"You have not told me {missing}."


def _remembered(turn: _Turn, question: str) -> str:
    """Return what the prompt recalls on a question, with when and by whom it was said."""
    lines = lines_on(turn.system, question)
    return "\n".join(("This is what I remember of it:", *lines)) if lines else ""


def _sum(_: _Turn, found: re.Match[str]) -> str | None:
    if not re.search(r"[0-9)]\s*[-+*/\u00d7\u00f7x:\u2212]\s*[-(0-9]", found["sum"]):
        return None
    try:
        return f"{found['sum'].strip()} = {calculate(found['sum'])}"
    except ValueError as error:
        return f"I cannot calculate that: {error}."


def _say(text: str) -> "_Act":
    return lambda turn, found: text


_Act = Callable[[_Turn, re.Match[str]], str | None]
_Rule = tuple[Callable[[str], re.Match[str] | None], _Act]


def _rule(pattern: str, act: _Act) -> _Rule:
    polite = r"(?:(?:can|could|will|would) you\s+)?(?:please\s+)?"
    return re.compile(rf"{polite}(?:{pattern})[\s.!?]*", re.IGNORECASE).fullmatch, act


_IS: Final = r"(?:\s+(?:is|are|was|were)|['\u2019]s)"
_THING: Final = r"(?P<what>[^\W\d_][\w '\u2019-]{0,60}?)"

# Tried on a line as it stands, for what follows may be anything.
_WHOLE_LINE: Final[tuple[_Rule, ...]] = (
    _rule(
        r"(?:remember|keep|note) (?:for good|for ever|forever|permanently)[,:]?(?:\s+that)?\s+(?P<note>\S.*)",
        doing.keep,
    ),
    _rule(rf"remind me\s+(?P<when>{WHEN})\s*[,:]?(?:\s+(?:to|about|that|of))?\s+(?P<text>\S.*)", doing.remind),
    _rule(rf"remind me\s+(?P<every>{EVERY})\s*[,:]?(?:\s+(?:to|about|that|of))?\s+(?P<text>\S.*)", doing.schedule),
    _rule(
        rf"(?P<every>{EVERY})(?:\s*:|\s*,?\s+(?:remind|tell) me(?:\s+(?:to|about|that|of))?)\s+(?P<text>\S.*)",
        doing.schedule,
    ),
    _rule(rf"remind me\s+(?:(?:to|about|that|of)\s+)?(?P<text>\S.*?),?\s+(?P<every>{EVERY})", doing.schedule),
    _rule(r"(?:remind me\s+)?every\b.*\b(?:remind me|hours|minutes)\b.*", _say(doing.EVERY_HELP)),
    _rule(rf"remind me\s+(?:(?:to|about|that|of)\s+)?(?P<text>\S.*?),?\s+(?P<when>{WHEN})", doing.remind),
    _rule(rf"(?P<when>{WHEN})\s*,?\s+remind me\s+(?:(?:to|about|that|of)\s+)?(?P<text>\S.*)", doing.remind),
    _rule(r"remind me\b.*", _say(doing.WHEN_HELP)),
    _rule(r"(?:tell|ask|message|write to|send to|send)\s+(?P<to>/\S+?)[,:]?\s+(?:that\s+)?(?P<text>\S.*)", doing.tell),
    _rule(r"(?:tell|message|write to|send to) (?!me\b|us\b)\w{1,64}\b.*", _say(_PATH_HELP)),
    _rule(r"(?P<note>(?:remember|note|don['\u2019]t forget|do not forget)\b.*)", _remember),
)
# Tried on each sentence of a line.
_SENTENCE: Final[tuple[_Rule, ...]] = (
    _rule(r"(?:hi|hello|hey|hallo|hola|salut|ciao|good (?:morning|day|afternoon|evening))(?:[\s,]+\w{1,20})?", _greet),
    _rule(r"help|/help|what can you do|how do you work", _say(_HELP)),
    _rule(r"(?:ok(?:ay)?[,\s]+)?(?:thanks|thank you|thx)\b.{0,40}", _say("You are welcome.")),
    _rule(r"(?:good ?bye|bye|see you|good night)\b.{0,40}", _say("Goodbye.")),
    _rule(r"how are you\b.{0,20}", _say("As well as a set of rules can be, thank you.")),
    _rule(r"(?:who|what) are you", _what_are_you),
    _rule(r"are you (?:an? |the )?(?:ai|llm|chatgpt|gpt|human|bot|language model)\b.{0,40}", _what_are_you),
    _rule(r"what(?: is|['\u2019]s)? (?:scheduled|waiting|waits)(?: for me)?|list what waits|(?:list|show) my schedule",
          doing.scheduled),
    _rule(r"(?:make|create|start)(?: me)? (?:an? )?(?P<template>[a-z]{1,20}) agent"
          r"(?: (?:called|named) (?P<name>[\w-]{1,40}))?", doing.make),
    _rule(r"what(?: time is it|(?: is|['\u2019]s) the time)(?: now)?|time", _time),
    _rule(r"what(?: day is (?:it|today)|(?: is|['\u2019]s) (?:the date|today))(?: today)?|date|today", _date),
    _rule(rf"what{_IS} (?:my name,? and yours|your name,? and mine|our names)", _tell_names),
    _rule(rf"(?:and )?what{_IS} (?:your name|yours)|what are you called|how (?:do|can|should) i call you", _tell_name),
    _rule(rf"what{_IS} my name|who am i|do you (?:know|remember) (?:my name|me)", _recall_name),
    _rule(r"what do you (?:remember|know)(?: about me| of me)?|what (?:have|did) i (?:told|tell) you", _recall_all),
    _rule(r"forget (?:everything|all(?: of it)?|it all)", _forget),
    _rule(rf"what{_IS} (?:my|our) {_THING}(?: called| named|['\u2019]s name)", _recall_called),
    _rule(rf"what{_IS} the name of (?:my|our) {_THING}", _recall_called),
    _rule(rf"(?:(?:what|who|where|when|how){_IS}|do you (?:know|remember)|what about) (?P<whose>my|our|the) {_THING}",
          _recall_about),
    _rule(r"(?:what|where|who|whom) do i (?P<verb>like|love|hate|prefer|want|need|have|live|work|come|speak)\b.{0,20}",
          _recall_doing),
    _rule(rf"(?:(?:what{_IS}|how much is|calculate|compute)\s+)?(?P<sum>[-+*/\u00d7\u00f7x:\u2212()0-9., ]{{3,200}})=?",
          _sum),
)  # fmt: skip


def _match_first(rules: Sequence[_Rule], line: str) -> tuple[_Act, re.Match[str]] | None:
    for match, act in rules:
        found = match(line)
        if found:
            return act, found
    return None


def _create(config: ProviderConfig) -> OfflineProvider:
    return OfflineProvider(config.name)


plugin = Plugin(name="offline", providers={"offline": _create})
