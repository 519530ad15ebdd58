"""What is heard and spoken, as it is handed around."""

from typing import Final

import msgspec

from daycare.base.messages import Usage

HEARD: Final = "text/plain"  # the type of a file that holds what was heard; `; language=de` behind it says in which


class HeardWords(msgspec.Struct, frozen=True, kw_only=True):
    """The words in a sound. `language` as whoever heard it calls it, "" if they do not say; `by` is who heard it."""

    text: str
    language: str = ""
    by: str = ""
    usage: Usage = Usage()

    @property
    def media_type(self) -> str:
        """The type of the file that holds it."""
        plain = "".join(char for char in self.language.lower() if char.isascii() and (char.isalnum() or char in "-_"))
        return f"{HEARD}; language={plain[:30]}" if plain else HEARD
