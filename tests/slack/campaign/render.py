"""Rendering: what a model may write becomes calls that Slack takes, complete, and that notify nobody."""

import random
import re
import time
from typing import Any, Final

from msgspec.structs import replace

from daycare.base.connector import Outgoing
from daycare.base.messages import Choice
from daycare.testing.http_server import Params
from daycare_plugins.slack import outgoing
from daycare_plugins.slack.client import _field
from daycare_plugins.slack.streams import TEXT_MAX_CHARS
from daycare_plugins.slack.testing.rules import SlackRefusedError, check_arguments
from daycare_plugins.slack.testing.server import FakeWorkspace
from daycare_plugins.slack.words import silent
from tests.judges.slack import faults
from tests.slack.campaign.documents import SlackAuthor
from tests.telegram.campaign.report import Report, say

KINDS: Final = ("refused", "loud", "lost", "doubled", "reordered", "broken")
ANN: Final = "U1ANN"
THREAD: Final = "1.000001"
_LOUD: Final = re.compile(r"<[!@#]")  # nothing of ours names anybody
_BARE: Final = re.compile(r"(?<![\w.+-])@(?:channel|here|everyone)")
_MARK: Final = re.compile(r"qz\d+qz")


def run(documents: int, seed: int) -> Report:
    """Render so many documents, from this seed on."""
    began = time.perf_counter()
    report = Report("render", seed, KINDS)
    slack = FakeWorkspace()
    slack.person(ANN, "Ann")
    parts = 0
    for number in range(seed, seed + documents):
        parts += _document(slack, number, report)
        slack.dm(ANN).messages.clear()
        slack.files.clear()
        if (number - seed + 1) % 500 == 0:
            say(f"{number - seed + 1} of {documents} documents, {report.harm} findings")
    report.figures = {"documents": documents, "messages": parts, "seconds": round(time.perf_counter() - began, 1)}
    return report


def _document(slack: FakeWorkspace, seed: int, report: Report) -> int:
    author, chance = SlackAuthor(seed), random.Random(seed)
    offered = tuple(Choice(label=f"<!here> {n}", says="y" * (n * 60)) for n in range(chance.choice((0, 0, 1, 3, 40))))
    reply = Outgoing(outbox=1, key="k", path="/a/b", user="a", target=ANN, text=author.text, choices=offered)
    parts = [part for part in outgoing.split(reply) if part.text]
    for part in parts:
        for each in (part, replace(part, maybe_duplicate=True)):
            _taken(slack, "chat.postMessage", outgoing.message(each), seed, report)
    found = _MARK.findall("\n".join(part.text for part in parts))
    if found != author.marks:
        kind = (
            "lost" if len(found) < len(author.marks) else "doubled" if len(found) > len(author.marks) else "reordered"
        )
        report.find(kind, f"document {seed}: {len(found)} of {len(author.marks)} words")
    if shown := outgoing.tail(author.text):
        _taken(slack, "chat.postMessage", outgoing.posted(shown), seed, report)
    _streamed(slack, author.text, chance, seed, report)
    return len(parts)


def _streamed(slack: FakeWorkspace, text: str, chance: random.Random, seed: int, report: Report) -> None:
    """Let the text grow before somebody's eyes."""
    slack.dm(ANN).messages[THREAD] = {"user": ANN, "ts": THREAD, "text": "root"}
    begin = {"channel": f"D{ANN[1:]}", "thread_ts": THREAD, "recipient_user_id": ANN, "recipient_team_id": "T1"}
    ts, at, said = "", 0, ""
    while at < len(text):
        at = min(at + chance.randrange(1, TEXT_MAX_CHARS // 2), len(text))
        grown = silent(text[:at])
        if not grown.startswith(said):
            report.find("broken", f"document {seed}: a stream would have to take something back")
            return
        more, said = grown[len(said) :], grown
        if ts:
            _call(
                slack, "chat.appendStream", {"channel": begin["channel"], "ts": ts, "markdown_text": more}, seed, report
            )
        else:
            ts = _call(slack, "chat.startStream", begin | {"markdown_text": more}, seed, report).get("ts", "")
    if ts:
        whole = slack.dm(ANN).messages[ts]["text"]
        if _LOUD.search(whole) or _BARE.search(whole):
            report.find("loud", f"document {seed}: a stream that names somebody")


def _taken(slack: FakeWorkspace, method: str, params: dict[str, Any], seed: int, report: Report) -> None:
    _call(slack, method, {"channel": ANN, **params}, seed, report)
    sections = [block for block in params["blocks"] if block["type"] == "section"]
    unquiet = params["link_names"] or not all(block["text"]["verbatim"] for block in sections)
    if _LOUD.search(params["text"]) or unquiet:
        report.find("loud", f"document {seed}: {params['text'][:200]!r}")


def _call(slack: FakeWorkspace, method: str, params: dict[str, Any], seed: int, report: Report) -> dict[str, Any]:
    form = Params({name: _field(value) for name, value in params.items() if value is not None})
    for fault in faults(method, form.values):
        report.find("refused", f"document {seed}: Slack's own library: {fault}")
    try:
        check_arguments(method, form)
        return slack.methods()[method](form)
    except SlackRefusedError as error:
        report.find("refused", f"document {seed}: {method}: {error.answer}")
        return {}
    except UnicodeEncodeError as error:
        report.find("broken", f"document {seed}: {method}: {error}")
        return {}
