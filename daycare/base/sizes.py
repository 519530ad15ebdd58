"""Numbers of bytes, as people read them."""


def size(count: int) -> str:
    """Return a number of bytes in the unit that suits it."""
    number = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024 or unit == "GiB":
            break
        number /= 1024
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
