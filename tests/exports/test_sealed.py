"""An encrypted export opens with its passphrase, whole and unchanged, or not at all."""

import random

import pytest

from daycare.base.errors import InvalidError
from daycare.base.limits import EXPORT_CHUNK_BYTES
from daycare.features.exports import sealed
from daycare.features.exports.sealed import check_passphrase, is_sealed, seal, unseal

WORDS = "correct horse battery staple"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guesses need not be dear here."""
    monkeypatch.setattr(sealed, "_N", 2**4)


def closed(data: bytes, passphrase: str = WORDS) -> bytes:
    return b"".join(seal((data[at : at + 1_000] for at in range(0, len(data), 1_000)), passphrase))


def opened(data: bytes, passphrase: str = WORDS, piece: int = 70_001) -> bytes:
    return b"".join(unseal((data[at : at + piece] for at in range(0, len(data), piece)), passphrase))


@pytest.mark.parametrize(
    "size", [0, 1, EXPORT_CHUNK_BYTES - 1, EXPORT_CHUNK_BYTES, EXPORT_CHUNK_BYTES + 1, 3 * EXPORT_CHUNK_BYTES]
)
def test_what_was_sealed_can_be_opened(size: int) -> None:
    data = random.Random(size).randbytes(size)
    whole = closed(data)
    assert is_sealed(whole) and not is_sealed(data)
    assert size < 32 or data[:32] not in whole
    for piece in (64, 1_000, 70_001):
        assert opened(whole, piece=piece) == data


def test_two_seals_of_the_same_have_nothing_in_common() -> None:
    first, second = closed(b"the same"), closed(b"the same")
    assert first[8:24] != second[8:24] and first[40:] != second[40:]


def test_another_passphrase_is_told_as_such() -> None:
    with pytest.raises(InvalidError) as wrong:
        opened(closed(b"something"), WORDS + " ")
    assert wrong.value.code == "PASSPHRASE_WRONG"


def test_the_same_words_in_another_unicode_form_open_it() -> None:
    assert opened(closed(b"something", "Vier W\u00f6rter sind genug"), "Vier Wo\u0308rter sind genug") == b"something"


def test_every_changed_byte_is_found() -> None:
    whole = closed(b"x" * 300)
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1
        with pytest.raises(InvalidError) as found:
            opened(bytes(changed))
        assert found.value.code in ("PASSPHRASE_WRONG", "EXPORT_DAMAGED", "EXPORT_FROM_FUTURE"), at


def test_a_file_that_is_cut_off_anywhere_is_not_taken_for_a_whole_one() -> None:
    whole = closed(bytes(2 * EXPORT_CHUNK_BYTES + 10))
    head, chunk = 40, EXPORT_CHUNK_BYTES + 16
    for at in (0, 1, head - 1, head, head + 1, head + chunk - 1, head + chunk, head + 2 * chunk, len(whole) - 1):
        with pytest.raises(InvalidError) as found:
            opened(whole[:at])
        assert found.value.code == "EXPORT_DAMAGED", at


def test_chunks_can_be_neither_moved_nor_repeated_nor_taken_from_another_file() -> None:
    whole, other = closed(bytes(3 * EXPORT_CHUNK_BYTES)), closed(bytes(3 * EXPORT_CHUNK_BYTES))
    head, size = whole[:40], EXPORT_CHUNK_BYTES + 16
    chunks = [whole[40 + at : 40 + at + size] for at in range(0, len(whole) - 40, size)]
    foreign = other[40 : 40 + size]
    for wrong in ([chunks[1], chunks[0], *chunks[2:]], [chunks[0], *chunks], [foreign, *chunks[1:]], chunks[1:]):
        with pytest.raises(InvalidError):
            opened(head + b"".join(wrong))


def test_a_short_passphrase_is_refused() -> None:
    with pytest.raises(InvalidError, match="fewer than 8"):
        check_passphrase("1234567")
    assert check_passphrase("12345678")


def test_the_real_cost_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert opened(closed(b"something")) == b"something"
    assert sealed._N == 2**17
