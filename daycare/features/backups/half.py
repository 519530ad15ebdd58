"""Homes of which only half was restored: nobody is to use one."""

from typing import Final

from daycare.base.errors import BrokenError
from daycare.store.home import Home

MARK: Final = "restoring"  # a file in the home, with the name of what is being restored


def refuse_half(home: Home) -> None:
    """Raise `BrokenError` HOME_HALF_RESTORED for a home whose restore was interrupted."""
    mark = home.path / MARK
    if mark.is_file():
        file = mark.read_text(errors="replace").strip()
        raise BrokenError(
            "HOME_HALF_RESTORED",
            f"using the home {home.path}: a restore of {file} was interrupted",
            hint=f"daycare restore {file} --force; what was there before is in {home.path}/before-restore-*",
        )
