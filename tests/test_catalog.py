"""The catalog: what models cost, to the millionth of a dollar, and what is assumed of one that nobody knows."""

import pytest

from daycare.base.messages import Usage
from daycare.inference import catalog
from daycare.inference.catalog import MODEL_CONTEXT_TOKENS, ModelFacts, facts, vendor_of

MILLION = 1_000_000


def test_every_price_of_the_catalog_is_whole_and_has_a_source_and_a_date() -> None:
    for name, vendor in catalog.vendors().items():
        assert vendor.date.startswith("20") and vendor.source
        for model, known in vendor.models.items():
            assert known.input_usd is not None and known.output_usd is not None, f"{name}/{model}"
            assert known.output_tokens < known.context_tokens, f"{name}/{model}"
            assert (known.cached_usd or 0) <= known.input_usd, f"{name}/{model}"
            assert known.output_usd >= known.input_usd or not known.output_usd, f"{name}/{model}"  # sound has no tokens
            assert catalog.vendor_of(model) in (name, None), f"{name}/{model}"


def test_the_price_of_a_million_tokens_is_the_listed_one() -> None:
    known = ModelFacts(input_usd=3.0, cached_usd=0.3, cache_write_usd=3.75, output_usd=15.0)
    assert known.cost_micros(Usage(MILLION, 0)) == 3 * MILLION
    assert known.cost_micros(Usage(0, MILLION)) == 15 * MILLION
    assert known.cost_micros(Usage(MILLION, 0, MILLION)) == 300_000
    assert known.cost_micros(Usage(MILLION, 0, 0, MILLION)) == 3_750_000
    assert known.cost_micros(Usage(MILLION, MILLION, 400_000, 100_000)) == 1_500_000 + 120_000 + 375_000 + 15 * MILLION


def test_cost_is_exact_and_rounded_up() -> None:
    tenth = ModelFacts(input_usd=0.1, output_usd=0.2)
    assert tenth.cost_micros(Usage(30, 0)) == 3  # 0.1 * 30 is 3.0000000000000004 in floats, which would be 4
    assert tenth.cost_micros(Usage(1, 0)) == 1
    assert tenth.cost_micros(Usage(11, 0)) == 2
    assert tenth.cost_micros(Usage()) == 0


def test_tokens_of_the_cache_cost_like_others_where_no_price_is_named() -> None:
    assert ModelFacts(input_usd=2.0, output_usd=8.0).cost_micros(Usage(100, 0, 40, 10)) == 200


def test_a_server_that_counts_more_cached_tokens_than_tokens_costs_nothing_negative() -> None:
    assert ModelFacts(input_usd=2.0, cached_usd=1.0, output_usd=8.0).cost_micros(Usage(10, 0, 50)) == 50


def test_a_dated_name_is_its_models() -> None:
    assert facts("openai", "gpt-5-mini-2025-08-07") == facts("openai", "gpt-5-mini")
    assert facts("anthropic", "claude-haiku-4-5-20251001") == facts("anthropic", "claude-haiku-4-5")
    assert facts("openai", "gpt-5-mini") != facts("openai", "gpt-5")


def test_openrouter_resells_at_the_vendors_price() -> None:
    assert facts("openrouter", "anthropic/claude-sonnet-4.5") == facts("anthropic", "claude-sonnet-4-5")
    assert facts("openrouter", "openai/gpt-4.1-mini") == facts("openai", "gpt-4.1-mini")
    for unknown in ("acme/large", "large", "openrouter/auto", "openrouter/openai/gpt-5", "openai/gpt-5:free"):
        assert facts("openrouter", unknown) == ModelFacts(), unknown


def test_an_unknown_model_costs_nothing_and_holds_little() -> None:
    for vendor, model in (("openai", "gpt-5-huge"), ("anthropic", "claude"), ("nobody", "gpt-5")):
        unknown = facts(vendor, model)
        assert unknown == ModelFacts()
        assert unknown.context_tokens == MODEL_CONTEXT_TOKENS
        assert unknown.images is None
        assert unknown.cost_micros(Usage(MILLION, MILLION)) == 0


def test_what_the_configuration_says_is_better_known() -> None:
    corrected = facts("openai", "gpt-4o", {"context_tokens": 64_000, "input_usd": 0.0})
    assert corrected.context_tokens == 64_000
    assert corrected.cost_micros(Usage(MILLION, 0)) == 0
    assert corrected.output_usd == facts("openai", "gpt-4o").output_usd
    assert facts("acme", "large", {"input_usd": 1.0, "output_usd": 2.0}).cost_micros(Usage(1, 1)) == 3


@pytest.mark.parametrize(
    ("model", "vendor"),
    [("gpt-9", "openai"), ("o3-mini", "openai"), ("claude-x", "anthropic"), ("qwen3:8b", None), ("rules", None)],
)
def test_a_models_name_may_tell_its_vendor(model: str, vendor: str | None) -> None:
    assert vendor_of(model) == vendor
