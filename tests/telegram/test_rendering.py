import random
import re
from itertools import accumulate
from typing import Any

import pytest
import wcwidth
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from daycare_plugins.telegram.rendering import Rendered, plain, render
from tests.chance import sliced
from tests.cost import costs_at_most

EMOJI = ("😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "👍🏽", "☀️")
WORDS = re.compile("|".join(EMOJI) + r"|[^\W\d_]+")
FORBIDDEN = re.compile("[\ud800-\udfff\0-\x09\x0b-\x1f]")
SCRIPTS = ("abcdefghij", "אבגדהוזחטי", "ابتثجحخدذر", "абвгдежзик")


def refusals(part: Rendered, limit: int = 4096) -> list[str]:
    """What the rules of the Bot API hold against this message (core.telegram.org/bots/api, "Formatting options")."""
    units = part.text.encode("utf-16-le", "surrogatepass")
    whole = set(accumulate((1 + (char > "\uffff") for char in part.text), initial=0)) if part.entities else set()
    found = []
    if not 1 <= len(units) // 2 <= limit:
        found.append(f"{len(units) // 2} units")
    if not part.text.strip(" \t\r\n\u00a0\u2000\u200b\u200c\u200d\u2060\ufeff\u2800\u3000"):
        found.append("blank")
    if FORBIDDEN.search(part.text):
        found.append("surrogates or controls")
    if len(part.entities) > 100:
        found.append(f"{len(part.entities)} entities")
    for entity in part.entities:
        if not {"type", "offset", "length"} <= entity.keys() <= {"type", "offset", "length", "url", "language"}:
            found.append(f"fields {entity}")
        if entity["length"] < 1 or not {entity["offset"], entity["offset"] + entity["length"]} <= whole:
            found.append(f"place {entity}")
        if (entity["type"] == "text_link") != ("url" in entity) or ("language" in entity and entity["type"] != "pre"):
            found.append(f"type {entity}")
        if "url" in entity and not re.match(r"https?://[^/\s.]+\.[^/\s]|tg://", entity["url"]):
            found.append(f"link {entity}")
    entities = sorted(part.entities, key=lambda entity: entity["offset"])
    for at, first in enumerate(entities):
        for second in entities[at + 1 :]:
            if second["offset"] >= first["offset"] + first["length"]:
                break
            if not nest_legally(first, second):
                found.append(f"{first} with {second}")
    return found


def nest_legally(first: dict[str, Any], second: dict[str, Any]) -> bool:
    outer, inner = sorted((first, second), key=lambda entity: (-entity["length"], entity["offset"]))
    start, end = outer["offset"], outer["offset"] + outer["length"]
    if inner["offset"] + inner["length"] <= start or inner["offset"] >= end:
        return True
    if inner["offset"] < start or inner["offset"] + inner["length"] > end:
        return False
    kinds = {first["type"], second["type"]}
    if "blockquote" in kinds:
        return len(kinds) == 2
    if kinds & {"pre", "code"}:
        return False
    return len(kinds) == 2 and len(kinds & {"text_link"}) <= 1


def words(parts: list[str]) -> list[str]:
    return [word for text in parts for word in WORDS.findall(text) if word not in ("https", "http")]


# -- documents whose words are known -----------------------------------------------------------------------------------


class Table:
    """Words of a table, which may come row by row, or as `header: value` for each cell."""

    def __init__(self, rows: list[list[list[str]]]) -> None:
        aligned = [word for row in rows for cell in row for word in cell]
        header, *body = rows
        listed = [word for row in body for at, cell in enumerate(row) if cell for word in (*header[at], *cell)]
        self.readings = (aligned, listed)


Expected = list["str | Table"]


def reads_as(expected: Expected, found: list[str]) -> bool:
    places = {0}
    for item in expected:
        readings = ([item],) if isinstance(item, str) else item.readings
        places = {
            place + len(reading)
            for place in places
            for reading in readings
            if found[place : place + len(reading)] == list(reading)
        }
    return len(found) in places


class Author:
    """Writes nested Markdown and keeps the words in it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # a hundred times faster than drawing each choice
        self._count = 0

    def pick(self, *options: Any) -> Any:
        return self._random.choice(options)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def word(self) -> str:
        """Return a word that is nowhere else in the document, or an emoji."""
        self._count += 1
        if self.number(0, 9) == 0:
            return str(self.pick(*EMOJI))
        letters: str = self.pick(*SCRIPTS)
        return letters[:2] + "".join(letters[int(digit)] for digit in str(self._count)) + letters[1]

    def inline(self, depth: int = 2, *, in_cell: bool = False) -> tuple[str, list[str]]:
        pieces, kept = [], []
        for _ in range(self.number(1, 4)):
            kind = self.pick("word", "word", "code", "mark", "link", "html", "generic", "escaped", "spoiler", "math")
            if kind in ("mark", "link", "html", "spoiler") and depth and not (in_cell and kind == "spoiler"):
                text, inner = self.inline(depth - 1, in_cell=in_cell)
                shape = {
                    "mark": self.pick("**{}**", "*{}*", "__{}__", "~~{}~~", "***{}***"),
                    "link": self.pick("[{}](https://1.22/3)", "![{}](http://1.22)", "[{}](#4)"),
                    "html": self.pick("<b>{}</b>", '<a href="https://1.22">{}</a>', "<sub>{}</sub>", "{} <br>"),
                    "spoiler": "||{}||",
                }[kind]
                pieces.append(shape.format(text))
                kept += inner
                continue
            word = self.word()
            shape = {"code": "`{}`", "generic": "<{}>", "escaped": r"\*{}\_", "math": "$5 {} $6"}.get(kind, "{}")
            pieces.append(shape.format(word))
            kept.append(word)
        return " ".join(pieces), kept

    def blocks(self, depth: int = 2) -> tuple[list[str], Expected]:
        lines: list[str] = []
        expected: Expected = []
        for _ in range(self.number(1, 4)):
            kind = self.pick("text", "text", "heading", "list", "quote", "table", "fence", "details", "rule")
            if kind in ("list", "quote") and not depth:
                kind = "text"
            more, inner = getattr(self, f"_{kind}")(depth)
            lines += ["", *more] if lines else more
            expected += inner
        return lines, expected

    def _text(self, depth: int) -> tuple[list[str], Expected]:
        pairs = [self.inline() for _ in range(self.number(1, 3))]
        end = self.pick("", "  ", "\\", ".")
        lines = [f"{self.word_of(kept)}{text}{end}" for text, kept in pairs]
        return lines, [word for _, kept in pairs for word in kept]

    def word_of(self, kept: list[str]) -> str:
        """Return a word for the start of a line, which keeps it a paragraph."""
        word = self.word()
        kept.insert(0, word)
        return word + " "

    def _heading(self, depth: int) -> tuple[list[str], Expected]:
        text, kept = self.inline()
        return [f"{'#' * self.number(1, 6)} {text}"], [*kept]

    def _rule(self, depth: int) -> tuple[list[str], Expected]:
        return ["***"], []

    def _list(self, depth: int) -> tuple[list[str], Expected]:
        marker = self.pick("- ", "* ", "7. ", "- [ ] ", "1. [x] ")
        width = len(marker.split("[")[0])
        lines: list[str] = []
        expected: Expected = []
        loose = self.pick(True, False)
        for _ in range(self.number(1, 3)):
            first, kept = self.inline(1)
            text = [f"{self.word_of(kept)}{first}"]
            inner: Expected = [*kept]
            if self.pick(True, False):
                more, others = self.blocks(depth - 1)
                text, inner = [*text, *([""] if loose or more[0][:1] not in "-*#>`" else []), *more], [*inner, *others]
            lines += ([""] if loose and lines else []) + [marker + text[0], *(" " * width + line for line in text[1:])]
            expected += inner
        return lines, expected

    def _quote(self, depth: int) -> tuple[list[str], Expected]:
        lines, expected = self.blocks(depth - 1)
        return [f"> {line}".rstrip() for line in lines], expected

    def _table(self, depth: int) -> tuple[list[str], Expected]:
        columns = self.number(1, 4)
        cells = [[self.inline(1, in_cell=True) for _ in range(columns)] for _ in range(self.number(2, 4))]
        lines = ["| " + " | ".join(text for text, _ in row) + " |" for row in cells]
        lines.insert(1, "|" + self.pick("---", ":--", ":-:", "--:") * 1 + "|" + "---|" * (columns - 1))
        return lines, [Table([[kept for _, kept in row] for row in cells])]

    def _fence(self, depth: int) -> tuple[list[str], Expected]:
        code, kept = [], []
        for _ in range(self.number(0, 6)):
            word, other = self.word(), self.word()
            code.append(self.pick("{} {}", "  # {} || {} ||", "| **{}** | <{}>", "\t- {}: [{}](1)").format(word, other))
            kept += [word, other]
        fence = self.pick("```", "~~~~")
        return [fence + self.pick("", "python", "c++ title=1"), *code, fence], [*kept]

    def _details(self, depth: int) -> tuple[list[str], Expected]:
        title, word = self.word(), self.word()
        return ["<details>", f"<summary>{title}</summary>", f"<p>{word}", "</details>"], [title, word]


SEEDS = st.integers(0, 2**32 - 1)
LIMITS = st.sampled_from((64, 200, 1024, 4096))


@settings(max_examples=300, deadline=None)
@given(seed=SEEDS, limit=LIMITS)
def test_nested_markdown_is_never_refused_and_each_word_arrives_once_and_in_order(seed: int, limit: int) -> None:
    lines, expected = Author(seed).blocks()
    source = "\n".join(lines)
    parts = render(source, limit)
    assert [refusal for part in parts for refusal in refusals(part, limit)] == []
    assert reads_as(expected, words([part.text for part in parts])), source


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, limit=LIMITS)
def test_plain_text_is_never_refused_and_keeps_each_word_too(seed: int, limit: int) -> None:
    lines, expected = Author(seed).blocks()
    parts = plain("\n".join(lines), limit)
    assert [refusal for text in parts for refusal in refusals(Rendered(text), limit)] == []
    assert reads_as(expected, words(parts)), "\n".join(lines)


SOUP = st.sampled_from(
    [
        *(
            "*",
            "**",
            "_",
            "~~",
            "~",
            "`",
            "``",
            "# ",
            "## ",
            "> ",
            "||",
            "(",
            ")",
            "!",
            "- ",
            "+ ",
            "1. ",
            "\n",
            "\n\n",
        ),
        *("    ", " ", "\t", "<b>", "</b>", "<br>", "<", ">", "\\", "&", "&amp;", "$", "$$", "]", "🏳️‍🌈", "\u200f"),
    ]
)


@settings(max_examples=300, deadline=None)
@given(pieces=st.lists(st.tuples(SOUP, st.booleans()), max_size=60))
def test_words_between_any_signs_arrive_once_and_in_order(pieces: list[tuple[str, bool]]) -> None:
    said = [f"wo{chr(97 + at // 26)}{chr(97 + at % 26)}" for at in range(len(pieces))]
    source = "".join(sign + (" " if spaced else "") + word for (sign, spaced), word in zip(pieces, said, strict=True))
    assume("```" not in source and "~~~" not in source and not re.search(r"&wo\w\w;", source))  # not words there
    found = [word for part in render(source) for word in re.findall(r"wo[a-z]{2}", part.text)]
    assert found == said, source


@settings(max_examples=500, deadline=None)
@given(
    source=st.one_of(
        st.text(st.characters(), max_size=300),  # with unpaired surrogates
        st.text(st.sampled_from("*_~`#>|-[]()!<>\\/&;$^:.1 \n\ta😀\u0301\u200d\u202eא\0\ud83d\ude00🇩🇪"), max_size=300),
    ),
    limit=st.sampled_from((2, 3, 7, 50, 4096)),
)
def test_any_text_at_all_becomes_messages_that_are_not_refused(source: str, limit: int) -> None:
    parts = render(source, limit)
    assert parts == render(source, limit)
    assert [refusal for part in parts for refusal in refusals(part, limit)] == []
    assert [refusal for text in plain(source, limit) for refusal in refusals(Rendered(text), limit)] == []


PIECES = ("`", "*", "[", "> ", "- ", "<!--", "||a", "$x^", "\\[a^", "![a", "|a|\n|-|\n", "\0", ".")


@pytest.mark.parametrize(
    ("piece", "size"),
    [*((piece, 100_000) for piece in PIECES), *((piece, 1_000_000) for piece in sliced(PIECES, 4))],  # plain text then
)
def test_a_megabyte_of_one_sign_is_no_trouble(piece: str, size: int) -> None:
    parts = render(piece * (size // len(piece)))
    assert [refusal for part in parts for refusal in refusals(part)] == []


# -- one by one --------------------------------------------------------------------------------------------------------


def shown(source: str, limit: int = 4096) -> tuple[str, list[tuple[str, str]]]:
    """Return text and (type, what it covers) of a source that fits into one message."""
    [part] = render(source, limit)
    units = part.text.encode("utf-16-le")
    marks = []
    for entity in part.entities:
        covered = units[2 * entity["offset"] : 2 * (entity["offset"] + entity["length"])].decode("utf-16-le")
        marks.append((entity.get("url") or entity.get("language") or entity["type"], covered))
    return part.text, marks


def test_nothing_to_see_is_no_message() -> None:
    for source in ("", " \n\t", "\u200b\u2060", "```\n```", "<!-- note -->", "\u2800", "[a]: https://b.cd"):
        assert render(source) == [] == plain(source)


def test_code_in_a_list_stands_on_its_own_lines_and_the_text_goes_on_after_it() -> None:
    text, marks = shown("1. Run 😀:\n   ```bash\n   ls\n   ```\n   Then look.\n2. Next\n   - [ ] sub\n   - [x] done")
    assert text == "1. Run 😀:\nls\n   Then look.\n2. Next\n   ☐ sub\n   ☑ done"
    assert marks == [("bash", "ls")]


def test_a_narrow_table_is_aligned_and_a_wide_one_is_a_list() -> None:
    table = "| Name | Qty |\n|:--|--:|\n| 日本 | 1 |\n| **b** | 22 |"
    assert shown(table) == ("Name | Qty\n-----+----\n日本 |   1\nb    |  22",) * 1 + (
        [("pre", "Name | Qty\n-----+----\n日本 |   1\nb    |  22")],
    )
    wide = f"| Name | Meaning |\n|--|--|\n| a | {'long ' * 9}|\n| `b` | |"
    text, marks = shown(wide)
    assert text == f"Name: a\nMeaning: {('long ' * 9).strip()}\n\nName: b"
    assert marks == [("bold", "Name:"), ("bold", "Meaning:"), ("bold", "Name:"), ("code", "b")]


def test_tables_with_links_or_arabic_are_lists_and_surplus_cells_are_kept() -> None:
    assert shown("|a|b|\n|-|-|\n|[x](https://y.zz)|سلام|extra|") == (
        "a: x\nb: سلام\nextra",
        [("bold", "a:"), ("https://y.zz", "x"), ("bold", "b:")],
    )


def test_links_that_telegram_would_refuse_show_their_target() -> None:
    assert shown(
        "[x](foo.md) [y](http://localhost:1/z) [z](javascript:a) [q](https://y.zz:99999) <a@b.cc> [w](#top)"
    ) == (
        "x (foo.md) y (http://localhost:1/z) z (javascript:a) q (https://y.zz:99999) a@b.cc w",
        [],
    )
    assert plain("[x](https://y.zz) <https://y.zz>") == ["x (https://y.zz) https://y.zz"]


def test_what_looks_like_html_or_money_stays_and_what_is_html_works() -> None:
    assert shown("Vec<String> $HOME/$PATH $5 ~6 <b>bold</b><br>a &lt;b&gt;") == (
        "Vec<String> $HOME/$PATH $5 ~6 bold\na <b>",
        [("bold", "bold")],
    )


def test_formulas_are_readable_and_code_is_left_alone() -> None:
    text, marks = shown(r"\(a^2\) and \[\frac{1}{2}\] not `\(b^2\) ||c||`")
    assert text == r"a² and ½ not \(b^2\) ||c||"
    assert marks == [("code", "a²"), ("code", "½"), ("code", r"\(b^2\) ||c||")]


def test_a_formula_may_stand_on_lines_of_its_own() -> None:
    assert shown("Sum:\n\n$$\n\\alpha_{1} + b^2\n$$")[0] == "Sum:\n\n\u03b1₁ + b²"


def test_spoilers_headings_quotes_footnotes_and_nesting() -> None:
    text, marks = shown(
        "# Top\nx ||se **cr** et|| a || b[^1]\n\n> q\n> > deep\n\n[^1]: Note\n\n![pic](https://y.zz/1.png)"
    )
    assert text == "Top\nx se cr et a || b[1]\n\nq\n\ndeep\n\n[1] Note\n\n🖼 pic"
    assert marks == [
        *(("bold", "Top"), ("spoiler", "se cr et"), ("bold", "cr")),
        *(("blockquote", "q\n\ndeep"), ("https://y.zz/1.png", "🖼 pic")),
    ]


def test_bold_stops_at_code_and_a_link_outranks_code() -> None:
    assert shown("**a `b` c** [`d`](https://y.zz)")[1] == [
        ("bold", "a"),
        ("code", "b"),
        ("bold", "c"),
        ("https://y.zz", "d"),
    ]


def test_a_fence_cut_in_two_is_code_with_its_language_in_both_parts() -> None:
    code = [f"    call({number})  # 😀" for number in range(500)]
    parts = render("Look:\n\n```python\n" + "\n".join(code) + "\n```\nDone.")
    assert len(parts) == 3
    for part in parts:
        [block] = part.entities
        assert (block["type"], block["language"]) == ("pre", "python")
    whole = "\n".join(part.text for part in parts)
    assert whole == "Look:\n\n" + "\n".join(code) + "\n\nDone."


def test_a_fence_that_fits_is_not_cut() -> None:
    code = "\n".join(f"line {number}" for number in range(200))
    first, second = render(f"{'Words. ' * 450}\n\n```\n{code}\n```")
    assert second.text == code and first.text.endswith("Words.")


def test_parts_end_at_paragraphs_then_lines_then_sentences_then_words() -> None:
    assert [part.text for part in render("aa bb cc.\n\ndd ee ff gg", 16)] == ["aa bb cc.", "dd ee ff gg"]
    assert [part.text for part in render("aa bb cc\ndd ee ff gg", 16)] == ["aa bb cc", "dd ee ff gg"]
    assert [part.text for part in render("aa bb cc. dd ee ff gg", 16)] == ["aa bb cc.", "dd ee ff gg"]
    assert [part.text for part in render("aa bb cc dd ee ff gg", 16)] == ["aa bb cc dd ee", "ff gg"]


@pytest.mark.parametrize("length", [2_500, 4_096, 9_000])
def test_a_long_word_leaves_no_part_of_a_few_words_before_it(length: int) -> None:
    text = f"Here it is: {'x' * length} and that is all."
    found = [part.text for part in render(text)]
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(len(part) > 2_000 for part in found[:-1])


def test_no_emoji_flag_or_accent_is_torn_apart() -> None:
    for cluster in ("👩‍👩‍👧‍👦", "🇩🇪", "e\u0301\u0323", "👍🏽", "한"):
        source = cluster * 700
        parts = render(source, 501)
        assert [piece for part in parts for piece in wcwidth.iter_graphemes(part.text)] == [cluster] * 700


def test_more_than_a_hundred_entities_become_more_messages() -> None:
    parts = render(" ".join(f"**b{number}** `c{number}`" for number in range(300)))
    assert len(parts) == 6
    assert sum(len(part.entities) for part in parts) == 600
    assert all(refusals(part) == [] for part in parts)


def test_a_long_answer_with_everything_arrives_complete() -> None:
    table = "| Näme | Größe |\n|--|--:|\n" + "".join(f"| zeile{chr(97 + at)} | {at} |\n" for at in range(20))
    section = (
        "## Überschrift 😀\n\nשלם ברך, مرحبا بالعالم! " + "Ein *Satz* mit **Betonung** und `code`. " * 12 + "\n\n"
        "1. eins\n   - zwei\n     ```rust\n     fn main() {}\n     ```\n     drei\n2. vier 👩‍👩‍👧‍👦\n\n"
        f"{table}\n```python\n" + "print('hallo')  # سلام\n" * 40 + "```\n\n> Zitat ||geheim||\n\n"
    )
    source = section * (30_000 // len(section) + 1)
    parts = render(source)
    assert len(source) >= 30_000
    assert all(refusals(part) == [] for part in parts)
    assert len(parts) <= 14
    one = words([part.text for part in render(section, 100_000)])
    assert words([part.text for part in parts]) == one * (30_000 // len(section) + 1)
    assert {"zeilea", "zeilet", "مرحبا", "fn", "geheim", "drei"} <= set(one)


def test_a_table_whose_short_rows_would_be_filled_up_with_cells_is_shown_as_typed() -> None:
    wide = "|a" * 700 + "|\n" + "|-" * 700 + "|\n" + "|a\n" * 390
    assert "|a|a|a" in str(render(wide))
    cells = "|a" * 1_986 + "|\n"
    assert costs_at_most(20, lambda: render(wide), lambda: render(cells))
