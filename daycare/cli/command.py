"""How every command is made: two options that all share, one way to print, one way to fail."""

import inspect
import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate, Final, ParamSpec

import typer

from daycare.api.client import Client
from daycare.base.errors import DaycareError
from daycare.cli.home import connect, find_home
from daycare.cli.render import Grid, plain

P = ParamSpec("P")

EXIT_CODES: Final = """\b
Exit codes:
  0   done                        69  a provider, platform or the daemon is away
  1   failed, or doctor found it  75  busy or no answer yet: try again later
  2   wrong usage or input        78  configuration or data needs repair
  3   it does not exist          130  interrupted
  4   not allowed
  5   its state forbids it now"""

_ALIASES: Final = {"list": ("ls",), "rm": ("remove", "delete"), "remove": ("rm", "delete")}  # what people try
_PIPE_COLUMNS: Final = 10_000
_FOLD_MAX_ROWS: Final = 500  # rich takes a millisecond for each

Home = Annotated[
    Path | None,
    typer.Option(
        "--home", metavar="DIR", help="Home directory (else $DAYCARE_HOME, else ~/.daycare).", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: one document, or one a line for streams.")]


@dataclass(frozen=True, slots=True)
class Cli:
    """What a command is given: the home it works on and the form of its output."""

    home: Path
    json: bool

    def connect(self, *, work: bool = False) -> AbstractContextManager[Client]:
        """Give a client of the home's daemon, starting one in this process when there is none."""
        return connect(self.home, work=work)

    def out(self, document: Any, human: Callable[[Any], Any]) -> None:
        """Print `document` as JSON, or what `human` makes of it: text or a rich renderable."""
        if self.json:
            self.line(document)
        else:
            show(human(document))

    def line(self, document: Any) -> None:
        """Print one JSON document on one line, at once."""
        print(json.dumps(document, ensure_ascii=False), flush=True)


def show(renderable: Any) -> None:
    """Print text as it is, or a rich renderable; in a pipe nothing is folded to a width."""
    terminal = sys.stdout.isatty()
    if isinstance(renderable, Grid) and (not terminal or len(renderable.rows) > _FOLD_MAX_ROWS):
        renderable = str(renderable)
    if not isinstance(renderable, str):
        from rich.console import Console

        console = Console(highlight=False, width=None if terminal else _PIPE_COLUMNS)
        with console.capture() as captured:
            console.print(renderable)
        renderable = "\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n"))
    print(renderable, flush=True)


def fail(error: DaycareError, *, as_json: bool) -> int:
    """Tell about `error` on stderr and return its exit code."""
    if as_json:
        facts = {"code": error.code, "message": error.message, "hint": error.hint, "retry_after_s": error.retry_after_s}
        print(json.dumps({"error": facts}, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"error: {plain(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"hint: {plain(error.hint)}", file=sys.stderr)
    return error.exit_code


def command(
    app: typer.Typer, name: str, *, examples: str
) -> Callable[[Callable[Concatenate[Cli, P], None]], Callable[Concatenate[Cli, P], None]]:
    """Register a function as the command `name` of `app`.

    It is called with a Cli; the options that all commands share are added to its own. `examples` has a command line
    and optionally `  # comment` on each line. What people try instead of `list` and `rm` works, too.
    """

    def register(body: Callable[Concatenate[Cli, P], None]) -> Callable[Concatenate[Cli, P], None]:
        shown = shown_below(examples)
        run = _with_shared_options(body)
        app.command(name, help=inspect.getdoc(body), epilog=shown)(run)
        for alias in _ALIASES.get(name, ()):
            app.command(alias, help=inspect.getdoc(body), epilog=shown, hidden=True)(run)
        return body

    return register


def default_command(
    app: typer.Typer, *, examples: str, lists: bool = True, below: str = ""
) -> Callable[[Callable[Concatenate[Cli, P], None]], Callable[Concatenate[Cli, P], None]]:
    """Register a function as what a group of commands does when it is called alone.

    It `lists` what the group is about, as a rule, and is then what `list` and `ls` do, unless there is a `list` of
    its own. What stands `below` its examples ends its help page.
    """

    def register(body: Callable[Concatenate[Cli, P], None]) -> Callable[Concatenate[Cli, P], None]:
        shown = shown_below(examples) + below
        run = _with_shared_options(body)
        app.callback(invoke_without_command=True, help=inspect.getdoc(body), epilog=shown)(run)
        for name in ("list", *_ALIASES["list"]) if lists else ():
            app.command(name, help=inspect.getdoc(body), epilog=shown, hidden=True)(run)
        return body

    return register


def shown_below(examples: str) -> str:
    """Return examples as the end of a help page."""
    return f"\b\nExamples:\n{_indented(examples)}"


def _with_shared_options(body: Callable[Concatenate[Cli, P], None]) -> Callable[..., None]:
    own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
    shared = (("ctx", typer.Context, inspect.Parameter.empty), ("home", Home, None), ("as_json", AsJson, False))
    keyword = inspect.Parameter.KEYWORD_ONLY

    def run(ctx: typer.Context, home: Path | None, as_json: bool, **arguments: Any) -> None:
        if ctx.invoked_subcommand is None:
            around = [above.params for above in _lineage(ctx)]  # both options may also stand before the command
            home = next((params["home"] for params in around if params.get("home")), None)
            as_json = any(params.get("as_json") for params in around)
            body(Cli(find_home(home), as_json), **arguments)  # type: ignore[call-arg]

    parameters = [parameter.replace(kind=keyword) for parameter in own]
    parameters += [inspect.Parameter(name, keyword, annotation=kind, default=value) for name, kind, value in shared]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__name__ = body.__name__
    return run


def _lineage(ctx: typer.Context) -> list[typer.Context]:
    """Return the context and those around it, innermost first."""
    found: list[Any] = [ctx]
    while found[-1].parent is not None:
        found.append(found[-1].parent)
    return found


def _indented(lines: str) -> str:
    return "\n".join(f"  {line.strip()}" for line in lines.strip().splitlines())
