"""Sums as people type them: + - * / and parentheses, exactly, in bounded time."""

import re
from fractions import Fraction
from typing import Final

MAX_CHARS: Final = 120
_TOKEN: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|[-+*/()])\s*")
_SIGNS: Final = str.maketrans({"×": "*", "x": "*", "·": "*", "÷": "/", ":": "/", "−": "-", ",": ""})  # noqa: RUF001


def calculate(sum_: str) -> str:
    """Return the value of `sum_`. Raises `ValueError`, with a reason for people, if it has none."""
    if len(sum_) > MAX_CHARS:
        raise ValueError("that is too long for me")
    tokens = _tokens(sum_.translate(_SIGNS))
    value = _sum(tokens)
    if tokens:
        raise ValueError("I cannot read that as a sum")
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.10g}"


def _tokens(text: str) -> list[str]:
    """Return the tokens, last first."""
    found, at = [], 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError("I cannot read that as a sum")
        found.append(token[1])
        at = token.end()
    return found[::-1]


def _sum(tokens: list[str]) -> Fraction:
    value = _product(tokens)
    while tokens and tokens[-1] in "+-":
        value = value + _product(tokens) if tokens.pop() == "+" else value - _product(tokens)
    return value


def _product(tokens: list[str]) -> Fraction:
    value = _factor(tokens)
    while tokens and tokens[-1] in "*/":
        operator, right = tokens.pop(), _factor(tokens)
        if operator == "/" and not right:
            raise ValueError("nobody can divide by zero")
        value = value * right if operator == "*" else value / right
    return value


def _factor(tokens: list[str]) -> Fraction:
    match tokens.pop() if tokens else "":
        case "-":
            return -_factor(tokens)
        case "(":
            value = _sum(tokens)
            if not tokens or tokens.pop() != ")":
                raise ValueError("a parenthesis is not closed")
            return value
        case number if number[:1].isdigit():
            return Fraction(number)
        case _:
            raise ValueError("I cannot read that as a sum")
