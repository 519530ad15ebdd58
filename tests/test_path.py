"""The address grammar: what is built can be read, what is outside is refused, and each text has one meaning."""

import copy
import pickle
import re
from collections.abc import Callable
from functools import partial

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from daycare.base.errors import BrokenError, InvalidError
from daycare.base.limits import NAME_MAX_CHARS, PATH_MAX_CHARS, SUB_LEVELS_MAX
from daycare.base.path import CHILD_INDEX_MAX, FetchPolicy, Kind, Path, Pattern, Role, check_name, check_user_id, fetch

CONNECTORS = ("telegram", "telegram-work", "whatsapp", "direct", "x_1")
ROOT_WORDS = ("agent", "cron", "task", "subuser", "app")
RESERVED = (*ROOT_WORDS, "sub", "search", "memory", "system")
DEEPEST = "/sub/0" * SUB_LEVELS_MAX

many = settings(max_examples=200, print_blob=True, deadline=None)  # the blob replays a failure: @reproduce_failure
some = settings(max_examples=80, print_blob=True, deadline=None)

# An independent recogniser: one expression per alternative of the grammar, and no code shared with the parser.
_NAME = r"[abcdefghijklmnopqrstuvwxyz0123456789][abcdefghijklmnopqrstuvwxyz0123456789_-]{0,63}"
_N = r"(?:0|[123456789][0123456789]*)"
_SUFFIXES = rf"(?P<subs>(?:/sub/{_N}){{0,8}})(?P<leaf>/search/{_N}|/memory|)"
_ORACLE = re.compile(
    rf"\A(?:/system/(?P<tag>{_NAME})"
    rf"|/(?!system/)(?:{_NAME})/(?:(?P<connector>{'|'.join(CONNECTORS)})|(?P<word>{'|'.join(ROOT_WORDS)})/{_NAME})"
    rf"{_SUFFIXES})\Z"
)


def oracle(text: str) -> str | None:
    """Return the kind that the grammar gives to `text`, None if it is outside."""
    found = _ORACLE.match(text)
    if not found:
        return None
    if found["tag"]:
        return "system"
    if any(int(n) >= 2**31 for n in re.findall(r"/([0-9]+)", found["subs"] + found["leaf"])):
        return None
    if found["leaf"]:
        return found["leaf"].split("/")[1]
    return "sub" if found["subs"] else found["word"] or "connector"


def parsed(text: str) -> str | None:
    try:
        path = Path.parse(text, CONNECTORS)
    except InvalidError as error:
        assert error.code == "PATH_INVALID" and error.message and error.hint
        return None
    assert str(path) == text
    return path.kind.value


names = st.one_of(
    st.sampled_from((*RESERVED, *CONNECTORS, "a", "7", "a" * NAME_MAX_CHARS)), st.from_regex(_NAME, fullmatch=True)
)
users = names.filter(lambda name: name != "system")
indexes = st.one_of(st.sampled_from((0, 1, 2, 9, 10, CHILD_INDEX_MAX)), st.integers(0, CHILD_INDEX_MAX))
ROOT_BUILDERS: dict[Kind, Callable[[str, str], Path]] = {
    Kind.AGENT: Path.agent,
    Kind.CRON: Path.cron,
    Kind.TASK: Path.task,
    Kind.SUBUSER: Path.subuser,
    Kind.APP: Path.app,
}


@st.composite
def roots(draw: st.DrawFn, users: st.SearchStrategy[str] = users) -> Path:
    user, kind = draw(users), draw(st.sampled_from((Kind.CONNECTOR, *ROOT_BUILDERS)))
    if kind is Kind.CONNECTOR:
        return Path.connector(user, draw(st.sampled_from(CONNECTORS)))
    return ROOT_BUILDERS[kind](user, draw(names))


@st.composite
def paths(draw: st.DrawFn, users: st.SearchStrategy[str] = users) -> Path:
    """Build a path of any kind, through the public builders only."""
    if draw(st.integers(0, 9)) == 0:
        return Path.system(draw(names))
    path = draw(roots(users))
    for n in draw(st.lists(indexes, max_size=SUB_LEVELS_MAX)):
        path = path.sub(n)
    leaf = draw(st.sampled_from(("", "search", "memory")))
    if leaf == "search":
        path = path.search(draw(indexes))
    return path.memory() if leaf == "memory" else path


