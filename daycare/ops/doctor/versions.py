"""Versions: of daycare, of Python and of the libraries it stands on."""

import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

from daycare import __version__
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding
from daycare.plugin import CONTRACT_VERSION
from daycare.store.sqlite import inspection

PACKAGE: Final = "daycare"
_REQUIREMENT: Final = re.compile(r"^([A-Za-z0-9._-]+)\s*([^;\[]*)")
_BOUND: Final = re.compile(r"(>=|<=|==|<|>|!=)\s*([0-9][0-9.]*)")


def versions(_: DoctorContext) -> Iterator[DoctorFinding]:
    """What this program is made of, and whether every library is one that it was written for."""
    base = inspection.versions()
    told = f"daycare {__version__}, Python {platform.python_version()}, SQLite {base['sqlite']}, apsw {base['apsw']}"
    yield DoctorFinding("ok", "versions", f"{told}, plugins' contract {CONTRACT_VERSION}")
    for name, bounds, found in unfit():
        have = f"{found} is installed" if found else "none is installed"
        yield DoctorFinding(
            "fail", "versions", f"{name}{bounds} is needed, {have}", f"{_pip()} install '{name}{bounds}'"
        )


def libraries() -> dict[str, str]:
    """Return what is installed of the libraries that daycare needs, by name; those of extras where they are there."""
    found = {}
    for name, _ in _required(extras=True):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return dict(sorted(found.items()))


def unfit() -> Iterator[tuple[str, str, str]]:
    """Yield needed libraries that are missing (found is empty) or out of bounds, as (name, bounds, found)."""
    for name, bounds in _required(extras=False):
        try:
            found = version(name)
        except PackageNotFoundError:
            found = ""
        if not found or not fits(found, bounds):
            yield name, bounds, found


def fits(found: str, bounds: str) -> bool:
    """Whether a version is within bounds such as `>=3.50.4,<4`, by the numbers that it begins with."""
    have = _numbers(found)
    for sign, wanted in _BOUND.findall(bounds):
        at = _numbers(wanted)
        size = max(len(have), len(at))
        mine, its = (each + (0,) * (size - len(each)) for each in (have, at))
        if not {
            ">=": mine >= its,
            "<=": mine <= its,
            ">": mine > its,
            "<": mine < its,
            "==": mine == its,
            "!=": mine != its,
        }[sign]:
            return False
    return True


def _required(*, extras: bool) -> Iterator[tuple[str, str]]:
    try:
        lines = requires(PACKAGE) or []
    except PackageNotFoundError:  # it runs from its folder
        return
    for line in lines:
        if ("extra ==" in line and not extras) or line.startswith(f"{PACKAGE}["):
            continue
        if match := _REQUIREMENT.match(line):
            yield match[1], match[2].strip()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.match(r"[0-9.]*", text)[0].split(".") if number)  # type: ignore[index]


def _pip() -> str:
    return f"{sys.executable} -m pip"
