"""Markdown as models write it, and as nobody should: generated documents whose words are known."""

import random
from collections.abc import Callable
from typing import Final

EMOJI: Final = ("😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "👍🏽", "☀️", ":tada:")
CALLS: Final = (  # what notifies somebody, if it gets through
    *("<!channel>", "<!here>", "<!everyone|all>", "<!subteam^S1|team>", "<@U1ANN>", "<@W1|Ann>", "<#C1TEAM>"),
    *("@channel", "@here", "@everyone", "&lt;!channel&gt;", "&#60;!here&#62;", "\\<!channel\\>", "[<!here>](https://a.example)"),
)  # fmt: skip
SIGNS: Final = ("&", "<", ">", "&amp;", "|", "*", "_", "~", "`", "``", "\\", "<b>", "</b>", "$a<b$", "#", "[^1]", "~~~")
STRANGE: Final = (
    "\x00",
    "\x07",
    "\x1b[31m",
    "\x7f",
    "\u2028",
    "\u202e",
    "\u2066",
    "\u200b",
    "\ufeff",
    "e\u0301" * 5,
    "\ud800",
)
WORDS: Final = ("plan", "straße", "naïve", "日本語", "שלום", "مرحبا", "да", "x" * 60)
TARGETS: Final = (
    *("https://a.example/x?y=1&z=2", "https://a.example/(a)_b", "http://a.example/|x>", "mailto:a@b.example"),
    *("javascript:alert(1)", "/relative", "#here", "https://a.example/<!channel>", "https://ä.example/\u202ex"),
)
LONG: Final = 9_000


class SlackAuthor:
    """Writes one document. `marks` are words that stand in it once each, in this order."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.marks: list[str] = []
        kinds: list[Callable[[], str]] = [
            self._paragraph, self._paragraph, self._list, self._table, self._code, self._quote, self._head, self._long,
        ]  # fmt: skip
        weights = (8, 8, 5, 3, 4, 3, 3, 1)
        blocks = self._chance.choices(kinds, weights, k=self._chance.randrange(1, 14))
        self.text = self._chance.choice(("\n\n", "\n\n", "\n")).join(block() for block in blocks)

    def _mark(self) -> str:
        self.marks.append(f"qz{len(self.marks)}qz")
        return self.marks[-1]

    def _inline(self, depth: int = 2) -> str:
        pieces = [self._mark()]
        for _ in range(self._chance.randrange(6)):
            kind = self._chance.choice(("word", "word", "emoji", "call", "sign", "strange", "code", "styled", "link"))
            if kind in ("styled", "link") and depth:
                inner = self._inline(depth - 1)
                shape = self._chance.choice(("**{}**", "*{}*", "_{}_", "~~{}~~", "***{}***"))
                target = self._chance.choice(TARGETS)
                pieces.append(shape.format(inner) if kind == "styled" else f"[{inner}]({target})")
            elif kind == "code":
                pieces.append(f"`{self._chance.choice((*SIGNS[:6], *CALLS, 'a b'))}`")
            else:
                of = {"emoji": EMOJI, "call": CALLS, "sign": SIGNS, "strange": STRANGE}.get(kind, WORDS)
                pieces.append(self._chance.choice(of))
        return self._chance.choice((" ", " ", "")).join(pieces) if depth == 2 else " ".join(pieces)

    def _paragraph(self) -> str:
        return self._chance.choice((" ", "\n")).join(self._inline() for _ in range(self._chance.randrange(1, 6)))

    def _head(self) -> str:
        return f"{'#' * self._chance.randrange(1, 7)} {self._inline()}"

    def _list(self, depth: int = 3) -> str:
        lines = []
        for number in range(self._chance.randrange(1, 6)):
            sign = self._chance.choice(("-", "*", f"{number + 1}.", "- [x]", "- [ ]"))
            lines.append(f"{sign} {self._inline()}")
            if depth and self._chance.random() < 0.3:
                below = self._chance.choice((lambda: self._list(depth - 1), self._code))()
                lines.append("\n".join(f"    {line}" for line in below.split("\n")))
        return "\n".join(lines)

    def _table(self) -> str:
        columns = self._chance.randrange(1, 6)

        def row(cell: Callable[[], str]) -> str:
            words = (f"{cell()} {self._chance.choice((*WORDS, *CALLS[:7], ''))}" for _ in range(columns))
            return f"| {' | '.join(words)} |"

        head = row(lambda: "head")  # shown again with each cell, where a table becomes a list
        return "\n".join(
            (head, "|" + "---|" * columns, *(row(self._mark) for _ in range(self._chance.randrange(1, 8))))
        )

    def _code(self) -> str:
        fence = self._chance.choice(("```", "````", "~~~"))
        lines = [self._mark() + self._chance.choice((" if a < b && c > d:", " <!channel>", " ``` ", "", "\t&amp;"))]
        lines += [f"{self._mark()} {'y' * self._chance.randrange(200)}" for _ in range(self._chance.randrange(30))]
        return "\n".join((fence + self._chance.choice(("", "py")), *lines, fence))

    def _quote(self) -> str:
        return "\n".join(f"> {line}" for line in self._paragraph().split("\n"))

    def _long(self) -> str:
        return self._mark() + self._chance.choice(("x", "&", "<", "word ", "👍🏽", "@here ")) * self._chance.randrange(
            LONG
        )
