"""`daycare doctor`: looks at everything a daemon needs, mends what is safe to mend, and packs a bug report."""

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from daycare.api.client import Json
from daycare.base.errors import InvalidError
from daycare.base.sizes import size
from daycare.cli.command import Cli
from daycare.cli.render import plain
from daycare.store.home import Home

if TYPE_CHECKING:
    from daycare.ops.doctor.context import DoctorContext
    from daycare.ops.doctor.finding import DoctorFinding

_WIDTH_MIN: Final = 40


def doctor(
    cli: Cli,
    *,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what is safe to mend; no data is deleted.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --fix: only tell what would be done.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Look at this alone; may be repeated.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Call no provider and no platform.")] = False,
    bundle: Annotated[
        Path | None, typer.Option(metavar="FILE.tar.gz", help="Write a bug report without secrets and conversations.")
    ] = None,
    names: Annotated[bool, typer.Option("--names", help="With --bundle: leave names and paths as they are.")] = False,
) -> None:
    """Look for what is wrong with the installation, and say how to mend it.

    Prints ok, warn or fail for each thing, with the command that mends it. Exits with 1 when something failed, and
    with 0 when there are only warnings.
    """
    from daycare.ops.doctor.checks import chosen

    wanted = chosen(only or ())
    for given, needed, option in (
        (dry_run, fix, "--dry-run goes with --fix"),
        (names, bundle, "--names with --bundle"),
    ):
        if given and not needed:
            raise InvalidError("OPTION_ALONE", f"looking: {option}", hint="daycare doctor --help")
    if not os.path.isdir(cli.home):  # noqa: PTH112 -- False also for one that may not be looked at
        from daycare.ops.doctor.finding import DoctorFinding

        nothing = DoctorFinding("fail", "home", f"{cli.home} does not exist", "daycare init", look="home")
        _tell(cli, [nothing], {})
        raise typer.Exit(1)
    if bundle is not None:
        from daycare.ops.doctor.bundle import refuse_target

        refuse_target(bundle)
    home = Home(cli.home)
    context, findings = _examined(home, wanted, offline=offline)
    more: Json = {}
    if fix:
        context, findings, more["fixes"] = _mended(context, findings, dry_run=dry_run)
    if bundle is not None:
        from daycare.ops.doctor.bundle import write_bundle

        members = write_bundle(bundle, context, findings, keep_names=names)
        more["bundle"] = {"file": str(bundle), "files": [asdict(each) for each in members]}
    _tell(cli, findings, more)
    if any(each.level == "fail" for each in findings):
        raise typer.Exit(1)


def _examined(home: Home, wanted: Sequence[str], *, offline: bool) -> "tuple[DoctorContext, list[DoctorFinding]]":
    from daycare.ops.doctor.checks import examine
    from daycare.ops.doctor.context import DoctorContext

    shown = sys.stderr.isatty()

    def told(waiting: list[str]) -> None:
        if shown:
            print(f"\rlooking: {', '.join(waiting)}"[:100], end="\x1b[K", file=sys.stderr, flush=True)

    told(["the daemon"])
    context = DoctorContext.of(home, time.time_ns() // 1_000_000, offline=offline)
    try:
        return context, list(examine(context, wanted, told))
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _mended(
    context: "DoctorContext", findings: "list[DoctorFinding]", *, dry_run: bool
) -> "tuple[DoctorContext, list[DoctorFinding], list[dict[str, Any]]]":
    """Mend, and look again at what was mended."""
    from daycare.ops.doctor.checks import CHECKS, mend

    done = list(mend(context, findings, context.now_ms, dry_run=dry_run))
    again = {each.look for each in done if each.done}
    if again:
        context, newer = _examined(context.home, [name for name in CHECKS if name in again], offline=context.offline)
        order = list(CHECKS)
        findings = sorted(
            [*(each for each in findings if each.look not in again), *newer], key=lambda each: order.index(each.look)
        )
    return context, findings, [asdict(each) for each in done]


def _tell(cli: Cli, findings: "list[DoctorFinding]", more: Json) -> None:
    count = {level: sum(each.level == level for each in findings) for level in ("ok", "warn", "fail")}
    document = {
        "home": str(cli.home),
        "ok": not count["fail"],
        "counts": count,
        "findings": [each.document() for each in findings],
        **more,
    }
    cli.out(document, lambda _: report(findings, more, count))


def report(findings: "list[DoctorFinding]", more: Json, count: dict[str, int]) -> str:
    """Return findings as lines for people, after what was mended."""
    lines = []
    for each in more.get("fixes", ()):
        done = "fixed" if each["done"] else "left" if each["problem"] else "would"
        lines.append(plain(f"{done:<5} {each['look']:<10} {each['what']}{_because(each['problem'])}"))
    if "fixes" in more:
        lines += ["nothing that is safe to mend by itself" if not more["fixes"] else "", ""][: 1 + (not more["fixes"])]
    for found in findings:
        lines.append(_folded(plain(f"{found.level:<5} {found.about:<10} {found.message}")))
        if found.hint and found.level != "ok":
            lines.append(plain(f"{'':<16} hint: {found.hint}"))
    fixable = sum(each.mend is not None and each.level != "ok" for each in findings)
    offer = f"; daycare doctor --fix mends {fixable}" if fixable and "fixes" not in more else ""
    lines += ["", f"{count['fail']} failed, {count['warn']} to look at, {count['ok']} fine{offer}"]
    if "bundle" in more:
        lines += ["", *_listing(more["bundle"])]
    return "\n".join(lines)


def _folded(line: str) -> str:
    """Return a line as it fits a terminal; commands are not folded, so that they can be copied."""
    if not sys.stdout.isatty():
        return line
    width = max(shutil.get_terminal_size().columns, _WIDTH_MIN)
    return textwrap.fill(
        line, width, subsequent_indent=" " * 17, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )


def _because(problem: str) -> str:
    return f": {problem}" if problem else ""


def _listing(bundle: Json) -> list[str]:
    rows = [f"  {each['name']:<16} {size(each['bytes']):>10}  {each['about']}" for each in bundle["files"]]
    return [f"{bundle['file']} holds:", *rows, "look through it before you send it: tar -xzf it, it is all text"]
