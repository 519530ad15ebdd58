"""Imported archives: the export of an agent that lived a while, with bytes, fields, times and lengths changed."""

import gzip
import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import trio
import trio.testing

from daycare.base.errors import DaycareError
from daycare.features.exports.archive import PARTS
from daycare.testing.clock import patient_clock
from tests.exports.houses import exported, house_at, imported, lived
from tests.exports.test_hostile import Members, packed, unpacked
from tests.hostile import texts, values
from tests.hostile.messages import echo
from tests.hostile.stage import PEOPLE, Streaming, at_once, heard, opened
from tests.hostile.trial import Trial

TIMES: Final = (
    0, -1, 1, 253_402_300_799_999, 253_402_300_800_000, 8_640_000_000_000_000, 2**53, 2**62, 2**63 - 1, -(2**63),
    -62_135_596_800_000, -62_135_596_800_001, 1_798_761_600_000, 10**15, 9_999_999_999_999,
)  # fmt: skip


@cache
def life() -> bytes:
    """The export of an agent that has lived a while, with what is shared."""
    found: list[bytes] = []

    async def live() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with house_at(Path(folder) / "here") as house:
                await lived(house)
                found.append((await exported(house, shared=True))[1])

    trio.run(live, clock=patient_clock())
    return found[0]


class Archives:
    """See the module. Who was let in is talked to, so that what came with them is remembered, recalled and exported."""

    name = "archives"
    chunk = 25
    virtual = True

    def ready(self) -> None:
        """Make the export that is changed."""
        life()

    async def play(self, trial: Trial, folder: Path) -> None:
        """Import each as an agent of its own."""
        async with opened(trial, folder, Streaming(echo)) as house:

            async def one(number: int) -> None:
                rng = trial.draw(number)
                path = f"/{rng.choice(PEOPLE)}/agent/n{number}"
                with trial.watch.aside():
                    data = self.drawn(rng)
                try:
                    await imported(house, data, path, approve=rng.random() < 0.3)
                except DaycareError:
                    trial.end(number, "refused")
                    return
                user = path.split("/")[1]
                receipt = await house.say("what do you remember of tea and Clara and my colour?", user=user, path=path)
                await heard(house, trial, number, receipt)
                if rng.random() < 0.3:
                    try:
                        await exported(house, path)
                    except DaycareError as error:
                        trial.harm("stuck", f"what was imported cannot be exported: {error}", number)

            await at_once(trial.numbers, one, limit=4)
            await trio.sleep(4_000.0)  # whatever looks at what was imported later: reminders, jobs, curation, expiry

    def drawn(self, rng: Random) -> bytes:
        """Return the bytes of one."""
        choice = rng.random()
        if choice < 0.12:
            return _bytes(rng, life())
        if choice < 0.15:
            data = _bytes(rng, gzip.decompress(life()))
            return gzip.compress(data, 1)
        if choice < 0.17:
            return b"daycare\x01" + rng.randbytes(rng.choice((0, 31, 32, 33, 70_000)))
        members = dict(unpacked(life()))
        if choice < 0.2:
            members[rng.choice(list(members))] = rng.randbytes(rng.choice((0, 100)))
            return packed(members, honest=False)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            _changed(rng, members)
        return packed(members)

    def shown(self, rng: Random) -> str:
        """Return what is in it."""
        return f"{len(self.drawn(rng))} bytes"


def _bytes(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed[: rng.choice((len(changed),) * 3 + (rng.randrange(len(changed)),))])


def _changed(rng: Random, members: Members) -> None:
    part = rng.choice([name for name in PARTS if members.get(name)])
    lines: list[Any] = [json.loads(line) for line in members[part].splitlines()]
    at = rng.randrange(len(lines))
    choice = rng.random()
    if choice < 0.35:
        _timed(rng, lines[at])
    elif choice < 0.7:
        _worded(rng, lines[at])
    elif choice < 0.9:
        lines[at] = values.mutated(rng, lines[at], rng.choice((0.02, 0.1)))
    elif choice < 0.95:
        lines.insert(rng.randrange(len(lines)), lines[at])
    else:
        lines.pop(at)
    members[part] = b"".join(json.dumps(each, ensure_ascii=True).encode() + b"\n" for each in lines)


def _timed(rng: Random, found: Any) -> None:
    """Put another time, or number, in place of one."""
    places = list(_leaves(found, int))
    if places:
        holder, name = rng.choice([each for each in places if str(each[1]).endswith(("_at", "_ms", "at"))] or places)
        holder[name] = rng.choice(TIMES)


def _worded(rng: Random, found: Any) -> None:
    """Put another text in place of one."""
    places = list(_leaves(found, str))
    if places:
        holder, name = rng.choice([each for each in places if each[1] in ("text", "name", "value")] or places)
        holder[name] = texts.text(rng, lone=rng.random() < 0.3)


def _leaves(found: Any, kind: type) -> Any:
    pairs = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for name, each in list(pairs):
        if isinstance(each, kind) and not isinstance(each, bool):
            yield found, name
        yield from _leaves(each, kind)
