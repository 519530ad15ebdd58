"""What operators do with webhooks: make one, give it another secret, look at them, remove one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.base.clock import Clock
from daycare.base.errors import ForbiddenError, InvalidError, NotFoundError
from daycare.base.events import WebhookAdded, WebhookChanged, WebhookRemoved, WebhookRotated
from daycare.base.path import PEOPLES, check_name
from daycare.base.signal import check_type
from daycare.features.hooks.records import HOOK_OLDER_HOURS, HookNews, HookScheme, InboundHook
from daycare.features.hooks.rows import HookRows
from daycare.features.hooks.schemes import check_secret, new_secret
from daycare.features.hooks.template import check_template
from daycare.observe.bus import Bus
from daycare.store.records import Commit
from daycare.store.sqlite.store import Store
from daycare.store.vault import Vault

HOOK_EVENTS_MAX: Final = 50
HOOK_INSTRUCTION_MAX_CHARS: Final = 2_000

_HOUR_MS: Final = 3_600_000
_is_event: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}").fullmatch


@dataclass(frozen=True)
class Webhooks:
    """Does it; `owner` is whose signals are sent if nobody else is named."""

    store: Store
    directory: Directory
    vault: Vault
    bus: Bus
    clock: Clock
    owner: str

    @property
    def rows(self) -> HookRows:
        """Where webhooks are kept."""
        return self.store.of(HookRows)

    async def add(self, wish: InboundHook, secret: str = "") -> tuple[InboundHook, str]:
        """Make a webhook and return it with its secret, a new one unless its sender has given one.

        Of the wish its number, times and counts are ignored; no user: whose agent it is, else the operator. Raises
        `InvalidError`, `NotFoundError` for no such agent or user, `ForbiddenError` for agents that do not last,
        `ConflictError`, `BusyError`.
        """
        check_name(wish.name, "name of a webhook")
        made = await self._checked(wish)
        text = check_secret(wish.scheme, secret) if secret else new_secret(wish.scheme)
        return await self.rows.add(made, text, self.vault.seal), text

    async def edit(self, name: str, secret: str | None = None, /, **changes: Any) -> tuple[InboundHook, str]:
        """Change fields of a webhook and return it with its secret, if that is another one: None keeps it, empty makes
        one. The earlier one is good for a day, unless its sender signs otherwise from now on.

        Raises as `add` does, `InvalidError` HOOK_SECRET for a scheme that the secret does not fit, and `ConflictError`
        HOOK_CHANGED.
        """
        before = await self.get(name)
        wish = replace(before, **changes)
        if changes.get("path"):
            wish = replace(wish, signal=changes.get("signal", ""), user=changes.get("user", ""))
        elif changes.get("signal"):
            wish = replace(wish, path=changes.get("path", ""))
        after = await self._checked(wish)
        if secret is None:
            await self._check_scheme(before, after.scheme)
            return await self.rows.edit(before, after, self.vault.seal), ""
        text = check_secret(after.scheme, secret) if secret else new_secret(after.scheme)
        until = self.clock.now_ms() + HOOK_OLDER_HOURS * _HOUR_MS if after.scheme is before.scheme else None
        return await self.rows.edit(before, after, self.vault.seal, text, until), text

    async def rotate(self, name: str, overlap_hours: int, secret: str = "") -> tuple[InboundHook, str]:
        """Give a webhook another secret and return it; the earlier one is good for so many hours more."""
        hook = await self.get(name)
        text = check_secret(hook.scheme, secret) if secret else new_secret(hook.scheme)
        until = self.clock.now_ms() + overlap_hours * _HOUR_MS if overlap_hours else None
        return await self.rows.rotate(name, text, self.vault.seal, until), text

    async def get(self, name: str) -> InboundHook:
        """Return a webhook. Raises `NotFoundError`."""
        found = await self.rows.get(name)
        if found is None:
            raise NotFoundError(
                "HOOK_UNKNOWN", f"looking up the webhook {name[:80]!a}: there is none", hint="daycare hooks list"
            )
        return found

    def committed(self, commit: Commit) -> None:
        """Let observers know of webhooks that a commit has changed."""
        news = commit.news_of(HookNews)
        now_ms = self.clock.now_ms()
        for done, hook in news.done if news is not None else ():
            match done:
                case "added":
                    event = WebhookAdded(
                        at_ms=now_ms, path=hook.path, user=hook.user, webhook=hook.name, signal=hook.signal
                    )
                    self.bus.publish(event)
                case "changed":
                    self.bus.publish(
                        WebhookChanged(
                            at_ms=now_ms, path=hook.path, user=hook.user, webhook=hook.name, signal=hook.signal
                        )
                    )
                case "rotated":
                    until = hook.older_until or 0
                    self.bus.publish(
                        WebhookRotated(
                            at_ms=now_ms, path=hook.path, user=hook.user, webhook=hook.name, older_until=until
                        )
                    )
                case "removed":
                    self.bus.publish(WebhookRemoved(at_ms=now_ms, path=hook.path, user=hook.user, webhook=hook.name))

    async def _check_scheme(self, hook: InboundHook, scheme: HookScheme) -> None:
        """Raise `InvalidError` HOOK_SECRET if the secret of a webhook is none for that scheme."""
        token, _ = await self.rows.secrets(hook.name)
        if scheme is hook.scheme or token is None:
            return
        try:
            check_secret(scheme, self.vault.open(token))
        except InvalidError as error:
            raise InvalidError(
                error.code,
                f"changing the webhook {hook.name} to {scheme}: its secret does not fit",
                hint=f"daycare hooks edit {hook.name} --scheme {scheme} --new-secret",
            ) from None

    async def _checked(self, wish: InboundHook) -> InboundHook:
        """Return what a webhook is to be, with whose it is."""
        check_template(wish.template)
        check_events(wish.events)
        if bool(wish.path) == bool(wish.signal):
            raise InvalidError(
                "HOOK_TARGET",
                f"setting up the webhook {wish.name}: expected either an agent or a signal that it goes to",
                hint=f"daycare hooks add {wish.name} --to PATH",
            )
        if len(wish.instruction) > HOOK_INSTRUCTION_MAX_CHARS or (wish.instruction and wish.signal):
            raise InvalidError(
                "HOOK_INSTRUCTION",
                f"setting up the webhook {wish.name}: an instruction has {HOOK_INSTRUCTION_MAX_CHARS} characters at"
                " most, and is for an agent",
                hint="write the rest into a document of that agent",
            )
        return replace(wish, user=await self._user_of(wish))

    async def _user_of(self, wish: InboundHook) -> str:
        if wish.path:
            agent = await self.directory.at(wish.path)
            if wish.user and agent.user != wish.user:
                raise NotFoundError(
                    "AGENT_UNKNOWN",
                    f"setting up the webhook {wish.name}: {wish.user} has no agent at {wish.path}",
                    hint=f"daycare agents --user {wish.user}",
                )
            if agent.kind not in PEOPLES:
                raise ForbiddenError(
                    "HOOK_RECIPIENT",
                    f"setting up the webhook {wish.name}: {wish.path} is a {agent.kind}, which does not last or runs by"
                    " itself",
                    hint="name the agent that people talk with, or a permanent one",
                )
            return agent.user
        check_type(wish.signal)
        user = wish.user or self.owner
        if await self.store.people.get(user) is None:
            raise NotFoundError(
                "USER_UNKNOWN", f"setting up the webhook {wish.name}: no user {user}", hint="daycare users"
            )
        return user


def check_events(events: Sequence[str]) -> None:
    """Raise `InvalidError` HOOK_EVENTS for what names no events."""
    wrong = next((each for each in events if not _is_event(each)), None)
    if wrong is not None or len(events) > HOOK_EVENTS_MAX:
        what = (
            f"{wrong[:80]!a} is not a name of one"
            if wrong is not None
            else f"{len(events)} names, {HOOK_EVENTS_MAX} at most"
        )
        raise InvalidError("HOOK_EVENTS", f"reading which events a webhook takes: {what}", hint="push,issues.opened")


def is_wanted(events: Sequence[str], event: str) -> bool:
    """Return whether a webhook takes an event: all of them without names; `issues` names `issues.opened`, too."""
    return not events or any(event == each or event.startswith(f"{each}.") for each in events)
