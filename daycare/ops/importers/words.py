"""Names, times and values of other programs as they can stand here."""

import re
from collections.abc import Container
from datetime import UTC, datetime
from typing import Any, Final

from daycare.base.limits import NAME_MAX_CHARS

_MS: Final = 10**11  # numbers above are milliseconds: as seconds they are after the year 5000
_LAST_MS: Final = 7_258_118_400_000  # the year 2200
_DEVICES: Final = re.compile(r"con|prn|aux|nul|com[0-9]|lpt[0-9]").fullmatch
_DAY: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[-_ ].*)?\.md").fullmatch
_LETTERS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "é": "e", "è": "e", "ñ": "n", "ç": "c"})
PROVIDERS: Final = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openrouter": "openrouter",
    "google": "google",
    "gemini": "google",
    "groq": "groq",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "xai": "xai",
    "ollama": "ollama",
}


def slug(text: str, otherwise: str = "imported", *, most: int = NAME_MAX_CHARS) -> str:
    """Return a name of ours that resembles a text."""
    plain = re.sub(r"[^a-z0-9_]+", "-", text.lower().translate(_LETTERS)).strip("-_")[:most].strip("-_")
    if not plain:
        return otherwise
    return f"{plain}-1" if _DEVICES(plain) else plain


def free(name: str, taken: Container[str]) -> str:
    """Return a name that is not taken, with a number behind it if need be."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name[: NAME_MAX_CHARS - 8]}-{number}"
    return found


def text_of(value: Any) -> str:
    """Return a text, or a number as one; empty for anything else."""
    if isinstance(value, str):
        return value.replace("\0", "").strip()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def at(tree: Any, *path: str) -> Any:
    """Return what lies at a path in tables within tables, None if nothing does."""
    for name in path:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(name)
    return tree


def texts(value: Any) -> list[str]:
    """Return the texts and numbers of a list, or of words between commas."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    return [found for each in value if (found := text_of(each))] if isinstance(value, list) else []


def moment(value: Any) -> int | None:
    """Return the wall milliseconds of an ISO text, or of seconds or milliseconds since 1970; None for anything else."""
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value.strip())
            ms = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000
        except (ValueError, OverflowError, OSError):
            return None
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LAST_MS:
        ms = float(value) if value > _MS else value * 1000.0
    else:
        return None
    return round(ms) if 0 <= ms <= _LAST_MS else None


def day(file: str) -> str:
    """Return the date that a file `2026-01-31.md` or `2026-01-31-walk.md` is named after, empty if there is none."""
    found = _DAY(file)
    try:
        return datetime.strptime(found[1], "%Y-%m-%d").date().isoformat() if found else ""
    except ValueError:
        return ""


def key_of(channel: str, account: str) -> str:
    """Return the connector key of somebody on a list of those who may write; empty for what is no single person."""
    account = account.strip().removeprefix(f"{channel}:").removeprefix("user:").strip()
    if channel in ("telegram", "tg"):
        account = account.removeprefix("tg:")
        return f"telegram:{account}" if account.isdecimal() and len(account) <= 20 else ""
    if channel in ("whatsapp", "whatsapp_cloud", "whatsapp-cloud"):
        number = re.sub(r"[\s()+-]", "", account.partition("@")[0].partition(":")[0])
        other = "@" in account and not account.endswith(("@s.whatsapp.net", "@c.us"))
        name = "whatsapp" if channel == "whatsapp" else "whatsapp-cloud"
        return f"{name}:{number}" if number.isdecimal() and 5 <= len(number) <= 18 and not other else ""
    fits = re.fullmatch(r"[a-z][a-z0-9-]{0,31}", channel) and re.fullmatch(r"[A-Za-z0-9+@._-]{2,100}", account)
    return f"{channel}:{account}" if fits else ""
