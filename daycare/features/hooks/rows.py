"""Webhooks in the store. What one brings is committed together with the count of it, once for each delivery."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import msgspec

from daycare.base.errors import BusyError, ConflictError, NotFoundError
from daycare.base.messages import Envelope
from daycare.features.hooks.records import HookAnswer, HookNews, HookScheme, InboundHook
from daycare.features.signals import lives
from daycare.features.signals.records import NewSignal
from daycare.store.records import Receipt
from daycare.store.sqlite import inbox
from daycare.store.sqlite.database import count
from daycare.store.sqlite.facts import Follower, Heed, UserLeaving
from daycare.store.sqlite.people import drop_secret, put_secret
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.sql import Select, insert_into
from daycare.store.sqlite.writer import Tx

HOOKS_MAX: Final = 200  # of all users; each is one sender

Seal = Callable[[str], bytes]

_COLUMNS: Final = (
    "no, name, user, scheme, path, signal, events, template, instruction, created_at, older_until, accepted, repeated,"
    " ignored, refused, accepted_at, accepted_event, refused_at, refused_why"
)
_NAMES: Final = tuple(name.strip() for name in _COLUMNS.split(","))
_encode = msgspec.json.Encoder().encode
_decode_events = msgspec.json.Decoder(tuple[str, ...]).decode


class HookFollower(Follower):
    """Webhooks of those who leave go."""

    def heeds(self) -> Mapping[type, Heed]:
        """Follow users."""
        return {UserLeaving: _left}


class HookRows(Rows):
    """All of them. Secrets come in plain and are sealed in the transaction that stores them: so a change of the
    vault's key never leaves one behind."""

    tables: ClassVar = (
        Table(
            "webhooks",
            called="webhooks",
            why="their senders deliver here: make them again there, with new secrets",
            what="webhooks",
            query="SELECT count(*) FROM webhooks w JOIN agents a ON a.path = w.path"
            " WHERE a.id IN (SELECT id FROM exported)",
            number="no",
        ),
    )
    followers: ClassVar = (HookFollower,)

    async def add(self, hook: InboundHook, secret: str, seal: Seal) -> InboundHook:
        """Add a webhook. Raises `ConflictError` HOOK_KNOWN for a name that is taken, `BusyError` HOOKS_MAX."""

        def run(tx: Tx) -> InboundHook:
            if count(tx.db, "SELECT count(*) FROM webhooks") >= HOOKS_MAX:
                raise BusyError(
                    "HOOKS_MAX", f"adding the webhook {hook.name}: there are {HOOKS_MAX}", hint="daycare hooks rm NAME"
                )
            if _HOOKS.one(tx.db, "name = ?", (hook.name,)) is not None:
                raise ConflictError(
                    "HOOK_KNOWN",
                    f"adding the webhook {hook.name}: there is one of that name",
                    hint=f"daycare hooks rm {hook.name}, or choose another name",
                )
            tx.run(
                insert_into("webhooks", (*_SETTINGS, "name", "origin", "created_at")),
                (*_settings(hook), hook.name, "person", tx.now),
            )
            put_secret(tx, _secret(hook.name), hook.user, seal(secret))
            made = _must_get(tx, hook.name)
            tx.commit.add(HookNews).done.append(("added", made))
            return made

        return await self._write(run)

    async def edit(
        self, before: InboundHook, after: InboundHook, seal: Seal, secret: str = "", older_until: int | None = None
    ) -> InboundHook:
        """Let a webhook be what `after` says; its counts stay, and its secret unless there is another one.

        The one that it has opens it until `older_until` then, None: not any more. An earlier one goes with the scheme
        that it was made for. Raises `NotFoundError` HOOK_UNKNOWN, `ConflictError` HOOK_CHANGED where a webhook is not
        `before` any more.
        """

        def run(tx: Tx) -> InboundHook:
            old, new = _settings(before), _settings(after)
            if _settings(_must_get(tx, before.name)) != old:
                raise ConflictError(
                    "HOOK_CHANGED",
                    f"changing the webhook {before.name}: somebody else has changed it just now",
                    hint=f"daycare hooks show {before.name}",
                )
            news = tx.commit.add(HookNews).done
            tx.run(
                f"UPDATE webhooks SET {', '.join(f'{name} = ?' for name in _SETTINGS)} WHERE no = ?",
                (*new, before.no),
            )
            if secret:
                _renew(tx, after, seal(secret), older_until)
            elif after.scheme is not before.scheme:
                drop_secret(tx, _older(before.name))
                tx.run("UPDATE webhooks SET older_until = NULL WHERE no = ?", (before.no,))
            changed = _must_get(tx, before.name)
            if old != new:
                news.append(("changed", changed))
            if secret:
                news.append(("rotated", changed))
            return changed

        return await self._write(run)

    async def rotate(self, name: str, secret: str, seal: Seal, older_until: int | None) -> InboundHook:
        """Give a webhook another secret; the one it has opens it until then, None: not any more."""

        def run(tx: Tx) -> InboundHook:
            _renew(tx, _must_get(tx, name), seal(secret), older_until)
            rotated = _must_get(tx, name)
            tx.commit.add(HookNews).done.append(("rotated", rotated))
            return rotated

        return await self._write(run)

    async def remove(self, name: str) -> InboundHook:
        """Remove a webhook with its secrets. Raises `NotFoundError` HOOK_UNKNOWN."""

        def run(tx: Tx) -> InboundHook:
            hook = _must_get(tx, name)
            _remove(tx, hook)
            return hook

        return await self._write(run)

    async def find(self, user: str | None = None) -> list[InboundHook]:
        """Return webhooks by name, one user's or all."""
        return _HOOKS.find(self._reader, "?1 IS NULL OR user = ?1 ORDER BY name", (user,))

    async def get(self, name: str) -> InboundHook | None:
        """Return a webhook."""
        return _HOOKS.one(self._reader, "name = ?", (name,))

    async def secrets(self, name: str) -> tuple[bytes | None, bytes | None]:
        """Return what is sealed of a webhook: its secret, and the one before it."""
        return _token(self._reader, _secret(name)), _token(self._reader, _older(name))

    async def take(
        self, hook: InboundHook, what: Envelope | NewSignal, event: str
    ) -> tuple[HookAnswer, Receipt | None]:
        """Commit what a webhook brought, and count it; a repeat finds what it was the first time.

        Raises as `store.inbox.post` and `lives.send`, and `NotFoundError` for a webhook that was removed meanwhile.
        """

        def run(tx: Tx) -> tuple[HookAnswer, Receipt | None]:
            _must_get(tx, hook.name)
            receipt = inbox.post(tx, what) if isinstance(what, Envelope) else None
            if isinstance(what, NewSignal):
                sent = lives.send(tx, what)
                repeated = sent.trace != what.trace
                answer = HookAnswer(state="repeated" if repeated else "accepted", signal=sent.no)
            else:
                assert receipt is not None
                answer = HookAnswer(state="repeated" if receipt.duplicate else "accepted", message=receipt.seq)
            if answer.state == "repeated":
                tx.run("UPDATE webhooks SET repeated = repeated + 1 WHERE no = ?", (hook.no,))
            else:
                tx.run(
                    "UPDATE webhooks SET accepted = accepted + 1, accepted_at = ?, accepted_event = ? WHERE no = ?",
                    (tx.now, event, hook.no),
                )
            return answer, receipt

        size = len(what.text if isinstance(what, Envelope) else what.data)
        return await self._write(run, size)

    async def ignored(self, no: int) -> None:
        """Count a delivery of which nothing is kept."""
        await self._write(lambda tx: tx.run("UPDATE webhooks SET ignored = ignored + 1 WHERE no = ?", (no,)))

    async def refused(self, no: int, many: int, at_ms: int, why: str) -> None:
        """Count deliveries that were refused, the last of them then and for that reason."""
        await self._write(
            lambda tx: tx.run(
                "UPDATE webhooks SET refused = refused + ?1, refused_at = ?2, refused_why = ?3 WHERE no = ?4",
                (many, at_ms, why, no),
            )
        )

    async def expire(self, now_ms: int) -> int:
        """Delete earlier secrets that open nothing any more; return how many."""

        def run(tx: Tx) -> int:
            over = _HOOKS.find(tx.db, "older_until <= ?", (now_ms,))
            for hook in over:
                drop_secret(tx, _older(hook.name))
                tx.run("UPDATE webhooks SET older_until = NULL WHERE no = ?", (hook.no,))
            return len(over)

        return await self._write(run)


