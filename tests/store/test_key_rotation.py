"""A new key for the vault: all secrets are sealed with it, the old one opens nothing, wherever it is interrupted."""

import os
import sys
import threading
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import trio
from cryptography.fernet import Fernet, InvalidToken

from daycare.base.errors import BrokenError
from daycare.features import open_store
from daycare.store import rotation, vault
from daycare.store.rotation import rotate_key
from daycare.store.sqlite import people
from daycare.store.vault import open_vault
from tests.chance import sliced

SECRETS = {"openai": "sk-one", "telegram": "1:two", "bridge.signal": "three"}
STEPS = 400  # more lines than a rotation has


async def _plant(home: Path) -> None:
    ours = open_vault(home / "daycare.key")
    async with open_store(str(home / "daycare.db")) as store:
        for name, value in SECRETS.items():
            await store.secrets.put(name, "ann", ours.seal(value))


async def _rotate(home: Path) -> int:
    async with open_store(str(home / "daycare.db")) as store:
        return await rotate_key(open_vault(home / "daycare.key"), store.secrets)


async def _tokens(home: Path) -> dict[str, bytes]:
    async with open_store(str(home / "daycare.db")) as store:
        return {name: token for name, _ in await store.secrets.find() if (token := store.secrets.get(name))}


def _opened(home: Path) -> dict[str, str]:
    ours = open_vault(home / "daycare.key")
    return {name: ours.open(token) for name, token in trio.run(_tokens, home).items()}


def _lines(home: Path) -> list[str]:
    return (home / "daycare.key").read_text().split()


def _killed_at(home: Path, step: int) -> bool:
    """Rotate in a process that dies before its n-th line of what a rotation is made of; return whether it did."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    watched = {rotation.__file__, vault.__file__, people.__file__}
    counted = count(1)

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in watched:
            return None
        if event == "line" and next(counted) == step:
            os._exit(9)
        return trace

    try:
        threading.settrace(trace)
        sys.settrace(trace)
        trio.run(_rotate, home)
    finally:
        os._exit(0)


def test_every_secret_is_sealed_again_and_the_old_key_opens_none(tmp_path: Path) -> None:
    trio.run(_plant, tmp_path)
    [old] = _lines(tmp_path)
    assert trio.run(_rotate, tmp_path) == len(SECRETS)
    [new] = _lines(tmp_path)
    assert new != old
    assert _opened(tmp_path) == SECRETS
    for token in trio.run(_tokens, tmp_path).values():
        with pytest.raises(InvalidToken):
            Fernet(old).decrypt(token)


def test_a_kill_at_any_line_loses_no_secret_and_the_next_rotation_completes_it(tmp_path: Path) -> None:
    steps = []
    for step in sliced(range(1, STEPS), 4):
        home = tmp_path / str(step)
        home.mkdir()
        trio.run(_plant, home)
        [old] = _lines(home)
        if not _killed_at(home, step):
            break
        steps.append(step)
        assert _opened(home) == SECRETS, step
        trio.run(_rotate, home)
        assert _opened(home) == SECRETS, step
        assert len(_lines(home)) == 1 and old not in _lines(home), step
    assert len(steps) >= 10 and steps[-1] < STEPS - 10


def test_a_secret_that_no_key_opens_changes_nothing(tmp_path: Path) -> None:
    trio.run(_plant, tmp_path)
    before = trio.run(_tokens, tmp_path)

    async def broken() -> None:
        async with open_store(str(tmp_path / "daycare.db")) as store:
            await store.secrets.put("other", "ann", Fernet(Fernet.generate_key()).encrypt(b"x"))
            with pytest.raises(BrokenError, match="sealed with none"):
                await rotate_key(open_vault(tmp_path / "daycare.key"), store.secrets)

    trio.run(broken)
    after = trio.run(_tokens, tmp_path)
    assert {name: after[name] for name in before} == before
