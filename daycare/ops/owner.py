"""Whose installation it is: the operator that the settings name, or the only one there is."""

from daycare.base.errors import BrokenError
from daycare.config import Config
from daycare.store.sqlite.store import Store


async def owner_of(store: Store, config: Config) -> str:
    """Return the operator's user id. Raises `BrokenError` OPERATOR_UNKNOWN, NO_OPERATOR."""
    operators = [user.id for user in await store.people.operators()]
    if config.agent.operator:
        if config.agent.operator not in operators:
            raise BrokenError(
                "OPERATOR_UNKNOWN",
                f"config.toml: agent.operator: {config.agent.operator} is no operator of this installation",
                hint=f"use one of: {', '.join(operators) or 'none yet, run daycare init'}",
            )
        return config.agent.operator
    if not operators:
        raise BrokenError("NO_OPERATOR", "this home has no operator yet", hint="daycare init")
    return operators[0]