close_paths = paths(st.sampled_from(("u", "v")))  # few users, so that two drawn paths often are relatives

ODD = ("", "-a", "_", "A", "é", "٣", "00", "01", "+1", "1_0", " 0", "2147483648", "a" * 65, "a\n", "weird", "*", "..")


@st.composite
def near_misses(draw: st.DrawFn) -> str:
    """Take a legal path and change its segments or characters once to three times."""
    text = str(draw(paths()))
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            segments = text.split("/")
            at = draw(st.integers(0, len(segments)))
            new = draw(st.sampled_from((*ODD, *RESERVED, *CONNECTORS, "0", "2147483647")))
            end = min(len(segments), at + draw(st.integers(0, 2)))
            segments[at:end] = draw(st.sampled_from(([new], [], [new, "0"], segments[at:end] * 2)))
            text = "/".join(segments)
        else:
            at = draw(st.integers(0, len(text)))
            new = draw(st.sampled_from(("", "/", "0", "a", "-", "_", "A", "\n", "\0", " ", ".", "ß", "²", "٣")))
            text = text[:at] + new + text[at + draw(st.integers(0, 1)) :]
    return text


@many
@given(paths())
def test_what_is_built_reads_back_as_itself(path: Path) -> None:
    back = Path.parse(str(path), CONNECTORS)
    assert (back, back.kind, back.role, back.user, back.name) == (path, path.kind, path.role, path.user, path.name)
    assert Path.stored(str(path), path.kind) == path
    assert oracle(str(path)) == path.kind
    assert pickle.loads(pickle.dumps(path)) == copy.deepcopy(path) == path


@settings(many, max_examples=400)
@given(st.one_of(near_misses(), st.text("/subagentmory01-_", max_size=30).map(lambda text: "/u" + text)))
@example("/u/telegram\n")
@example("/u/telegram" + DEEPEST + "/memory")
@example("/u/telegram" + DEEPEST + "/sub/0")
@example("/u/telegram/sub/2147483648")
@example("/u/telegram/sub/" + "9" * 200)
@example("/u/agent/" + "a" * 65)
@example("/" + "a" * 65 + "/telegram")
def test_exactly_the_grammar_is_accepted(text: str) -> None:
    assert parsed(text) == oracle(text), repr(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("/u/agent/memory", Kind.AGENT),
        ("/u/agent/sub", Kind.AGENT),
        ("/u/agent/sub/sub/0", Kind.SUB),
        ("/u/agent/memory/memory", Kind.MEMORY),
        ("/u/cron/agent", Kind.CRON),
        ("/u/app/telegram", Kind.APP),
        ("/agent/agent/agent", Kind.AGENT),
        ("/memory/telegram/memory", Kind.MEMORY),
        ("/telegram/telegram", Kind.CONNECTOR),
        ("/u/telegram-work", Kind.CONNECTOR),
        ("/system/system", Kind.SYSTEM),
    ],
)
def test_a_text_that_looks_ambiguous_has_one_meaning(text: str, kind: Kind) -> None:
    path = Path.parse(text, CONNECTORS)
    assert path.kind is kind
    assert Path.stored(text, kind) == path


