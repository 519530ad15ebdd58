"""Pairing codes, and how people type them."""

import hashlib
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.base.errors import InvalidError
from daycare.base.pairing import code_hash, is_out, new_code, suggested_ids
from daycare.base.path import check_user_id


def test_a_code_is_eight_digits_that_nobody_mistakes() -> None:
    for _ in range(1_000):
        code = new_code()
        assert len(code) == 9 and code[4] == "-"
        assert set(code) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ-")


def test_codes_do_not_repeat() -> None:
    assert len({new_code() for _ in range(5_000)}) == 5_000, "40 bits: one repeat in 90,000 runs of this test"


def test_every_digit_is_used() -> None:
    assert len(set("".join(new_code() for _ in range(500)))) == 33


@pytest.mark.parametrize(
    "typed", ["7K1M-20DA", "7k1m-20da", "7K1M20DA", " 7k1m 20da\n", "7KIM-2ODA", "7kim-2oda", "7KLM20DA", "7klm-2ODA"]
)
def test_a_code_is_read_however_it_is_typed(typed: str) -> None:
    assert code_hash(typed) == hashlib.sha256(b"7K1M20DA").hexdigest()


@pytest.mark.parametrize("typed", ["", "-", "7K1M", "7K1M-20D", "7K1M-20DAA", "7K1M-20DU", "7K1M_20DA", "7K1M-20D!"])
def test_what_can_be_no_code_is_refused_without_repeating_it(typed: str) -> None:
    with pytest.raises(InvalidError) as caught:
        code_hash(typed)
    assert caught.value.code == "PAIR_CODE_MALFORMED"
    assert len(typed) < 4 or typed not in str(caught.value)


def test_a_long_text_is_refused_before_it_is_looked_at() -> None:
    with pytest.raises(InvalidError):
        code_hash("-" * 10_000_000 + "7K1M20DA")


@given(st.text(max_size=40))
def test_whatever_is_typed_is_a_hash_or_refused(typed: str) -> None:
    try:
        assert len(code_hash(typed)) == 64
    except InvalidError:
        pass


def test_different_codes_have_different_hashes() -> None:
    assert code_hash("7K1M-20DA") != code_hash("7K1M-20DB")


@given(st.text(max_size=200), st.text(max_size=200), st.booleans())
def test_every_suggested_id_can_be_one(name: str, key: str, group: bool) -> None:
    found = list(islice(suggested_ids(name, key, group=group), 12))
    assert [check_user_id(each) for each in found] == found
    assert len(set(found)) >= 11, "there is no end of them"


def test_a_person_is_called_by_their_first_name_and_a_group_by_its_whole() -> None:
    assert list(islice(suggested_ids("Ben Smith", "telegram:42", group=False), 3)) == [
        "ben",
        "ben-smith",
        "ben-smith-2",
    ]
    assert next(suggested_ids("The Family", "telegram:-7", group=True)) == "the-family"


@pytest.mark.parametrize(
    ("until_ms", "tries", "out"),
    [(1_001, 0, True), (1_001, 4, True), (1_000, 0, False), (1_001, 5, False), (0, 0, False)],
)
def test_a_code_is_out_until_its_time_or_too_many_wrong_ones(until_ms: int, tries: int, out: bool) -> None:
    assert is_out(until_ms, tries, 1_000) is out
