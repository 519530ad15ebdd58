"""Commands about plugins: which there are, whether one keeps the contract, and the skeleton of a new one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from daycare.api.client import Json, segment
from daycare.base.errors import ConflictError, InvalidError, NotFoundError, UnavailableError
from daycare.base.limits import PLUGIN_LOAD_S
from daycare.base.path import check_name
from daycare.cli.command import Cli, command, default_command
from daycare.cli.render import one_line, plain, table

app = typer.Typer(rich_markup_mode=None)

CHECK_S: Final = 3 * PLUGIN_LOAD_S  # it imports and sets up, each with a deadline of its own
_RESTART_S: Final = 60.0  # it says goodbye to its platform, and is set up
SKELETON: Final = Path(__file__).parent.parent / "plugins" / "skeleton"


@default_command(app, examples="daycare plugins\ndaycare plugins list --json")
def plugins(cli: Cli) -> None:
    """List, check or begin plugins."""
    _list(cli)


@command(app, "list", examples="daycare plugins list\ndaycare plugins list --json")
def list_(cli: Cli) -> None:
    """List plugins: what each provides, how it is, and why one is left out."""
    _list(cli)


@command(app, "check", examples="daycare plugins check .\ndaycare plugins check daycare_weather:plugin")
def check(
    cli: Cli,
    wanted: Annotated[
        str, typer.Argument(metavar="PATH_OR_MODULE", help="A folder with a pyproject.toml, a Python file or a module.")
    ],
) -> None:
    """Check whether a plugin keeps the contract; exits with 1 when it does not.

    It is imported in a process of its own and set up with default settings, but not started.
    """
    found = _checked(wanted)
    cli.out({"plugins": found}, lambda _: "\n".join(_verdict(each) for each in found))
    if any(each["problems"] for each in found):
        raise typer.Exit(1)


@command(app, "restart", examples="daycare plugins restart telegram")
def restart(cli: Cli, name: Annotated[str, typer.Argument(metavar="NAME", help="The plugin's name.")]) -> None:
    """Let the running daemon set a plugin up again and start it; turns that run go on.

    Its code stays as it is: other code counts after `daycare restart`.
    """
    with cli.connect() as client:
        found = client.call("POST", f"/v1/plugins/{segment(name)}/restart", timeout_s=_RESTART_S)
    cli.out(found, lambda it: f"started again: {', '.join(it['restarted'])}")


@command(app, "new", examples="daycare plugins new weather\ndaycare plugins new weather --dir ~/src")
def new(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, in lower case.")],
    *,
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where its folder is made.")] = Path(),
) -> None:
    """Write the skeleton of a plugin: a package with a tool, a hook, settings and a test that passes."""
    check_name(name, "the plugin's name")
    module = f"daycare_{name.replace('-', '_')}"
    target = folder.expanduser() / f"daycare-{name}"
    if target.exists():
        raise ConflictError(
            "PLUGIN_EXISTS", f"writing the plugin {name}: {target} is there", hint="choose another name"
        )
    files = {
        "pyproject.toml": "pyproject.toml.in",
        "README.md": "README.md.in",
        f"{module}.py": "plugin.py.in",
        f"tests/test_{module}.py": "test_plugin.py.in",
    }
    words = {"@NAME@": name, "@MODULE@": module, "@TOOL@": name.replace("-", "_")}
    try:
        for file, template in files.items():
            text = (SKELETON / template).read_text("utf-8")
            for mark, word in words.items():
                text = text.replace(mark, word)
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            (target / file).write_text(text, "utf-8")
    except OSError as error:
        raise InvalidError(
            "PLUGIN_NOT_WRITTEN", f"writing {error.filename}: {error.strerror}", hint="choose another --dir"
        ) from error
    made = {"folder": str(target), "files": list(files)}
    steps = f"cd {target}\npip install -e '.[test]'\npytest\ndaycare plugins check .\ndaycare restart"
    cli.out(made, lambda _: f"wrote {target}: {', '.join(files)}\n\nNext:\n{steps}")


def _list(cli: Cli) -> None:
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/plugins"), plugins_table)


def plugins_table(document: Json) -> Any:
    """Return plugins as a table, those left out last with their reasons."""
    rows = [
        (each["name"], each["version"], each["source"], each["state"], _provides(each["provides"]), _how(each))
        for each in document["plugins"]
    ]
    return table(("name", "version", "from", "state", "provides", "how it is"), rows)


def _provides(what: Json) -> str:
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in what.items())


def _how(each: Json) -> str:
    told = [each["health"]]
    if each["problem"]:
        hint = f" Hint: {each['hint']}" if each["hint"] else ""
        told.append(f"{one_line(each['problem'], 400)}.{hint}")
    if each["retry_in_s"] is not None:
        told.append(f"next start in {each['retry_in_s']:g} s")
    hooks = each["hooks"]
    told += [f"{hook} failed and is left out for {seconds:g} s" for hook, seconds in hooks.get("paused", {}).items()]
    if hooks.get("dropped"):
        told.append(f"{hooks['dropped']} events dropped")
    return "; ".join(filter(None, told))


def _checked(wanted: str) -> list[Json]:
    arguments = [sys.executable, "-m", "daycare.plugins.checking", wanted]
    try:
        done = subprocess.run(arguments, stdout=subprocess.PIPE, timeout=CHECK_S, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as late:
        raise UnavailableError(
            "PLUGIN_HANGS", f"checking {wanted}: it was not done after {CHECK_S:g} s", hint="look at what it imports"
        ) from late
    try:
        answer: Json = json.loads(done.stdout)
    except ValueError as error:
        raise UnavailableError(
            "PLUGIN_CRASHED",
            f"checking {wanted}: it ended the process with exit code {done.returncode}",
            hint="nothing at a module's top level may end the process",
        ) from error
    if "error" in answer:
        raise NotFoundError(answer["error"]["code"], answer["error"]["message"], hint=answer["error"]["hint"])
    found: list[Json] = answer["plugins"]
    return found


def _verdict(each: Json) -> str:
    head = f"{each['name']} {each['version']}".strip()
    lines = [f"{'fail' if each['problems'] else 'ok':<5} {head} ({each['reference']})"]
    lines += [f"fail  {problem}" for problem in each["problems"]]
    lines += [f"warn  {warning}" for warning in each["warnings"]]
    if each["provides"]:
        lines.append(f"      {_provides(each['provides'])}")
    if each["settings"] is not None:
        lines.append(f"      settings: [plugins.{each['name']}] in config.toml")
    return plain("\n".join(lines))