@pytest.mark.parametrize(
    ("text", "expected", "character"),
    [
        ("u/telegram", "'/'", 1),
        ("/", "a user id", 2),
        ("/u", "a connector or one of agent", 3),
        ("/u/", "a connector or one of agent", 4),
        ("/u/telegrm", "a registered connector", 4),
        ("/u/memory", "a connector or one of agent", 4),
        ("/u/search/0", "a connector or one of agent", 4),
        ("/u/system", "a connector or one of agent", 4),
        ("/u/agent", "the agent's name", 9),
        ("/u/agent/", "the agent's name", 10),
        ("/u/telegram/", "sub/<n>, search/<n>, memory or the end", 13),
        ("/u/telegram/sub", "a decimal index", 16),
        ("/u/telegram/sub/00", "a decimal index", 17),
        ("/u/telegram/sub/0/weird", "sub/<n>, search/<n>, memory or the end", 19),
        ("/u/telegram/memory/sub/0", "the end, as a memory path has no children", 20),
        ("/u/telegram/search/0/memory", "the end, as a search path has no children", 22),
        ("/system", "a system name", 8),
        ("/system/telegram/sub/0", "the end, as /system/<name> has no children", 18),
        ("/u/telegram" + DEEPEST + "/sub/0", "at most 8 sub levels", 61),
    ],
)
def test_a_refusal_says_what_was_expected_and_where(text: str, expected: str, character: int) -> None:
    with pytest.raises(InvalidError) as caught:
        Path.parse(text, CONNECTORS)
    assert caught.value.code == "PATH_INVALID"
    assert f"expected {expected}" in caught.value.message
    assert f"at character {character}" in caught.value.message


def test_a_typo_in_a_connector_names_the_registered_ones() -> None:
    with pytest.raises(InvalidError) as caught:
        Path.parse("/u/telegrm", {"telegram", "direct"})
    assert caught.value.hint == "registered connectors: direct, telegram"


@pytest.mark.parametrize("word", RESERVED)
def test_a_reserved_word_is_no_connector_even_if_a_plugin_registers_it(word: str) -> None:
    with pytest.raises(InvalidError, match="reserved"):
        Path.connector("u", word)
    with pytest.raises(InvalidError):
        Path.parse(f"/u/{word}", [word])


def test_long_or_hostile_text_is_not_repeated_in_the_error() -> None:
    for text in ("/u/" + "a" * 1_000_000, "/u/telegram\x1b[31m\u202e\n"):
        with pytest.raises(InvalidError) as caught:
            Path.parse(text, CONNECTORS)
        assert len(str(caught.value)) < 500
        assert str(caught.value).isprintable() and str(caught.value).isascii()


def test_the_longest_path_of_the_grammar_is_accepted_and_sets_the_length_bound() -> None:
    path = Path.subuser("u" * NAME_MAX_CHARS, "n" * NAME_MAX_CHARS)
    for _ in range(SUB_LEVELS_MAX):
        path = path.sub(CHILD_INDEX_MAX)
    path = path.search(CHILD_INDEX_MAX)
    assert len(str(path)) == PATH_MAX_CHARS
    assert Path.parse(str(path), ()) == path


def test_sub_agents_end_at_the_depth_bound_for_each_kind_of_root() -> None:
    for path in (Path.connector("u", "telegram"), Path.agent("u", "sub")):
        for _ in range(SUB_LEVELS_MAX):
            path = path.sub(0)
        assert path.memory().parent == path == path.search(3).parent
        with pytest.raises(InvalidError, match="sub levels"):
            path.sub(0)


@some
@given(paths(), indexes)
def test_leaves_have_no_children(path: Path, n: int) -> None:
    leaf = path.kind in (Kind.MEMORY, Kind.SEARCH, Kind.SYSTEM)
    children: tuple[Callable[[], Path], ...] = (lambda: path.search(n), path.memory, lambda: path.sub(n))
    for child in children if leaf else children[:2]:
        if leaf:
            with pytest.raises(InvalidError, match="no children"):
                child()
        else:
            assert child().parent == path


@pytest.mark.parametrize("n", [-1, 2**31, True, 1.0, "1", None])
def test_only_whole_numbers_within_bounds_are_indexes(n: object) -> None:
    for child in (Path.agent("u", "x").sub, Path.agent("u", "x").search):
        with pytest.raises(InvalidError):
            child(n)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "-a", "_a", "A", "a b", "a/b", "a\n", "é", "²", "٣", "a" * 65, "a.b", "*"])
def test_builders_refuse_what_is_no_name(text: str) -> None:
    builds: list[Callable[[], object]] = [lambda: check_name(text, "x"), lambda: check_user_id(text)]
    builds.append(lambda: Path.system(text))
    for make in (Path.connector, *ROOT_BUILDERS.values()):
        builds += [partial(make, "u", text), partial(make, text, "telegram")]
    for build in builds:
        with pytest.raises(InvalidError) as caught:
            build()
        assert caught.value.code == "PATH_INVALID"