_SETTINGS: Final = ("user", "scheme", "path", "signal", "events", "template", "instruction")


def _settings(hook: InboundHook) -> tuple[str, ...]:
    """Return what people have said of a webhook, in the columns `_SETTINGS`."""
    events = _encode(hook.events).decode()
    return hook.user, str(hook.scheme), hook.path, hook.signal, events, hook.template, hook.instruction


def _renew(tx: Tx, hook: InboundHook, token: bytes, older_until: int | None) -> None:
    drop_secret(tx, _older(hook.name))
    if older_until is not None and (older := _token(tx.db, _secret(hook.name))) is not None:
        put_secret(tx, _older(hook.name), hook.user, older)
    put_secret(tx, _secret(hook.name), hook.user, token)
    tx.run("UPDATE webhooks SET older_until = ? WHERE no = ?", (older_until, hook.no))


def _left(tx: Tx, it: UserLeaving) -> None:
    for hook in _HOOKS.find(tx.db, "user = ?", (it.user,)):
        _remove(tx, hook)


def _remove(tx: Tx, hook: InboundHook) -> None:
    tx.run("DELETE FROM webhooks WHERE no = ?", (hook.no,))
    drop_secret(tx, _secret(hook.name))
    drop_secret(tx, _older(hook.name))
    tx.commit.add(HookNews).done.append(("removed", hook))


def _must_get(tx: Tx, name: str) -> InboundHook:
    hook = _HOOKS.one(tx.db, "name = ?", (name,))
    if hook is None:
        raise NotFoundError(
            "HOOK_UNKNOWN", f"looking up the webhook {name[:80]!a}: there is none", hint="daycare hooks list"
        )
    return hook


def _token(db: Any, name: str) -> bytes | None:
    row = db.execute("SELECT token FROM secrets WHERE name = ?", (name,)).fetchone()
    return bytes(row[0]) if row else None


def _secret(name: str) -> str:
    return f"webhook:{name}"


def _older(name: str) -> str:
    return f"webhook:{name}:older"


def _hook(row: tuple[Any, ...]) -> InboundHook:
    values = dict(zip(_NAMES, row, strict=True))
    values |= {"scheme": HookScheme(values["scheme"]), "events": _decode_events(values["events"])}
    return InboundHook(**values)


_HOOKS: Final = Select(_COLUMNS, "webhooks", _hook)
