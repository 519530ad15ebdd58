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
