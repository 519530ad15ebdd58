"""`daycare trace` and `/trace` show what was recalled for a turn, with scores and without words."""

import re
from pathlib import Path

import pytest
import trio

from daycare.store.records import Receipt
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import call, say

FACT = "My sister Clara lives in Bern."


async def asked(house: TestDaemon) -> Receipt:
    """Say something, and ask about it in another conversation."""
    await house.talk(FACT)
    await trio.sleep(1)
    await house.talk("/new")
    receipt = await house.say("Where does Clara live?")
    await house.hear(receipt)
    await trio.sleep(0.5)  # events are recorded behind the turn
    return receipt


@pytest.mark.parametrize("tools", [False, True], ids=["an answer alone", "with a tool call"])
async def test_trace_shows_what_was_recalled_with_scores_once(tools: bool, tmp_path: Path) -> None:
    async with open_daemon(tmp_path, location="file.db") as house:
        if tools:
            house.model.default = lambda request: (
                call(("now", {})) if request.messages[-1].role == "user" else say("in Bern")
            )
        receipt = await asked(house)
        why = await house.daemon.memory.controls.why(await house.daemon.directory.at("/ann/direct"))
        entries = await trio.to_thread.run_sync(house.store.ledger.trace, receipt.trace)
        told = await house.talk(f"/trace {receipt.trace}")
    [recalled] = [entry for entry in entries if entry.what.startswith("recall")]
    shown = {int(no): float(score) for no, score in re.findall(r"#(\d+) (\d+\.\d+)", recalled.detail)}
    assert shown == {each.no: round(each.score or 0, 2) for each in why.memories} and shown
    assert recalled.detail.startswith(f"{len(shown)} memories in ")
    assert recalled.detail in told
    assert "Clara" not in told, "whoever may trace a message need not be whose memory it is"
