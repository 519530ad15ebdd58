"""Settings of agents that come in: without rights, and without what this installation does not have."""

from collections.abc import Callable

from msgspec.structs import replace

from daycare.base.consent import Consent
from daycare.base.errors import InvalidError, NotFoundError
from daycare.features.exports.records import LeftOut
from daycare.store.records import AgentConfig


class SettingsFilter:
    """What `check`, which raises for what there is not, takes of them."""

    def __init__(self, check: Callable[[AgentConfig], None]) -> None:
        self._check = check
        self.left: dict[tuple[str, str], int] = {}

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What was not taken."""
        return tuple(LeftOut(what=what, count=count, why=why) for (what, why), count in self.left.items())

    def fit(self, config: AgentConfig) -> AgentConfig:
        """Return settings as they can be here. Raises what `check` raises for rules: without them it may do more."""
        if config.approvals is Consent.AUTO:
            self.leave("setting `approvals`", "a person chooses what is done without asking them")
            config = replace(config, approvals=None)
        if config.heartbeat_s:
            self.leave("setting `heartbeat_s`", "what spends by itself is switched on where it is paid")
        config = replace(config, heartbeat_s=0)
        if config.workspace:
            self.leave("setting `workspace`", "its files are on another machine: the operator names a folder")
        config = replace(config, workspace="", access=None)
        try:
            self._check(config)
        except (InvalidError, NotFoundError) as error:
            without = replace(config, personality="")
            self._check(without)
            self.leave("setting `personality`", error.message)
            config = without
        return config

    def leave(self, what: str, why: str) -> None:
        """Count what was not taken."""
        self.left[what, why] = self.left.get((what, why), 0) + 1
