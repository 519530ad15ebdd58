"""Signatures: the examples that GitHub and Standard Webhooks publish, and everything that is not quite one."""

import hmac

import pytest

from daycare.base.errors import InvalidError
from daycare.features.hooks import schemes
from daycare.features.hooks.records import HookScheme

GITHUB_SECRET = "It's a Secret to Everybody"
GITHUB_BODY = b"Hello, World!"
GITHUB_SIGNATURE = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STANDARD_BODY = b'{"test": 2432232314}'
STANDARD_AT_S = 1_614_265_330
STANDARD = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": str(STANDARD_AT_S),
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


def test_githubs_published_example_is_genuine() -> None:
    headers = {"x-hub-signature-256": GITHUB_SIGNATURE}
    assert schemes.is_genuine(HookScheme.GITHUB, [GITHUB_SECRET], headers, GITHUB_BODY)
    assert schemes.is_genuine(HookScheme.GITHUB, ["another one, newer", GITHUB_SECRET], headers, GITHUB_BODY)


@pytest.mark.parametrize(
    ("headers", "body", "secret"),
    [
        ({}, GITHUB_BODY, GITHUB_SECRET),
        ({"x-hub-signature-256": GITHUB_SIGNATURE}, b"Hello, World?", GITHUB_SECRET),
        ({"x-hub-signature-256": GITHUB_SIGNATURE}, GITHUB_BODY, GITHUB_SECRET + "x"),
        ({"x-hub-signature-256": GITHUB_SIGNATURE.removeprefix("sha256=")}, GITHUB_BODY, GITHUB_SECRET),
        ({"x-hub-signature-256": GITHUB_SIGNATURE[:-1]}, GITHUB_BODY, GITHUB_SECRET),
        ({"x-hub-signature": "sha1=" + GITHUB_SIGNATURE[7:47]}, GITHUB_BODY, GITHUB_SECRET),
        ({"x-hub-signature-256": "sha256=\u00fc\ud800"}, GITHUB_BODY, GITHUB_SECRET),
        ({"authorization": f"Bearer {GITHUB_SECRET}"}, GITHUB_BODY, GITHUB_SECRET),
    ],
)
def test_what_is_not_quite_githubs_signature_is_none(headers: dict[str, str], body: bytes, secret: str) -> None:
    assert not schemes.is_genuine(HookScheme.GITHUB, [secret], headers, body)


def test_the_published_example_of_standard_webhooks_is_genuine_at_its_time() -> None:
    assert schemes.is_genuine(HookScheme.STANDARD, [STANDARD_SECRET], STANDARD, STANDARD_BODY)
    assert schemes.is_fresh(HookScheme.STANDARD, STANDARD, STANDARD_AT_S + 300)
    assert schemes.is_fresh(HookScheme.STANDARD, STANDARD, STANDARD_AT_S - 300)
    assert not schemes.is_fresh(HookScheme.STANDARD, STANDARD, STANDARD_AT_S + 301)
    assert not schemes.is_fresh(HookScheme.STANDARD, STANDARD, STANDARD_AT_S - 301)
    older = {name.replace("webhook-", "svix-"): value for name, value in STANDARD.items()}
    assert schemes.is_genuine(HookScheme.STANDARD, [STANDARD_SECRET], older, STANDARD_BODY)


def test_what_stripe_signs_is_genuine_at_its_time_whichever_signature_it_is() -> None:
    """As https://docs.stripe.com/webhooks#verify-manually has it: HMAC-SHA256 of `t`, a dot and the body, in hex."""
    body, at_s = b'{"id": "evt_1", "type": "invoice.paid"}', 1_492_774_577
    right = hmac.new(OTHER.encode(), b"%d." % at_s + body, "sha256").hexdigest()
    headers = {"stripe-signature": f"t={at_s},v1={'0' * 64},v1={right},v0={'1' * 64}"}
    assert schemes.is_genuine(HookScheme.STRIPE, [OTHER], headers, body)
    assert schemes.is_fresh(HookScheme.STRIPE, headers, at_s + 300)
    assert not schemes.is_fresh(HookScheme.STRIPE, headers, at_s + 301)
    assert schemes.delivery_of(HookScheme.STRIPE, headers, {"id": "evt_1"}) == "evt_1"
    for wrong in (f"t={at_s + 1},v1={right}", f"t={at_s},v0={right}", f"v1={right}", f"t={at_s}", "", ",=,t,"):
        assert not schemes.is_genuine(HookScheme.STRIPE, [OTHER], {"stripe-signature": wrong}, body), wrong
    assert not schemes.is_fresh(HookScheme.STRIPE, {"stripe-signature": f"v1={right}"}, at_s)


