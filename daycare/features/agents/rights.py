"""What an agent may give one that it makes: no more than it has itself, and only what there is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from daycare.actors.permission_checks import PermissionChecks
from daycare.base.consent import Consent
from daycare.base.errors import ForbiddenError
from daycare.base.path import Kind, Path
from daycare.features.budgets.service import Budgets
from daycare.inference.pool import Pool
from daycare.store.records import Agent, AgentConfig
from daycare.store.sqlite.people import PeopleStore

_MAKERS: Final = (Kind.CONNECTOR, Kind.AGENT, Kind.SUBUSER)  # what lasts itself, and people talk with


class WantedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent may say of another one; None leaves it as it is. A `template` only counts for a new one."""

    template: str = ""
    prompt: str | None = None
    description: str | None = None
    model: str | None = None
    personality: str | None = None


@dataclass(frozen=True)
class AgentGranting:
    """Decides it. `check` raises for settings there are not."""

    people: PeopleStore
    permissions: PermissionChecks
    budgets: Budgets
    pool: Pool
    check: Callable[[AgentConfig], None]

    async def bounds(self, maker: Agent, path: Path, allowed: Sequence[str]) -> AgentConfig:
        """Return settings that bind an agent at `path` as its maker is bound. Raises where no settings can do that."""
        if maker.kind not in _MAKERS:
            raise ForbiddenError(
                "AGENT_MAKER",
                f"creating {path}: a {maker.kind} makes and changes no permanent agents",
                hint="use spawn, or let the agent do it that the user talks with",
            )
        if rule := self.permissions.unlike(Path.stored(maker.path, Kind(maker.kind)), path):
            raise bound(str(path), f"{rule} is about one of the two only")
        if maker.kind != Kind.SUBUSER and maker.path in await self.budgets.rows():
            raise bound(str(path), f"{maker.path} has a budget of its own, and it would spend in addition to that")
        tools = None if maker.config.tools is None else tuple(allowed)
        approvals = None if maker.config.approvals is Consent.AUTO else maker.config.approvals  # a right of one alone
        own = maker.config
        return AgentConfig(
            tools=tools,
            permissions=own.permissions,
            approvals=approvals,
            workspace=own.workspace,
            access=own.access,
        )

    async def settings(self, config: AgentConfig, wanted: WantedSettings, user: str) -> AgentConfig:
        """Return settings as they are wished for. Raises for what there is not, or is not for this user to choose."""
        wished = {
            "system_prompt": wanted.prompt,
            "description": wanted.description,
            "model": wanted.model,
            "personality": wanted.personality,
        }
        fields: dict[str, Any] = {name: value for name, value in wished.items() if value is not None}
        config = replace(config, **fields)
        if wanted.model:
            person = await self.people.get(user)
            if person is None or not person.operator:
                raise ForbiddenError("OPERATOR_ONLY", f"choosing {wanted.model}: only an operator chooses models")
            await self.pool.plan(None, wanted.model)  # refuses a provider that cannot be asked
        self.check(config)
        return config


def bound(path: str, why: str) -> ForbiddenError:
    """Return the refusal of an agent that would be freer than its maker."""
    return ForbiddenError(
        "AGENT_BOUND", f"{path}: it would not be as bound as its maker: {why}", hint="let the user create it"
    )
