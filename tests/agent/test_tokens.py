"""The estimate of tokens, what corrects it, and what a prompt may take."""

import pytest

from daycare.agent import tokens
from daycare.agent.tokens import CONTEXT_MAX_TOKENS, CONTEXT_REFUSED_S, TokenRatios, budget_of
from daycare.base.limits import CONTEXT_KNOWN_MAX
from daycare.base.messages import Image, Message, Text, Thinking, ToolCall, ToolResult
from daycare.inference.catalog import ModelFacts
from daycare.plugin import ToolSpec


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("The quick brown fox jumps over the lazy dog. " * 10, 90, 130),
        ("我能吞下玻璃而不伤身体。" * 10, 100, 160),
        ("Съешь же ещё этих мягких французских булок. " * 10, 200, 320),
        ("\ud800" * 9, 1, 27),
    ],
    ids=["nothing", "English", "Chinese", "Russian", "half a surrogate pair"],
)
def test_an_estimate_is_near_what_tokenizers_count(text: str, least: int, most: int) -> None:
    assert least <= tokens.of_text(text) <= most


def test_everything_in_a_message_counts() -> None:
    call = ToolCall("a", "read", {"words": "x" * 400})
    result = ToolResult(call_id="a", name="read", text="x" * 400)
    for part in (Text("x" * 400), call, result, Thinking("p", {"text": "x" * 400}), Image("image/png", b"x")):
        assert tokens.of_message(Message("assistant", (part,))) > 100
    thought = Message("assistant", (Thinking("p", {"text": "x" * 400}), Text("x")))
    assert tokens.of_message(thought, past=True) < 10, "nobody reads what was thought in earlier turns"
    spec = ToolSpec(name="read", description="x" * 200, schema={"type": "object", "x": "x" * 200})
    assert tokens.of_tools([spec]) > 100


def test_the_provider_s_count_corrects_the_estimate_of_that_agent_and_model_alone() -> None:
    token_ratios = TokenRatios()
    token_ratios.counted("ann", "p/m", 10_000, 13_000)
    assert token_ratios.of("ann", "p/m").ratio == 1.3
    assert token_ratios.of("bob", "p/m").ratio == token_ratios.of("ann", "p/n").ratio == 1.0
    token_ratios.counted("ann", "p/m", 20_000, 22_000)
    assert token_ratios.of("ann", "p/m").ratio == 1.1, "the newest counts"


@pytest.mark.parametrize(("estimated", "counted"), [(10_000, 0), (10_000, 10), (10_000, 90_000), (100, 130)])
def test_counts_that_say_nothing_are_not_learned_from(estimated: int, counted: int) -> None:
    token_ratios = TokenRatios()
    token_ratios.counted("ann", "p/m", estimated, counted)
    assert token_ratios.of("ann", "p/m").ratio == 1.0


def test_what_is_learned_is_bounded() -> None:
    token_ratios = TokenRatios()
    token_ratios.counted("first", "p/m", 10_000, 13_000)
    for number in range(CONTEXT_KNOWN_MAX):
        token_ratios.of(str(number), "p/m")
    assert token_ratios.of("first", "p/m").ratio == 1.0


def test_a_refused_prompt_lowers_what_is_tried_for_a_while() -> None:
    token_ratios = TokenRatios()
    first = token_ratios.refused("ann", "p/m", 10_000, now_ms=0)
    second = token_ratios.refused("ann", "p/m", 10_000, now_ms=1)
    assert second < first < 10_000
    assert budget_of(ModelFacts(), token_ratios.of("ann", "p/m").total_at(2)).total == second
    assert token_ratios.of("ann", "p/m").total_at(int(CONTEXT_REFUSED_S * 1000) + 1) is None
    assert token_ratios.refused("ann", "p/m", 10_000, now_ms=10**9) == first


@pytest.mark.parametrize("context", [1_000, 4_096, 32_768, 200_000, 1_000_000])
@pytest.mark.parametrize("output", [16, 4_096, 128_000])
def test_prompt_answer_and_reserve_fit_into_the_window(context: int, output: int) -> None:
    budget = budget_of(ModelFacts(context_tokens=context, output_tokens=output))
    assert budget.total + budget.room + budget.reserve == budget.window <= min(context, CONTEXT_MAX_TOKENS)
    assert 0 < budget.summary < budget.keep < budget.compact_at < budget.total
