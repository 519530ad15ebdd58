"""Trying a model's key and a connector's credentials with one cheap call each, without a daemon.

Secrets are read from the home's database beside a daemon that may be running, unless they are handed in.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import trio

from daycare.base.error_boundary import error_boundary
from daycare.base.errors import BrokenError, InvalidError, NotFoundError, UnavailableError
from daycare.base.setup import SetupStep, Verified
from daycare.config import Config, plugin_settings
from daycare.inference.configured import sources
from daycare.inference.pool import Pool
from daycare.observe.redact import hide
from daycare.plugin import Plugin
from daycare.plugins.checked import held
from daycare.plugins.discovery import discover
from daycare.store.home import Home
from daycare.store.looking import tokens_in
from daycare.store.vault import open_vault

PROBE_S: Final = 30.0  # a paid model says its first word within a few seconds
LIST_S: Final = 5.0
CLOSE_S: Final = 2.0


class StoredSecrets:
    """The secrets of a home, and those handed in, which come before them. Reads the database once, when asked first."""

    def __init__(self, home: Path, config: Config, given: Mapping[str, str] | None = None) -> None:
        self._home = Home(home)
        self._location = self._home.database(config.store.location)
        self._given = {name.encode(): value for name, value in (given or {}).items()}
        self._tokens: dict[str, bytes] | None = None

    def get(self, name: str) -> bytes | None:
        """Return a secret as it is stored, or what stands for one that was handed in."""
        if name.encode() in self._given:
            return name.encode()
        if self._tokens is None:
            self._tokens = tokens_in(self._location)
        return self._tokens.get(name)

    def open(self, token: bytes) -> str:
        """Return what a token of `get` holds. Raises `BrokenError` as a vault does."""
        value = self._given.get(token)
        if value is None:
            if not self._home.key_file.exists():  # opening a vault would make one
                raise BrokenError(
                    "KEY_FILE_UNUSABLE",
                    f"using the key file {self._home.key_file}: it does not exist",
                    hint="restore it from your backup",
                )
            value = open_vault(self._home.key_file).open(token)
        hide(value)
        return value

    def value(self, name: str) -> str | None:
        """Return a secret, None if there is none."""
        token = self.get(name)
        return None if token is None else self.open(token)


async def probe_model(
    config: Config, home: Path, model: str, key: str | None = None, *, deadline_s: float = PROBE_S
) -> None:
    """Make one cheap call (16 tokens, no retry) of a model, and return when it has answered.

    `model` is PROVIDER/MODEL as in `[models]`; a name without prefix is looked for as the daemon does. `key` is tried
    instead of the stored secret of that provider. Nothing is written and no budget is charged; it works beside a
    running daemon, too. Raises a `DaycareError` without secrets in it: `ForbiddenError` for a key that is refused,
    `SetupError` for a model or provider that there is not, or that has no key (PROVIDER_NOT_CONFIGURED),
    `UnavailableError` for one that cannot be reached or has not answered within `deadline_s` (PROBE_LATE),
    `BrokenError` for a configuration or key file that has to be repaired. To be called under trio.
    """
    with trio.move_on_after(deadline_s):
        async with _pool(config, home, model.partition("/")[0], key) as pool:
            await pool.probe(model)
        return
    raise UnavailableError("PROBE_LATE", f"calling {model}: no answer within {deadline_s:g} s")


async def list_models(config: Config, home: Path, provider: str, key: str | None = None) -> list[str]:
    """Return the models that a provider says it has, without prefix; costs nothing and takes 5 s at most.

    `key` is as in `probe_model`. Raises a `DaycareError` when it does not say, also without a key where it needs one.
    """
    with trio.move_on_after(LIST_S):
        async with _pool(config, home, provider, key) as pool:
            return await pool.ask(provider)
    raise UnavailableError("MODELS_SILENT", f"asking {provider} for its models: no answer within {LIST_S:g} s")


async def probe_connector(
    config: Config,
    home: Path,
    connector: str,
    secrets: Mapping[str, str] | None = None,
    *,
    deadline_s: float = PROBE_S,
) -> Verified:
    """Try a connector's credentials with one call that changes nothing on its platform; return who it takes us for.

    `connector` is a name as in `daycare status`: `telegram`, `telegram-family`, `whatsapp-cloud`; `connectors_in_use`
    has those worth trying. `secrets` are tried before stored ones of the same name (`telegram`, `telegram.family`).
    Safe beside a daemon that receives on the same account. Raises a `DaycareError` without secrets in it:
    `NotFoundError` CONNECTOR_UNKNOWN for one that is not in use or whose credentials only the running connector can
    try, `ForbiddenError` (a few platforms: `AwayError`) for credentials that are refused, `UnavailableError` where
    nobody could be asked, or not within `deadline_s` (PROBE_LATE), `BrokenError` for a key file that has to be
    repaired. To be called under trio.
    """
    found = StoredSecrets(home, config, secrets)
    for plugin, step, settings, names in _in_use(config, home, found):
        if step.check is None or connector not in names:
            continue
        with trio.move_on_after(deadline_s):
            with error_boundary("PROBE_FAILED", f"trying {connector} of the plugin {plugin.name}"):
                return await step.check(connector, settings, found.value)
        raise UnavailableError("PROBE_LATE", f"trying {connector}: no answer within {deadline_s:g} s")
    raise NotFoundError(
        "CONNECTOR_UNKNOWN",
        f"trying {connector}: no connector of that name has credentials to try",
        hint="daycare init",
    )


def connectors_in_use(config: Config, home: Path) -> list[str]:
    """Return the connectors whose credentials `probe_connector` can try, by what is set and stored."""
    found = StoredSecrets(home, config)
    return [name for _, step, _, names in _in_use(config, home, found) if step.check is not None for name in names]


def plugins_of(config: Config) -> list[Plugin]:
    """Return the plugins that can be used, as a daemon would find them; those with problems are for `doctor`."""
    found = discover(config.plugins.load, config.plugins.disable)
    return [held(one.plugin) for one in found if one.plugin is not None]


def _in_use(
    config: Config, home: Path, secrets: StoredSecrets
) -> Iterator[tuple[Plugin, SetupStep, Any, Sequence[str]]]:
    """Yield plugins with their settings and connectors in use; those with mistakes are told of by `plugins list`."""
    for plugin in plugins_of(config):
        if plugin.wizard is None:
            continue
        try:
            settings = None if plugin.config is None else plugin_settings(home, config, plugin.name, plugin.config)
            with error_boundary("PLUGIN_FAILED", f"asking the plugin {plugin.name}"):
                names = plugin.wizard.connectors(settings, secrets.value)
        except (InvalidError, UnavailableError):
            continue
        yield plugin, plugin.wizard, settings, names


@asynccontextmanager
async def _pool(config: Config, home: Path, provider: str, key: str | None) -> AsyncIterator[Pool]:
    """Give the providers of a configuration, with a key of one of them that is perhaps not stored yet."""
    section = config.providers.get(provider)
    name = (section.key if section is not None else "") or provider
    secrets = StoredSecrets(home, config, None if key is None else {name: key})
    pool = Pool(sources(config, plugins_of(config), secrets, secrets), config.models.by_role())
    try:
        yield pool
    finally:
        with trio.move_on_after(CLOSE_S, shield=True):
            await pool.aclose()
