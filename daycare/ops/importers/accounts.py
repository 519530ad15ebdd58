"""Lists of those who may write, as people: which accounts are the owner's own, and which are somebody else's."""

from collections.abc import Iterable

from daycare.ops.importers.import_model import OWNER, ImportedPerson, ImportModel
from daycare.ops.importers.words import key_of

EVERYBODY = "*"


class Accounts:
    """Collects accounts from lists; `people` says who they are."""

    def __init__(self, imported: ImportModel) -> None:
        self._imported = imported
        self._found: dict[str, tuple[str, str]] = {}  # by key: a name, and the source
        self._owners: dict[str, str] = {}

    def add(self, channel: str, account: str, source: str, *, name: str = "") -> None:
        """Add an account that may write."""
        if account == EVERYBODY:
            self._imported.leave(f"{channel}: everybody may write", source, "here each person is let in by name")
            return
        key = key_of(channel, account)
        if not key:
            why = "it is no single person: let a group in with daycare pair approve, once somebody wrote there"
            self._imported.leave(f"{channel}: {account[:60]}", source, why)
        elif key not in self._found or not self._found[key][0]:
            self._found[key] = (name, source)

    def own(self, channel: str, account: str, source: str) -> None:
        """Say that an account is surely the owner's."""
        if key := key_of(channel, account):
            self._owners[key] = source
            self._found.setdefault(key, ("", source))

    def people(self, me: Iterable[str]) -> dict[str, str]:
        """Put the people into the import model; return by key whose ref each account is.

        With `me` those keys are the owner's. Without, those that the other program says are; else all, if no channel
        has more than one: who runs an assistant for nobody else runs it for themselves.
        """
        mine = set(me)
        for key in sorted(mine - self._found.keys()):
            self._found[key] = ("", "--me")
        channels = [key.partition(":")[0] for key in self._found]
        alone = self._found.keys() if len(channels) == len(set(channels)) else set()
        sure = mine or set(self._owners)
        owners = sure or set(alone)
        whose = {key: OWNER if key in owners else key for key in self._found}
        for key, (name, source) in self._found.items():
            if key in owners:
                guess = ("taken to be yours, as no list has more than one; else name yours: --me KEY",)
                self._imported.people.append(
                    ImportedPerson(
                        ref=OWNER, name="", keys=(key,), source=source, changes=() if sure else guess, sure=bool(sure)
                    )
                )
            else:
                told = ("somebody of their own; if it is you: daycare users unlink and link, or --me KEY",)
                called = name or key.replace(":", "-")
                self._imported.people.append(
                    ImportedPerson(ref=key, name=called, keys=(key,), source=source, changes=told, sure=bool(sure))
                )
        return whose
