"""What agents may do to each other: defaults, rules, and the line of ancestors. Decided without any I/O."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.base.errors import InvalidError
from daycare.base.path import Kind, Path
from daycare.base.permission import ACTIONS, Decision, OwnRule, Permissions, Rule, check_action, flaws, own_flaws
from daycare.rules.permissions import Party, Rules, Verdict

CONNECTORS = ("direct", "telegram")
ALLOW, ASK, DENY = Decision
KINDS_OF_BEN = (
    "/ben/direct",
    "/ben/telegram/sub/0",
    "/ben/telegram/search/0",
    "/ben/telegram/memory",
    "/ben/agent/x",
    "/ben/agent/x/sub/1/sub/0",
    "/ben/cron/morning",
    "/ben/task/move",
    "/ben/app/notes",
    "/ben/subuser/kid",
    "/ben/subuser/kid/sub/0",
    "/system/gc",
)
KINDS_OF_ANN = tuple(text.replace("/ben/", "/ann/") for text in KINDS_OF_BEN if not text.startswith("/system"))


def path(text: str) -> Path:
    return Path.parse(text, CONNECTORS)


def line(
    subject: str, own: dict[str, Permissions] | None = None, tools: dict[str, tuple[str, ...]] | None = None
) -> list[Party]:
    found: list[Party] = []
    at: Path | None = path(subject)
    while at is not None:
        found.append(Party(at, (own or {}).get(str(at), Permissions()), (tools or {}).get(str(at))))
        at = at.parent
    return found


def decide(subject: str, action: str, target: str, *rules: Rule, **more: object) -> Verdict:
    return Rules(rules).decide(line(subject, **more), action, path(target))  # type: ignore[arg-type]


def rule(decision: Decision, action: str = "message", subject: str = "", target: str = "") -> Rule:
    return Rule(action=action, decision=decision, subject=subject, object=target)


@pytest.mark.parametrize("action", ACTIONS)
def test_nothing_goes_from_one_user_to_another_whatever_kinds_they_are(action: str) -> None:
    for subject, target in [*product(KINDS_OF_ANN, KINDS_OF_BEN), *product(KINDS_OF_BEN, KINDS_OF_ANN)]:
        verdict = decide(subject, action, target)
        assert verdict.decision is DENY, f"{subject} {action} {target}"
        assert "one user to another" in verdict.reason


@pytest.mark.parametrize("action", ACTIONS)
def test_agents_of_one_user_reach_each_other(action: str) -> None:
    apart = ("subuser", "app")
    for subject, target in product(KINDS_OF_ANN, KINDS_OF_ANN):
        if not any(word in subject + target for word in apart):
            assert decide(subject, action, target).decision is ALLOW, f"{subject} {action} {target}"


@pytest.mark.parametrize("action", ACTIONS)
def test_a_sub_user_reaches_nobody_else_and_what_it_keeps_is_its_own(action: str) -> None:
    kid, helper, parent = "/ann/subuser/kid", "/ann/subuser/kid/sub/0", "/ann/direct"
    assert decide(kid, action, helper).decision is ALLOW
    assert decide(kid, action, parent).decision is DENY
    assert decide(helper, action, "/ann/subuser/other").decision is DENY
    assert decide(kid, action, "/ben/subuser/kid").decision is DENY
    assert decide("/ben/direct", action, kid).decision is DENY
    private = action in ("read_memory", "write_memory", "read_history")
    assert decide(parent, action, kid).decision is (DENY if private else ALLOW), "its parent administers it, no more"
    assert decide(parent, action, "/ann/app/notes").decision is (DENY if private else ALLOW)


def test_deny_wins_over_everything_and_ask_over_allow() -> None:
    a, b = "/ann/agent/a", "/ann/agent/b"
    rules = [rule(ALLOW, subject=a, target=b), rule(ASK, target="/ann/**"), rule(DENY, subject="/ann/*")]
    assert decide(a, "message", b, rules[0]).decision is ALLOW
    assert decide(a, "message", b, *rules[:2]).decision is ASK
    assert decide(a, "message", b, *rules).decision is DENY
    verdict = decide(a, "message", b, *rules)
    assert verdict.reason == "rule 3 of config.toml: deny message from /ann/* to all"
    assert [fit.source for fit in verdict.steps[0].fits] == [f"rule {n} of config.toml" for n in (1, 2, 3)]


def test_a_rule_fits_its_action_its_subject_and_its_object() -> None:
    no = rule(DENY, subject="/ann/agent/a/**", target="/ann/agent/b")
    assert decide("/ann/agent/a/sub/0", "message", "/ann/agent/b", no).decision is DENY
    assert decide("/ann/agent/a", "message", "/ann/agent/b/sub/0", no).decision is ALLOW
    assert decide("/ann/agent/ab", "message", "/ann/agent/b", no).decision is ALLOW
    assert decide("/ann/agent/a", "kill", "/ann/agent/b", no).decision is ALLOW
    assert decide("/ann/agent/a", "kill", "/ann/agent/b", rule(DENY, "*")).decision is DENY


def test_a_child_never_exceeds_its_parent() -> None:
    child, grandchild, target = "/ann/agent/a/sub/0", "/ann/agent/a/sub/0/sub/3", "/ann/agent/b"
    no = rule(DENY, subject="/ann/agent/a")  # this path only
    for subject in ("/ann/agent/a", child, grandchild):
        assert decide(subject, "message", target, no).decision is DENY
    verdict = decide(grandchild, "message", target, no)
    assert verdict.limited_by == "/ann/agent/a"
    assert [(step.path, step.decision) for step in verdict.steps] == [
        (grandchild, ALLOW),
        (child, ALLOW),
        ("/ann/agent/a", DENY),
    ]
    yes = rule(ALLOW, subject=child, target="/ben/direct")
    assert decide(child, "message", "/ben/direct", yes).decision is DENY, "its parent was not allowed"


def test_an_agents_own_rules_narrow_it_and_all_below_it() -> None:
    own = {"/ann/agent/a": Permissions(rules=(OwnRule(action="message", decision="deny", object="/ann/agent/b"),))}
    assert decide("/ann/agent/a/sub/0", "message", "/ann/agent/b", own=own).decision is DENY
    assert decide("/ann/agent/a", "message", "/ann/agent/c", own=own).decision is ALLOW
    assert decide("/ann/agent/b", "message", "/ann/agent/b", own=own).decision is ALLOW
    reason = decide("/ann/agent/a", "message", "/ann/agent/b", own=own).reason
    assert reason == "rule 1 of /ann/agent/a itself: deny message to /ann/agent/b"


def test_tools_are_bounded_by_rules_by_what_was_given_and_by_roles() -> None:
    a, child = "/ann/agent/a", "/ann/agent/a/sub/0"
    assert decide(a, "tool:shell", a).decision is ALLOW
    assert decide(a, "tool:shell", a, rule(DENY, "tool:*", "/ann/**")).decision is DENY
    assert decide(a, "tool:shell", a, rule(DENY, "tool:mail")).decision is ALLOW
    assert decide(child, "tool:shell", child, tools={a: ("mail",)}).decision is DENY
    roles = Rules((), {"subagent": ["mail"]})
    assert roles.decide(line(child), "tool:shell", path(child)).reason == (
        "[tools] subagent of config.toml: shell is not among them"
    )
    assert roles.decide(line(a), "tool:shell", path(a)).decision is ALLOW


def test_between_users_an_allow_opens_messages_and_nothing_else() -> None:
    yes = rule(ALLOW, subject="/ben/**", target="/ann/agent/shopping")
    assert decide("/ben/direct", "message", "/ann/agent/shopping", yes).decision is ALLOW
    assert decide("/ben/direct", "message", "/ann/direct", yes).decision is DENY
    assert decide("/ann/agent/shopping", "message", "/ben/direct", yes).decision is DENY, "one way"
    for action in ACTIONS:
        if action != "message":
            everything = rule(ALLOW, "*", "/ben/**", "/ann/**")
            assert decide("/ben/direct", action, "/ann/agent/shopping", everything).decision is DENY


def test_sub_users_of_one_name_are_no_users_of_each_other() -> None:
    for action in ACTIONS:
        if action != "message":
            verdict = decide("/ann/subuser/kid", action, "/ben/subuser/kid", rule(ALLOW, "*", "", ""))
            assert verdict.decision is DENY


paths = st.sampled_from((*KINDS_OF_ANN, *KINDS_OF_BEN))
patterns = st.one_of(
    st.just(""), paths, paths.map(lambda text: f"{text}/**"), st.sampled_from(("/ann/*", "/ann/**", "/ben/**"))
)
rules_of_any_kind = st.lists(
    st.builds(
        Rule,
        action=st.sampled_from((*ACTIONS, "*")),
        decision=st.sampled_from(Decision),
        subject=patterns,
        object=patterns,
    ),
    max_size=6,
)


@given(paths, paths, st.sampled_from(ACTIONS), rules_of_any_kind)
def test_whatever_the_rules_no_child_exceeds_its_parent_and_only_messages_cross(
    subject: str, target: str, action: str, rules: list[Rule]
) -> None:
    decided = Rules(rules).decide(line(subject), action, path(target))
    order = list(Decision)
    parent = path(subject).parent
    if parent is not None:
        above = Rules(rules).decide(line(str(parent)), action, path(target))
        assert order.index(decided.decision) >= order.index(above.decision)
    if path(subject).user != path(target).user and action != "message":
        assert decided.decision is DENY
    more = Rules([*rules, rule(DENY, action)]).decide(line(subject), action, path(target))
    assert more.decision is DENY, "deny wins"


@pytest.mark.parametrize(
    ("wrong", "field", "why"),
    [
        (rule(DENY, "mesage"), "action", "did you mean `message`?"),
        (rule(DENY, "tool:"), "action", "tool:NAME"),
        (rule(DENY, "message", "/ann/tele*"), "subject", "at character 6"),
        (rule(DENY, "tool:shell", "", "/ann/**"), "object", "leave it out"),
        (rule(ALLOW, "tool:shell"), "decision", "allowed by itself"),
        (rule(ALLOW, "message", "/ann/**"), "decision", "write subject and object"),
        (rule(ALLOW, "kill", "/ann/**", "/ben/**"), "decision", "from one user to another"),
        (rule(ALLOW, "*", "/ann/**", "/ben/**"), "decision", "from one user to another"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused_where_it_is_written(wrong: Rule, field: str, why: str) -> None:
    [(key, what)] = flaws([rule(DENY), wrong])
    assert key == ("rules", "2", field)
    assert why in what


def test_own_rules_are_checked_as_well() -> None:
    wrong = Permissions(
        rules=(OwnRule(action="kil", decision="deny"), OwnRule(action="kill", decision="ask", object="x"))
    )
    first, second = own_flaws(wrong)
    assert first.startswith("permissions.rules.1.action: expected one of")
    assert second.startswith("permissions.rules.2.object: read path 'x'")
    with pytest.raises(InvalidError, match="expected one of"):
        check_action("fly")


def test_every_kind_of_address_was_tried() -> None:
    assert {path(text).kind for text in (*KINDS_OF_ANN, *KINDS_OF_BEN)} == set(Kind)
