"""Questions in a terminal: each with its usual answer in brackets. Ctrl-C and Ctrl-D pass through as they are."""

import getpass
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from daycare.base.errors import DaycareError
from daycare.cli.render import plain

T = TypeVar("T")


def terminal() -> bool:
    """Tell whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask(question: str, usual: str = "", check: Callable[[str], object] | None = None) -> str:
    """Return an answer, the usual one for Enter; ask again while `check` raises a `DaycareError`."""
    shown = f"{question} [{plain(usual)}] " if usual else f"{question} "
    while True:
        answer = input(shown).strip() or usual
        try:
            if check is not None:
                check(answer)
        except DaycareError as error:
            say(error.message + (f" ({error.hint})" if error.hint else ""))
        else:
            return answer


def needed(question: str, usual: str = "") -> str:
    """Return an answer that is not empty."""
    while True:
        if answer := ask(question, usual):
            return answer


def yes(question: str, *, usual: bool) -> bool:
    """Return a yes or no."""
    while True:
        answer = input(f"{question} [{'Y/n' if usual else 'y/N'}] ").strip().lower()
        if not answer or answer in ("y", "yes", "n", "no"):
            return answer.startswith("y") if answer else usual
        print("Type y or n.")


def secret(question: str, *, stored: bool) -> str:
    """Return what is typed without echo; empty where it may stay as it is `stored`."""
    while True:
        answer = getpass.getpass(f"{question} (not shown){' [keep the stored one]' if stored else ''}: ").strip()
        if answer or stored:
            return answer


def choose(question: str, options: Sequence[tuple[T, str]], usual: int = 1) -> T:
    """Return one of numbered options; `usual` counts from 1."""
    listed(question, [text for _, text in options])
    while True:
        answer = input(f"[{usual}] ").strip() or str(usual)
        if answer.isdecimal() and 1 <= int(answer) <= len(options):
            return options[int(answer) - 1][0]
        print(f"Type a number from 1 to {len(options)}.")


def several(question: str, options: Sequence[tuple[T, str]]) -> list[T]:
    """Return those of numbered options that are named, in their order; none for Enter."""
    listed(question, [text for _, text in options])
    while True:
        words = input("[none] ").replace(",", " ").split()
        if all(word.isdecimal() and 1 <= int(word) <= len(options) for word in words):
            return [option for number, (option, _) in enumerate(options, 1) if str(number) in words]
        print(f"Type numbers from 1 to {len(options)}, or nothing.")


def listed(question: str, texts: Sequence[str]) -> None:
    """Print a question with its numbered answers."""
    print(f"\n{question}")
    for number, text in enumerate(texts, 1):
        print(f"  {number}  {plain(text)}")


def say(text: str) -> None:
    """Print a line that tells how something went."""
    print(f"  {plain(text)}")
