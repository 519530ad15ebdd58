"""Models over the API: what is listed, and what a test of them says."""

from pathlib import Path

from daycare.inference.openai import OpenAIProvider
from daycare.inference.pool import Pool
from daycare.inference.sources import ProviderSource
from daycare.plugin import ProviderConfig
from daycare.testing.openai_server import FakeOpenAI
from daycare_plugins.offline.plugin import OfflineProvider
from tests.api.conftest import Api, open_api

KEY = "correct-horse-battery"


async def test_models_are_listed_with_their_roles_and_facts(api: Api) -> None:
    listing = await api.call("GET", "/v1/models")
    assert listing["roles"] == {"default": "offline/rules"}
    assert listing["fallbacks"] == []
    (offline,) = listing["providers"]
    assert (offline["name"], offline["state"], offline["why"]) == ("offline", "ready", "")
    (rules,) = offline["models"]
    assert (rules["name"], rules["roles"], rules["fallback"]) == ("rules", ["default"], 0)
    assert (rules["facts"]["input_usd"], rules["facts"]["images"]) == (0.0, False)


async def test_a_key_that_is_stored_changed_and_removed_counts_at_the_next_call(tmp_path: Path) -> None:
    async with FakeOpenAI.serve() as server:
        server.api_key = KEY
        stored: list[Api] = []

        def secret() -> str | None:
            token = stored[0].store.secrets.get("fake")
            return stored[0].vault.open(token) if token else None

        provider = OpenAIProvider(ProviderConfig(name="fake", kind="openai", base_url=server.base_url, secret=secret))
        provider.needs_key = True
        fake = ProviderSource(
            "fake", provider, key="fake", has_key=lambda: stored[0].store.secrets.get("fake") is not None
        )
        sources = {"offline": ProviderSource("offline", OfflineProvider()), "fake": fake}
        async with open_api(tmp_path, pool=Pool(sources, {"default": "fake/fake-small"})) as api:
            stored.append(api)
            for value, code in ((None, "PROVIDER_NOT_CONFIGURED"), ("wrong-horse", "KEY_REFUSED"), (KEY, "")):
                if value is not None:
                    await api.call("PUT", "/v1/keys/fake", {"value": value})
                answer = await api.call("POST", "/v1/models/test")
                (result,) = answer["results"]
                assert (result["model"], result["code"]) == ("fake/fake-small", code), result
                assert result["latency_ms"] >= 0
                assert bool(result["hint"]) == bool(code)
                assert "horse" not in str(answer)
            await api.call("DELETE", "/v1/keys/fake")
            (result,) = (await api.call("POST", "/v1/models/test", {"models": ["fake/x"]}))["results"]
            assert (result["code"], result["hint"]) == ("PROVIDER_NOT_CONFIGURED", "daycare keys add fake")
            states = {each["name"]: each["state"] for each in (await api.call("GET", "/v1/models"))["providers"]}
            assert states == {"offline": "ready", "fake": "unconfigured"}
        await provider.aclose()
        asked = [received.headers.get("authorization", "") for received in server.history]
        assert asked == ["Bearer wrong-horse", f"Bearer {KEY}"]


async def test_a_wrong_wish_is_refused(api: Api) -> None:
    await api.refused(400, "BODY_INVALID", "POST", "/v1/models/test", {"model": "offline/rules"})
    await api.refused(400, "TESTS_TOO_MANY", "POST", "/v1/models/test", {"models": ["offline/rules"] * 33})
