"""Formulas as text."""
# ruff: noqa: RUF001

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.messenger.formulas import readable
from tests.cost import IN_STEP, costs_at_most


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        (r"E = mc^2", "E = mc²"),
        (r"\sum_{i=1}^{n} x_{ij}", "∑ᵢ₌₁ⁿ xᵢⱼ"),
        (r"\int_0^\infty e^{-x^2} dx = \frac{\sqrt{\pi}}{2}", "∫₀^∞ e^(-x²) dx = (√π)/2"),
        (r"2\frac{1}{3} + \dfrac{a+b}{c}", "2 ⅓ + (a+b)/c"),
        (r"\sqrt[3]{x+1} \leq \hat{y} \neq \bar x", "∛(x+1) ≤ ŷ ≠ x̄"),
        (r"\forall x \in \mathbb{R}: \mathcal{L}(x) \to 0", "∀ x ∈ ℝ: ℒ(x) → 0"),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "a = b\nc = d"),
        (r"\sin\theta \cdot \text{if } 90^\circ", "sin θ · if 90°"),
        (r"a \equiv b \pmod{n}, \binom{n}{k}", "a ≡ b (mod n), C(n, k)"),
        (r"\unheard{of} \{x\} \%", "of {x} %"),
    ],
)
def test_a_formula_is_readable(formula: str, shown: str) -> None:
    assert readable(formula) == shown


@given(st.lists(st.sampled_from(["{", "}", "^", "_", "\\", "\\frac", "\\sqrt", "[", "]", "&", "zebra", " ", "\\not"])))
def test_no_formula_breaks_it_and_no_word_is_lost(pieces: list[str]) -> None:
    formula = "".join(pieces)
    shown = readable(formula)
    assert shown.count("zebra") == len(re.findall("zebra", formula)) or "\\" in formula


def test_braces_within_braces_cost_in_step_with_their_number() -> None:
    assert costs_at_most(IN_STEP, lambda: readable("{" * 2_000), lambda: readable("{" * 500))
    assert costs_at_most(IN_STEP, lambda: readable(r"\sqrt[" * 200), lambda: readable(r"\sqrt[" * 50))
