"""From [providers] of config.toml, and the keys that are stored, to the providers there are."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from daycare.base.errors import BrokenError, InvalidError
from daycare.config import WELL_KNOWN, Config, ProviderSection
from daycare.inference.sources import ProviderSource, vendor_at
from daycare.observe.redact import hide
from daycare.plugin import Embedder, Plugin, ProviderConfig

if TYPE_CHECKING:
    from daycare.inference.audio import AudioServer


class Tokens(Protocol):
    """Finds stored secrets, encrypted: as `Secrets`."""

    def get(self, name: str) -> bytes | None:
        """Return one."""


class Opener(Protocol):
    """Decrypts them: a `Vault`."""

    def open(self, token: bytes) -> str:
        """Return what was stored."""


def sources(config: Config, plugins: Sequence[Plugin], secrets: Tokens, vault: Opener) -> dict[str, ProviderSource]:
    """Return the providers of config.toml in its order, then those that a key alone adds.

    Keys are looked up at each call. Raises `BrokenError` for a kind that no plugin provides.
    """
    kinds = {kind: make for plugin in plugins for kind, make in plugin.providers.items()}
    sections = dict(config.providers)
    for name, kind in WELL_KNOWN.items():
        if kind in kinds:
            sections.setdefault(name, ProviderSection(kind=kind, key=name))
    found: dict[str, ProviderSource] = {}
    embedding = {kind for plugin in plugins for kind in plugin.embedders}
    for name, section in sections.items():
        if section.kind in embedding - kinds.keys():
            continue  # it makes vectors and no words
        if section.kind not in kinds:
            raise BrokenError(
                "PROVIDER_KIND_UNKNOWN",
                f"config.toml: providers.{name}.kind: no plugin provides {section.kind}",
                hint=f"use one of: {', '.join(sorted(kinds))}",
            )
        key = section.key or name

        def has_key(key: str = key) -> bool:
            return secrets.get(key) is not None

        provider = kinds[section.kind](
            ProviderConfig(
                name=name,
                kind=section.kind,
                base_url=section.base_url,
                secret=_secret(key, secrets, vault),
                options=section.options,
            )
        )
        found[name] = ProviderSource(
            name,
            provider,
            key=key,
            has_key=has_key,
            given=name in config.providers,
            vendor=vendor_at(name, section.kind, section.base_url),
            corrections={model: known.known() for model, known in section.models.items()},
        )
    return found


def embedder(config: Config, plugins: Sequence[Plugin], secrets: Tokens, vault: Opener) -> tuple[Embedder, str]:
    """Return the embedder that `memory.embedder` names as PROVIDER/MODEL, and its model.

    Raises `BrokenError` for a provider whose kind makes no vectors.
    """
    kinds = {kind: make for plugin in plugins for kind, make in plugin.embedders.items()}
    name, _, model = config.memory.embedder.partition("/")
    section = config.providers.get(name) or ProviderSection(kind=WELL_KNOWN.get(name, ""), key=name)
    if section.kind not in kinds:
        raise BrokenError(
            "EMBEDDER_KIND_UNKNOWN",
            f"config.toml: memory.embedder: {name} makes no vectors",
            hint=f'use "none", "local", "dir", or a provider of one of the kinds {", ".join(sorted(kinds))}',
        )
    key = _secret(section.key or name, secrets, vault)
    made = kinds[section.kind](
        ProviderConfig(name=name, kind=section.kind, base_url=section.base_url, secret=key, options=section.options)
    )
    return made, model


def audio(config: Config, provider: str, secrets: Tokens, vault: Opener) -> "AudioServer":
    """Return the server of `[providers.NAME]` for hearing and speaking.

    Raises `InvalidError` VOICE_PROVIDER for one that speaks another protocol than OpenAI's, or that has no section.
    """
    from daycare.inference.audio import AudioServer  # late: most daemons neither hear nor speak
    from daycare.inference.chat import KIND
    from daycare.inference.openai import KNOWN_URLS

    section = config.providers.get(provider) or ProviderSection(kind=WELL_KNOWN.get(provider, ""), key=provider)
    if section.kind != KIND:
        what = f"hearing and speaking with {provider}: it is no provider of the kind {KIND}"
        raise InvalidError("VOICE_PROVIDER", what, hint=f"[providers.{provider}] in config.toml")
    key = _secret(section.key or provider, secrets, vault)
    made = ProviderConfig(name=provider, kind=section.kind, base_url=section.base_url, secret=key)
    return AudioServer(made, section.base_url or KNOWN_URLS.get(provider, ""))


def _secret(key: str, secrets: Tokens, vault: Opener) -> Callable[[], str | None]:
    """Return what reads a stored key, at each call, so that a new one counts at once."""

    def secret() -> str | None:
        token = secrets.get(key)
        if token is None:
            return None
        value = vault.open(token)
        hide(value)
        return value

    return secret
