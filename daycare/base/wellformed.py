"""Text that can be written: what UTF-8 cannot hold is replaced."""


def well_formed(text: str) -> str:
    """Return `text` with each half of a surrogate pair joined with its other half, or replaced by U+FFFD.

    Programs that read JSON or count in UTF-16 hand on such halves; neither UTF-8 nor SQLite takes them.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class JoinedText:
    """Text that comes in pieces, each of which may end within a character that takes two surrogates."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Return the whole characters up to here; half a one waits for the next piece."""
        if not self._half and piece.isascii():
            return piece
        piece, self._half = self._half + piece, ""
        if "\ud800" <= piece[-1:] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return well_formed(piece)

    def end(self) -> str:
        """Return what stands for a half whose other one never came."""
        return well_formed(self._half)
