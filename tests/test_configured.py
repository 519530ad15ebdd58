"""From config.toml and stored keys to providers: their order, what a key adds, and which kinds there are."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from daycare.base.clock import SystemClock
from daycare.base.errors import BrokenError
from daycare.config import Config, ModelSection, ProviderSection
from daycare.features import open_store
from daycare.inference import openai
from daycare.inference.catalog import MODEL_CONTEXT_TOKENS
from daycare.inference.configured import sources
from daycare.inference.sources import ProviderSource
from daycare.observe.redact import without_secrets
from daycare.plugin import Plugin, Provider, ProviderConfig
from daycare.store.sqlite.store import Store
from daycare.store.vault import Vault, open_vault
from daycare_plugins.offline.plugin import plugin as offline

seen: list[ProviderConfig] = []


def make(config: ProviderConfig) -> Provider:
    seen.append(config)
    return openai.OpenAIProvider(config)


PLUGINS = [offline, Plugin(name="openai", providers={"openai": make})]


@asynccontextmanager
async def parts(folder: Path) -> AsyncIterator[tuple[Store, Vault]]:
    seen.clear()
    async with open_store("memory:", SystemClock()) as store:
        yield store, open_vault(folder / "daycare.key")


def config(**providers: ProviderSection) -> Config:
    return Config(providers={"offline": ProviderSection(kind="offline", key="offline"), **providers})


@asynccontextmanager
async def made(folder: Path, settings: Config) -> AsyncIterator[dict[str, ProviderSource]]:
    async with parts(folder) as (store, vault):
        yield sources(settings, PLUGINS, store.secrets, vault)


async def test_sections_come_first_in_their_order_then_what_is_well_known(tmp_path: Path) -> None:
    box = ProviderSection(base_url="http://127.0.0.1:1/v1", key="box")
    async with made(tmp_path, config(zoo=box, box=box, openrouter=ProviderSection(key="router"))) as found:
        assert list(found) == ["offline", "zoo", "box", "openrouter", "openai", "ollama"], (
            "no plugin speaks to anthropic"
        )
        assert [name for name, source in found.items() if source.given] == ["offline", "zoo", "box", "openrouter"]
        assert found["openrouter"].key == "router"
        assert found["zoo"].ready and found["zoo"].chosen
        assert found["ollama"].ready and not found["ollama"].chosen
        assert not found["openai"].ready


async def test_a_key_counts_while_it_is_stored_and_stays_secret(tmp_path: Path) -> None:
    async with parts(tmp_path) as (store, vault):
        found = sources(
            config(work=ProviderSection(base_url="https://api.openai.com/v1", key="office")),
            PLUGINS,
            store.secrets,
            vault,
        )
        (work,) = (each for each in seen if each.name == "work")
        assert (found["work"].ready, work.secret()) == (False, None)
        await store.secrets.put("office", "ann", vault.seal("rather-secret"))
        assert (found["work"].ready, work.secret()) == (True, "rather-secret")
        assert not found["openai"].ready, "a key is one provider's"
        assert "rather" not in repr(found["work"]) and "rather" not in without_secrets("it is rather-secret")
        await store.secrets.put("office", "ann", vault.seal("another-secret"))
        assert work.secret() == "another-secret"
        await store.secrets.remove("office")
        assert (found["work"].ready, work.secret()) == (False, None)


async def test_what_the_file_says_of_models_corrects_the_catalog(tmp_path: Path) -> None:
    large = ModelSection(context_tokens=9_000, images=True)
    box = ProviderSection(base_url="http://127.0.0.1:1/v1", key="box", models={"large": large})
    work = ProviderSection(base_url="https://api.openai.com/v1", key="work")
    async with made(tmp_path, config(box=box, work=work)) as found:
        assert (found["box"].facts("large").context_tokens, found["box"].facts("large").images) == (9_000, True)
        assert found["box"].facts("gpt-4o").context_tokens == MODEL_CONTEXT_TOKENS
        assert found["work"].facts("gpt-4o").input_usd == 2.5


async def test_a_kind_that_no_plugin_provides_is_told(tmp_path: Path) -> None:
    async with parts(tmp_path) as (store, vault):
        with pytest.raises(BrokenError) as caught:
            sources(config(box=ProviderSection(kind="telepathy", key="box")), PLUGINS, store.secrets, vault)
    assert caught.value.code == "PROVIDER_KIND_UNKNOWN"
    assert "offline, openai" in caught.value.hint
