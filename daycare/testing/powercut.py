"""Cut the power thousands of times: does the store keep what it acknowledged, once, whole and in order?

A seeded crowd uses a real store on a recorded disk (`powercut_workload`). Disks as a power cut may leave them
(`powercut_disk`) are opened by the real store again and compared with what was promised before the cut.
"""

import random
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import trio

from daycare.base.errors import DaycareError
from daycare.features import open_store
from daycare.store.sqlite.store import Store
from daycare.testing.powercut_disk import Disk
from daycare.testing.powercut_workload import Finish, PromiseLedger, Recording, agent_at, envelope, record

IMAGES_PER_RUN = 50
KINDS = ("lost", "doubled", "torn", "reordered")
Finding = tuple[str, str]  # one of KINDS, and what was seen


@dataclass
class DiskImage:
    """One disk as a power cut after `at` of `total` operations left it, and which promises it breaks."""

    run: int
    at: int
    total: int
    promised: int  # what had been acknowledged before the cut
    findings: list[Finding]


def run(
    images: int, seed: int, *, synchronous: str = "", report: Callable[[str], None] = lambda line: None
) -> dict[str, int]:
    """Return how many of so many images showed lost, doubled, torn or reordered rows.

    `synchronous` is SQLite's pragma, empty for the product's own. The crowd's threads interleave as they like, so a
    seed repeats the choices but not the exact record.
    """
    return trio.run(_count, images, seed, synchronous, report)