@pytest.mark.parametrize("make", [Path.connector, *ROOT_BUILDERS.values()])
def test_system_is_no_user(make: Callable[[str, str], Path]) -> None:
    with pytest.raises(InvalidError, match="daemon itself"):
        make("system", "telegram")


def test_check_name_and_check_user_id_return_what_they_accept() -> None:
    assert check_name("system", "agent name") == "system"
    assert check_user_id("agent") == "agent"
    with pytest.raises(InvalidError, match="as group name"):
        check_name("No", "group name")


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("/u/telegram", Role.USER),
        ("/u/agent/x", Role.USER),
        ("/u/subuser/x", Role.USER),
        ("/u/app/x", Role.USER),
        ("/u/cron/x", None),
        ("/u/task/x", Role.TASK),
        ("/u/cron/x/sub/0", Role.SUBAGENT),
        ("/u/task/x/search/0", Role.MEMORY_SEARCH),
        ("/u/telegram/memory", Role.MEMORY),
        ("/system/status", None),
    ],
)
def test_the_role_follows_from_the_kind(text: str, role: Role | None) -> None:
    path = Path.parse(text, CONNECTORS)
    assert path.role is role
    assert path.is_foreground is (text in ("/u/telegram", "/u/subuser/x"))
    assert path.user == text.split("/")[1] and path.name == text.split("/")[-1]


@many
@given(close_paths, close_paths, close_paths)
def test_order_is_total_and_agrees_with_equality_and_hash(a: Path, b: Path, c: Path) -> None:
    assert (a < b) + (a == b) + (a > b) == 1
    assert (a == b) is (str(a) == str(b))
    assert (a <= b) is (not b < a) and (a >= b) is (not a < b)
    x, y, z = sorted((a, b, c))
    assert x <= y <= z and x <= z
    assert a != b or hash(a) == hash(b)
    assert len({a, b, c}) == len({str(a), str(b), str(c)})
    assert a != str(a)


def test_sorting_puts_a_parent_before_its_subtree_and_counts_indexes() -> None:
    texts = ("/u/agent/a", "/u/agent/a/sub/2", "/u/agent/a/sub/2/memory", "/u/agent/a/sub/10", "/u/agent/a-b")
    assert [str(p) for p in sorted(Path.parse(t, ()) for t in reversed(texts))] == list(texts)


@many
@given(close_paths, close_paths)
def test_a_path_is_under_exactly_itself_and_its_ancestors(a: Path, b: Path) -> None:
    chain: list[Path] = [a]
    while (parent := chain[-1].parent) is not None:
        assert oracle(str(parent)) == parent.kind and parent.user == a.user
        assert parent < chain[-1]
        chain.append(parent)
    assert all(a.is_under(ancestor) for ancestor in chain)
    assert a.is_under(b) is (b in chain)
    assert chain[-1].kind not in (Kind.SUB, Kind.SEARCH, Kind.MEMORY)


@pytest.mark.parametrize(
    ("text", "parent"),
    [
        ("/u/telegram/sub/0", "/u/telegram"),
        ("/u/telegram/memory", "/u/telegram"),
        ("/u/agent/sub/sub/0/search/7", "/u/agent/sub/sub/0"),
        ("/u/agent/memory", None),
        ("/system/status", None),
    ],
)
def test_the_parent_is_the_agent_above_and_roots_have_none(text: str, parent: str | None) -> None:
    assert Path.parse(text, CONNECTORS).parent == (parent and Path.parse(parent, CONNECTORS))


def test_a_name_that_begins_alike_is_not_under() -> None:
    assert not Path.agent("u", "ab").is_under(Path.agent("u", "a"))
    assert not Path.agent("u", "a").sub(10).is_under(Path.agent("u", "a").sub(1))


def test_a_row_loads_after_its_connector_is_gone() -> None:
    path = Path.stored("/u/matrix/sub/0", Kind.SUB)
    assert path.parent == Path.connector("u", "matrix")
    with pytest.raises(InvalidError):
        Path.parse("/u/matrix/sub/0", CONNECTORS)


