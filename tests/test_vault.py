"""The vault: what is sealed can be opened with the key file and with nothing else, and the file is nobody else's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daycare.base.errors import BrokenError, ConflictError, InvalidError
from daycare.store import vault
from daycare.store.vault import VAULT_KEYS_MAX, check_key_name, open_vault

SECRET = "sk-" + "0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "daycare.key"


def test_sealed_secret_is_opened_and_cannot_be_read(file: Path) -> None:
    ours = open_vault(file)
    token = ours.seal(SECRET)
    assert SECRET.encode() not in token
    assert ours.open(token) == SECRET
    assert open_vault(file).open(token) == SECRET


def test_a_derived_secret_is_of_one_installation_and_one_purpose(file: Path, tmp_path: Path) -> None:
    found = {open_vault(file).derived("prompt"), open_vault(file).derived("prompt"), open_vault(file).derived("more")}
    assert len(found | {open_vault(tmp_path / "other.key").derived("prompt")}) == 3


@settings(max_examples=50, print_blob=True, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    ours = open_vault(tmp_path_factory.getbasetemp() / "any.key")
    assert ours.open(ours.seal(text)) == text


def test_key_file_is_made_private_whatever_the_umask(file: Path) -> None:
    before = os.umask(0)
    try:
        open_vault(file)
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_key_that_another_process_made_meanwhile_is_kept(file: Path) -> None:
    open_vault(file)
    before = file.read_text()
    with pytest.raises(FileExistsError):
        vault._create(file)
    assert file.read_text() == before
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610])
def test_key_file_that_others_may_use_is_refused_with_the_repair(file: Path, mode: int) -> None:
    open_vault(file)
    file.chmod(mode)
    with pytest.raises(BrokenError) as caught:
        open_vault(file)
    assert (caught.value.code, caught.value.hint) == ("KEY_FILE_UNSAFE", f"chmod 600 {file}")


@pytest.mark.parametrize("content", ["", "\n#only a comment\n", "tooshort\n", "é", "A" * 44 + "\n" + "\n" * 20_000])
def test_damaged_key_file_is_refused_and_not_replaced(file: Path, content: str) -> None:
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(BrokenError) as caught:
        open_vault(file)
    assert caught.value.code == "KEY_FILE_UNUSABLE"
    assert file.read_text() == content


def test_error_about_a_key_does_not_show_it(file: Path) -> None:
    file.write_text("x" + SECRET + "\n")
    file.chmod(0o600)
    with pytest.raises(BrokenError) as caught:
        open_vault(file)
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None
    assert SECRET not in repr(caught.value)


def test_folder_that_is_missing_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(BrokenError, match="No such file"):
        open_vault(tmp_path / "nowhere/daycare.key")


def test_wrong_key_and_changed_token_are_refused_with_the_repair(file: Path, tmp_path: Path) -> None:
    token = open_vault(file).seal(SECRET)
    other = open_vault(tmp_path / "other.key")
    changed = bytearray(token)
    changed[len(changed) // 2] ^= 1
    for opened, damaged in ((other, token), (open_vault(file), bytes(changed)), (other, b""), (other, b"\xff")):
        for work in (opened.open, opened.reseal):
            with pytest.raises(BrokenError) as caught:
                work(damaged)
            assert caught.value.code == "SECRET_SEALED"
            assert "daycare keys add" in caught.value.hint


def test_rotation_seals_with_the_new_key_and_opens_what_the_old_one_sealed(file: Path) -> None:
    ours = open_vault(file)
    old_key = file.read_text()
    old = ours.seal(SECRET)
    ours.rotate()
    new = ours.seal(SECRET)
    resealed = ours.reseal(old)
    keys = file.read_text().splitlines(keepends=True)
    assert keys[1:] == [old_key]
    assert file.stat().st_mode & 0o777 == 0o600
    assert [open_vault(file).open(token) for token in (old, new, resealed)] == [SECRET] * 3

    file.write_text(keys[0])
    assert [open_vault(file).open(token) for token in (new, resealed)] == [SECRET] * 2
    with pytest.raises(BrokenError):
        open_vault(file).open(old)
    assert list(file.parent.iterdir()) == [file]


def test_rotation_keeps_keys_that_were_added_by_hand_and_ends_at_the_bound(file: Path) -> None:
    ours = open_vault(file)
    for _ in range(VAULT_KEYS_MAX - 1):
        ours.rotate()
    with pytest.raises(ConflictError, match=str(VAULT_KEYS_MAX)):
        ours.rotate()
    assert len(file.read_text().split()) == VAULT_KEYS_MAX


def test_rotation_writes_through_a_link(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.key"
    open_vault(file)
    link.symlink_to(file)
    open_vault(link).rotate()
    assert link.is_symlink()
    assert len(file.read_text().split()) == 2


def test_systemd_credential_is_used_instead_and_never_written(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    token = open_vault(file).seal(SECRET)  # no such credential yet: the file is used
    file.rename(credentials / "daycare-key")
    (credentials / "daycare-key").chmod(0o440)
    ours = open_vault(file)
    assert ours.open(token) == SECRET
    assert not file.exists()
    with pytest.raises(ConflictError) as caught:
        ours.rotate()
    assert caught.value.code == "KEY_NOT_OURS"


def test_vault_does_not_show_its_keys(file: Path) -> None:
    ours = open_vault(file)
    key = file.read_text().strip()
    assert key not in repr(ours)
    assert str(file) in repr(ours)


def test_names_of_keys_are_checked() -> None:
    for name in ("telegram-work", "telegram.family", "whatsapp_cloud.app_secret"):
        assert check_key_name(name) == name
    for name in ("", "Open AI", "a/b", "x" * 65, "-x", "a.", ".a", "a.b.c", "a.B"):
        with pytest.raises(InvalidError) as caught:
            check_key_name(name)
        assert caught.value.code == "KEY_NAME_INVALID"


def test_cryptography_is_not_loaded_before_there_is_a_secret(file: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from daycare.store.vault import open_vault; vault = open_vault(Path("
        "sys.argv[1])); print('cryptography' in sys.modules); vault.seal('x'); print('cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