def test_one_of_several_signatures_is_enough_and_only_some_are_looked_at() -> None:
    right, wrong = STANDARD["webhook-signature"], "v1,AAAA"
    several = STANDARD | {"webhook-signature": f"v1a,xyz {wrong} {right}"}
    assert schemes.is_genuine(HookScheme.STANDARD, [STANDARD_SECRET], several, STANDARD_BODY)
    many = STANDARD | {"webhook-signature": " ".join([wrong] * schemes.HOOK_SIGNATURES_MAX + [right])}
    assert not schemes.is_genuine(HookScheme.STANDARD, [STANDARD_SECRET], many, STANDARD_BODY)


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook-id": "msg_other"},
        {"webhook-timestamp": str(STANDARD_AT_S + 1)},
        {"webhook-signature": "v2," + STANDARD["webhook-signature"][3:]},
        {"webhook-signature": STANDARD["webhook-signature"][3:]},
        {"webhook-signature": ""},
        {"webhook-id": ""},
    ],
)
def test_each_part_of_a_standard_delivery_is_signed(changed: dict[str, str]) -> None:
    assert not schemes.is_genuine(HookScheme.STANDARD, [STANDARD_SECRET], STANDARD | changed, STANDARD_BODY)
    assert not schemes.is_genuine(HookScheme.STANDARD, [OTHER], STANDARD, STANDARD_BODY)


@pytest.mark.parametrize("time", ["", "now", "-1", "1e9", "\u0661" * 10, "9" * 5_000, "1614265330.0"])
def test_a_time_that_is_no_number_is_not_fresh(time: str) -> None:
    assert not schemes.is_fresh(HookScheme.STANDARD, {"webhook-timestamp": time}, STANDARD_AT_S)


def test_a_bearer_is_the_secret_itself() -> None:
    secret = schemes.new_secret(HookScheme.BEARER)
    for sent, right in ((f"Bearer {secret}", True), (f"bearer  {secret} ", True), (secret, False), ("Bearer ", False)):
        assert schemes.is_genuine(HookScheme.BEARER, [secret], {"authorization": sent}, b"") is right


@pytest.mark.parametrize("scheme", list(HookScheme))
def test_what_a_new_secret_signs_is_genuine_and_an_empty_delivery_is_not(scheme: HookScheme) -> None:
    secret = schemes.check_secret(scheme, schemes.new_secret(scheme))
    headers = schemes.signed(scheme, secret, b"{}", delivery="d1", event="push", now_s=1_000.0)
    assert schemes.is_genuine(scheme, [secret], headers, b"{}")
    assert schemes.delivery_of(scheme, headers, {"id": "d1"}) == "d1"
    assert not schemes.is_genuine(scheme, [secret], {}, b"")
    assert not schemes.is_genuine(scheme, [schemes.new_secret(scheme)], headers, b"{}")


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        (HookScheme.BEARER, "short"),
        (HookScheme.GITHUB, "x" * 201),
        (HookScheme.GITHUB, " with spaces around it "),
        (HookScheme.BEARER, "sixteen letters \u00fc"),
        (HookScheme.STANDARD, "whsec_not base64, of course"),
        (HookScheme.STANDARD, "whsec_AAAAAAAAAAAAAAA="),
    ],
)
def test_a_secret_that_is_weak_or_cannot_be_sent_is_refused_and_not_shown(scheme: HookScheme, text: str) -> None:
    with pytest.raises(InvalidError) as caught:
        schemes.check_secret(scheme, text)
    assert caught.value.code == "HOOK_SECRET" and text not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "payload", "event"),
    [
        ({"x-github-event": "issues"}, {"action": "opened"}, "issues.opened"),
        ({"x-github-event": "push"}, {"ref": "main"}, "push"),
        ({"x-github-event": "push"}, [1], "push"),
        ({}, {"type": "invoice.paid", "action": "x"}, "invoice.paid"),
        ({}, {"event": "bell"}, "bell"),
        ({}, {"type": 3}, ""),
        ({}, "text", ""),
    ],
)
def test_an_event_is_called_as_its_sender_calls_it(headers: dict[str, str], payload: object, event: str) -> None:
    assert schemes.event_of(headers, payload) == event