@some
@given(paths(), st.sampled_from(Kind))
def test_a_row_whose_kind_contradicts_its_text_is_damage(path: Path, kind: Kind) -> None:
    if kind is path.kind:
        return
    with pytest.raises(BrokenError) as caught:
        Path.stored(str(path), kind)
    assert caught.value.code == "PATH_STORED"


def test_a_row_outside_the_grammar_is_damage() -> None:
    with pytest.raises(BrokenError, match="expected sub/<n>"):
        Path.stored("/u/telegram/weird", Kind.CONNECTOR)


def test_a_path_cannot_be_changed_made_or_decoded_past_the_grammar() -> None:
    path = Path.agent("u", "x")
    with pytest.raises(AttributeError):
        path._text = "/u/agent/y"
    with pytest.raises(AttributeError):
        del path._text
    with pytest.raises(AttributeError):
        path.anything = 1
    with pytest.raises(TypeError):
        Path("/u/agent/x")  # type: ignore[call-arg]
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'"/U"', type=Path)
    assert repr(path) == "Path('/u/agent/x')"


@pytest.mark.parametrize(
    ("name", "label"),
    [("Xavier", "/u/agent/x (Xavier)"), (None, "/u/agent/x"), (" \n", "/u/agent/x"), ("a\n\x1bb", "/u/agent/x (a b)")],
)
def test_a_label_shows_the_configured_name_on_one_line(name: str | None, label: str) -> None:
    assert Path.agent("u", "x").label(name) == label


@many
@given(close_paths, close_paths, st.sampled_from(("u", "v", "system")))
def test_patterns_match_as_their_meaning_says(path: Path, base: Path, user: str) -> None:
    def matches(text: str) -> bool:
        pattern = Pattern(text, CONNECTORS)
        assert str(pattern) == text
        return pattern.matches(path)

    assert matches(f"/{user}/**") is (path.user == user)
    assert matches(f"/{user}/*") is (path.user == user and path.parent is None)
    if len(str(base)) < PATH_MAX_CHARS - 3:
        assert matches(f"{base}/**") is path.is_under(base)
        assert matches(str(base)) is (path == base)


OUTSIDE = "/ * /* /** /*/** /u /u/*** /u/**/x /u/agent/* /u/agent/** /u/telegrm/** /u/telegram/* /u/telegram/sub/**"


@pytest.mark.parametrize("text", ["", *f"{OUTSIDE} /U/** /u/tele* /u/**/** /u/*/** /u/telegram/ /u//**".split()])
def test_a_pattern_outside_the_four_forms_is_refused(text: str) -> None:
    with pytest.raises(InvalidError) as caught:
        Pattern(text, CONNECTORS)
    assert caught.value.code == "PATH_INVALID"


def test_a_stored_pattern_outlives_its_connector() -> None:
    assert Pattern("/u/matrix/**", None).matches(Path.connector("u", "matrix").sub(1))


def test_the_most_recent_foreground_is_the_users_latest_conversation() -> None:
    telegram, direct = Path.connector("u", "telegram"), Path.connector("u", "direct")
    candidates = [
        (direct, 5),
        (telegram, 7),
        (Path.agent("u", "x"), 9),
        (telegram.sub(0), 8),
        (Path.connector("v", "telegram"), 10),
    ]
    assert fetch(FetchPolicy.MOST_RECENT_FOREGROUND, "u", candidates) == [telegram]
    assert fetch(FetchPolicy.MOST_RECENT_FOREGROUND, "w", candidates) == []
    assert fetch(FetchPolicy.ALL_OF_USER, "u", candidates) == [Path.agent("u", "x"), telegram.sub(0), telegram, direct]


@some
@given(st.permutations([(Path.connector("u", name), n // 2) for n, name in enumerate(CONNECTORS)]))
def test_fetching_does_not_depend_on_the_order_of_candidates(candidates: list[tuple[Path, int]]) -> None:
    expected = sorted(sorted(path for path, _ in candidates), key=lambda path: -dict(candidates)[path])
    assert fetch(FetchPolicy.ALL_OF_USER, "u", candidates) == expected
    assert fetch(FetchPolicy.MOST_RECENT_FOREGROUND, "u", candidates) == expected[:1]
