"""Who is who: a number, and nobody where it is not known."""

from types import SimpleNamespace
from typing import Any

import pytest

from daycare_plugins.whatsapp.identities import Me, UnknownPersonError, is_me, person, reference, referred, target


def jid(user: str, server: str) -> Any:
    return SimpleNamespace(User=user, Server=server)


NOBODY = jid("", "")


def test_a_person_is_their_number_whichever_way_they_come() -> None:
    assert person(jid("49151", "s.whatsapp.net"), jid("777", "lid"), lambda lid: "") == "49151"
    assert person(jid("777", "lid"), jid("49151", "s.whatsapp.net"), lambda lid: "") == "49151"
    assert person(jid("777", "lid"), NOBODY, {"777": "49151"}.__getitem__) == "49151"


@pytest.mark.parametrize("found", ["", "777@lid", "+49"])
def test_a_hidden_identity_without_a_number_is_nobody(found: str) -> None:
    with pytest.raises(UnknownPersonError):
        person(jid("777", "lid"), NOBODY, lambda lid: found)


def test_a_business_or_bot_without_a_number_is_nobody() -> None:
    with pytest.raises(UnknownPersonError):
        person(jid("meta.ai", "bot"), NOBODY, lambda lid: "1")


def test_references_say_who_wrote_a_message() -> None:
    me = Me(phone="49151", lid="777")
    assert reference("3EB0", "49151:7@s.whatsapp.net", me) == "3EB0/me"
    assert reference("3EB0", "777:2@lid", me) == "3EB0/me"
    assert reference("3EB0", "4917:2@s.whatsapp.net", me) == "3EB0/4917@s.whatsapp.net"
    assert referred("3EB0/4917@s.whatsapp.net") == ("3EB0", "4917@s.whatsapp.net")
    assert not is_me("777@s.whatsapp.net", me)


def test_nobody_is_the_account_before_it_is_known() -> None:
    assert not is_me("@s.whatsapp.net", Me())
    assert not is_me("@lid", Me())


def test_targets_are_numbers_and_groups_only() -> None:
    assert target("49151") == ("49151", "s.whatsapp.net")
    assert target("120363-42@g.us") == ("120363-42", "g.us")
    for wrong in ("", "ann", "49151@lid", "x@g.us", "49151@s.whatsapp.net", "status@broadcast"):
        with pytest.raises(ValueError):
            target(wrong)
