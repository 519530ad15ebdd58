"""What is left in the database and in the tools' ledger, compared with what was acknowledged."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from daycare.store.postgres.connection import PostgresConnection
from tests.crash.ledger import Finding, Ledger
from tests.nodes import wants
from tests.nodes.server import Server

KINDS: Final = ("lost", "doubled", "two_owners", "stuck", "broken", "deadlocks")
_DONE: Final = re.compile(r"\b(?:done|ack) (told|asked|first) (s\d+)[- ](\d+)\b")
_REFUSED: Final = re.compile(r"\back (?:tell|ask|spawn) (s\d+) (\d+) error")
_ACK: Final = re.compile(r"\back (\w+) (s\d+) (\d+)\b")


def judge(db: PostgresConnection, ledger: Ledger, wanted: wants.Wanted, tools: Path) -> list[Finding]:
    """Return every promise to people that was broken."""
    found: list[Finding] = list(ledger.findings)
    rows = {
        str(key): (str(state), str(result)) for key, state, result in db.simple("SELECT key, state, result FROM inbox")
    }
    texts = [text for (messages,) in db.simple("SELECT messages FROM history") for text in _said(str(messages))]
    done = Counter(match.groups() for text in texts for match in _DONE.finditer(text))
    refused = {match.groups() for text in texts for match in _REFUSED.finditer(text)}  # agents who wrote too much
    acks = Counter(match.groups() for text in texts for match in _ACK.finditer(text))
    for sent in ledger.acknowledged:
        errand = sent.errand
        state, result = rows.get(sent.key, ("missing", ""))
        answered = acks[errand.verb, errand.sender, str(errand.number)]
        if state != "1" or answered == 0:
            found.append(("lost", f"{errand}: state {state}, answered {answered} times ({result[:200]})"))
        elif answered > 1:
            found.append(("doubled", f"{errand}: answered {answered} times"))
        if errand.verb == "remind":
            reminded = acks["reminded", errand.sender, str(errand.number)]
            if reminded != 1:
                found.append(("lost" if not reminded else "doubled", f"{errand}: reminded {reminded} times"))
    lines = Counter(tools.read_text().splitlines() if tools.exists() else ())
    found += [
        ("doubled", f"tool: {line} {many} times") for line, many in lines.items() if many > 1 and "charge" in line
    ]
    for told in ("told", "asked", "first"):
        names = {"told": "tell", "asked": "ask", "first": "spawn"}
        for sent in ledger.acknowledged:
            it = sent.errand
            many = done[told, it.sender, str(it.number)]
            if it.verb == names[told] and many != 1 and not (many == 0 and (it.sender, str(it.number)) in refused):
                found.append(("lost" if not many else "doubled", f"{it}: {told} {many} times"))
    found += wants.judge(db, wanted, texts, lines)
    return found


def of_nodes(server: Server) -> list[Finding]:
    """Return what the server's triggers have seen: who had what somebody else had, and deadlocks."""
    found: list[Finding] = []
    db = server.connect()
    try:
        for at, shard, node, epoch in db.simple(
            "SELECT at, shard, node, epoch FROM owned WHERE alive AND node IS NOT NULL"
        ):
            found.append(
                ("two_owners", f"shard {shard} was given to {node} (epoch {epoch}) at {at} while another had it")
            )
        for at, node in db.simple("SELECT at, node FROM stale"):
            found.append(("two_owners", f"{node} committed at {at}, and had been declared dead"))
        for at, node in db.simple("SELECT at, node FROM read_on"):
            found.append(("two_owners", f"{node} read on at {at} over a connector that another has"))
        for at, node, left_ms in db.simple("SELECT at, node, left_ms FROM early"):
            found.append(("two_owners", f"{node} was declared dead at {at}, with {left_ms} ms of its lease left"))
        found += [("deadlocks", line) for line in server.log().splitlines() if "deadlock detected" in line]
    finally:
        db.close()
    return found


def _said(messages: str) -> Iterator[str]:
    """Yield what a turn's model said."""

    def texts(part: Any) -> Iterator[str]:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            for inner in part.values():
                yield from texts(inner)
        elif isinstance(part, list):
            for inner in part:
                yield from texts(inner)

    for message in json.loads(messages):
        if message.get("role") == "assistant":
            yield from texts(message)