async def _count(images: int, seed: int, synchronous: str, report: Callable[[str], None]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    fast = Path("/dev/shm")  # images are synced, too; memory makes that free
    async with aclosing(examined(images, seed, fast if fast.is_dir() else None, synchronous)) as all_images:
        async for image in all_images:
            counts.update({kind for kind, _ in image.findings})
            for kind, what in image.findings[:5]:
                report(f"seed {seed}, run {image.run}, cut at {image.at} of {image.total}: {kind}: {what}")
    return {"images": images, **{kind: counts[kind] for kind in KINDS}, "seed": seed}


async def examined(
    images: int, seed: int, folder: Path | None, synchronous: str = ""
) -> AsyncGenerator[DiskImage, None]:
    """Yield so many images after each was opened and compared; they lie in folders of their own within `folder`."""
    for number, start in enumerate(range(0, images, IMAGES_PER_RUN)):
        rng = random.Random(f"{seed}/{number}")
        with tempfile.TemporaryDirectory(dir=folder) as place:
            recording = await record(Path(place), rng.randrange(1 << 32), synchronous)
        for cut in draw_cuts(recording, min(IMAGES_PER_RUN, images - start), rng):
            with tempfile.TemporaryDirectory(dir=folder) as place:
                for name, data in cut.files.items():
                    Path(place, name).write_bytes(data)
                findings = await inspect(Path(place, "daycare.db"), recording.ledger, cut.at, rng)
            promised = recording.ledger.promised(cut.at)
            yield DiskImage(number, cut.at, len(recording.ops), promised, findings)


@dataclass
class Cut:
    """What a power cut after the first `at` operations left."""

    at: int
    files: dict[str, bytes]


def draw_cuts(recording: Recording, count: int, rng: random.Random) -> Iterator[Cut]:
    """Yield images of random moments in order; half of them right after a promise, where it is freshest."""
    total, promises = len(recording.ops), recording.promises
    moments = [rng.choice(promises) if rng.random() < 0.5 else rng.randint(0, total) for _ in range(count)]
    disk, played = Disk(), 0
    for at in sorted(moments):
        disk.play(recording.ops[played:at])
        played = at
        yield Cut(at, disk.cut(rng))


async def inspect(path: Path, ledger: PromiseLedger, at: int, rng: random.Random) -> list[Finding]:
    """Open what is left of a store and compare it with what was promised before operation `at`."""
    findings: list[Finding] = []
    try:
        async with open_store(str(path)) as store:
            findings += compare(store._db, ledger, at)
            findings += await repeat(store, ledger, rng)
    except* (DaycareError, apsw.Error) as errors:
        findings.append(("torn", f"it does not open or work: {errors.exceptions[0]}"))
    return findings


def compare(db: apsw.Connection, ledger: PromiseLedger, at: int) -> Iterator[Finding]:
    """Yield every promise that the tables break. Reads them with SQL of its own, not with the store's."""
    [(answer,)] = db.execute("PRAGMA integrity_check(1)").fetchall()
    if answer != "ok":
        yield "torn", f"integrity_check: {answer}"
    inbox = db.execute("SELECT path, key, seq, state, sender, text, unpacked(result) FROM inbox NOT INDEXED").fetchall()
    rows = {(row[0], row[1]): row for row in inbox}
    if len(rows) < len(inbox):
        yield "doubled", f"{len(inbox) - len(rows)} messages have a key twice"
    yield from _compare_posts(rows, ledger, at)
    yield from _compare_order(inbox, ledger)
    tables = _Tables(
        rows,
        dict(
            db.execute(
                "SELECT turn, coalesce(state || ':' || unpacked(messages), 'open')"
                " FROM turns LEFT JOIN history USING (turn)"
            )
        ),
        Counter(str(row[0]) for row in db.execute("SELECT text FROM outbox")),
        {str(row[0]) for row in db.execute("SELECT key FROM timers")},
        {row[2]: row[3] for row in inbox},
    )
    for finish in ledger.finishes:
        yield from _compare_finish(finish, tables, at)
    sent = {int(str(seq)) for (seq,) in db.execute("SELECT seq FROM outbox WHERE state = 2")}
    steps = set(db.execute("SELECT turn, step FROM steps"))
    kept: list[tuple[str, Mapping[Any, int], Collection[Any]]] = [
        ("turn", ledger.turns, tables.turns),
        ("step", ledger.steps, steps),
        ("delivery", ledger.sent, sent),
        ("fired timer", ledger.fired, {key for _, key in rows}),
    ]
    for name, promised, found in kept:
        yield from (("lost", f"{name} {key}") for key, acked in promised.items() if acked <= at and key not in found)
    for key in ledger.fired.keys() & tables.timers:
        if ledger.fired[key] <= at:
            yield "lost", f"the firing of timer {key}: it waits again"


@dataclass
class _Tables:
    rows: dict[tuple[Any, Any], tuple[Any, ...]]
    turns: dict[Any, Any]
    replies: Counter[str]
    timers: set[str]
    states: dict[Any, Any]  # of messages, by seq


def _compare_posts(rows: dict[tuple[Any, Any], tuple[Any, ...]], ledger: PromiseLedger, at: int) -> Iterator[Finding]:
    batches: dict[int, set[bool]] = {}
    for post in ledger.posts.values():
        row = rows.get((post.path, post.key))
        batches.setdefault(post.batch, set()).add(row is not None)
        if post.refused:
            if row is not None:
                yield "torn", f"message {post.key} of a batch that was refused"
            continue
        if row is None:
            if post.acked <= at:
                yield "lost", f"message {post.key}, acknowledged at {post.acked}"
            continue
        if post.acked <= at and row[2] != post.seq:
            yield "reordered", f"message {post.key} has the number {row[2]}, promised was {post.seq}"
        expected = envelope(post.path, post.key, post.sender).text
        if (row[3] == 0 and row[5] != expected) or (row[3] == 1 and not row[6]) or row[3] == 2:
            yield "torn", f"message {post.key}: {row}"
    yield from (("torn", f"half of batch {batch}") for batch, present in batches.items() if len(present) > 1)


def _compare_order(inbox: list[Any], ledger: PromiseLedger) -> Iterator[Finding]:
    """A sender writes the next message when the last is acknowledged: what is there is a beginning, in order."""
    senders: dict[str, list[int]] = {}
    for row in sorted(inbox, key=lambda row: row[2]):
        if post := ledger.posts.get(row[1]):
            senders.setdefault(post.sender, []).append(post.number)
    for sender, numbers in senders.items():
        if numbers != list(range(1, len(numbers) + 1)):
            yield "reordered", f"messages of {sender}: {numbers}"


def _compare_finish(finish: Finish, tables: _Tables, at: int) -> Iterator[Finding]:
    """A turn's end is wholly there or wholly absent."""
    turn = finish.turn
    state = str(tables.turns.get(turn.turn, "missing:"))
    done = state.startswith("done:")
    if finish.acked <= at and not done:
        yield "lost", f"the end of turn {turn.turn}, acknowledged at {finish.acked}"
    posted = (finish.post_path, finish.post) in tables.rows
    timer = (finish.timer in tables.timers) + ((finish.path, finish.timer) in tables.rows)
    named = [tables.states.get(seq) == 1 for seq in turn.seqs]
    replies = tables.replies[finish.reply]
    if replies > 1 or timer > 1:
        yield "doubled", f"turn {turn.turn}: {replies} replies, {timer} timers"
    whole = (replies > 0, posted, timer > 0, finish.result in state, *named)
    if set(whole) != {done}:
        yield "torn", f"turn {turn.turn} ({state[:20]}): reply, post, timer, history, messages: {whole}"


async def repeat(store: Store, ledger: PromiseLedger, rng: random.Random) -> list[Finding]:
    """Send some messages again, as a sender does who does not know: each is there once, in its old place."""
    present = dict(store._db.execute("SELECT path || key, seq FROM inbox NOT INDEXED"))
    posts = rng.sample(list(ledger.posts.values()), min(8, len(ledger.posts)))
    batch = [(envelope(post.path, post.key, post.sender), agent_at(post.path)) for post in posts]
    receipts = await store.inbox.post_all(batch)
    findings = []
    for post, receipt in zip(posts, receipts, strict=True):
        old = present.get(post.path + post.key)
        if receipt.duplicate is (old is None) or old not in (None, receipt.seq):
            findings.append(("doubled", f"message {post.key} of number {old} was accepted as {receipt.seq}"))
    keys = Counter(store._db.execute("SELECT path, key FROM inbox NOT INDEXED"))
    return findings + [("doubled", f"message {key}") for key, number in keys.items() if number > 1]
