"""Commands about models: which can be used, what they cost, and whether they answer."""

from collections.abc import Iterator
from textwrap import indent
from typing import Annotated, Any, Final

import typer

from daycare.api.client import Json
from daycare.base.errors import UnavailableError
from daycare.cli.command import Cli, command, default_command
from daycare.cli.render import one_line, table

app = typer.Typer(rich_markup_mode=None)

TEST_S: Final = 120.0  # the daemon gives up on a model after 90 s
LIST_MAX: Final = 30  # models of one provider shown without --all


@default_command(app, examples="daycare models\ndaycare models --all")
def models(
    cli: Cli,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Show every model, also of long lists.")] = False,
) -> None:
    """Show the providers with their models, prices and roles, and how to add the others."""
    with cli.connect() as client:
        found = client.call("GET", "/v1/models")
    cli.out(found, lambda document: listing(document, everything=everything))


@command(app, "test", examples="daycare models test\ndaycare models test ollama/qwen3:8b openai/gpt-5-mini")
def test(
    cli: Cli,
    names: Annotated[list[str] | None, typer.Argument(metavar="[PROVIDER/MODEL]...", show_default=False)] = None,
) -> None:
    """Make one small call of each model, of all that are in use when none is named.

    Exits with 69 if one of them failed.
    """
    with cli.connect() as client:
        done = client.call("POST", "/v1/models/test", {"models": names or []}, timeout_s=TEST_S)
    cli.out(done, verdicts)
    if any(result["code"] for result in done["results"]):
        raise typer.Exit(UnavailableError.exit_code)


def listing(document: Json, *, everything: bool = False) -> str:
    """Return the providers, their models and the fallbacks as text."""
    return "\n\n".join(
        "\n".join(block)
        for block in (
            *(list(_provider(each, everything)) for each in document["providers"] if each["state"] != "unconfigured"),
            [f"fallbacks: {', '.join(document['fallbacks']) or 'none; [models] fallbacks in the configuration'}"],
            [
                f"{each['name']}: {each['why']}. {each['hint']}"
                for each in document["providers"]
                if each["state"] == "unconfigured"
            ],
        )
        if block
    )


def verdicts(document: Json) -> str:
    """Return what became of test calls, one line each and the hint below."""
    lines = []
    for each in document["results"]:
        if not each["code"]:
            lines.append(f"ok    {each['model']}  {each['latency_ms']} ms")
            continue
        lines.append(
            f"fail  {each['model']}  {each['latency_ms']} ms  {each['code']}: {one_line(each['message'], 400)}"
        )
        if each["hint"]:
            lines.append(f"      hint: {one_line(each['hint'], 400)}")
    return "\n".join(lines)


def _provider(provider: Json, everything: bool) -> Iterator[str]:
    yield f"{provider['name']}: {provider['state']}" + (f", {provider['why']}" if provider["why"] else "")
    if provider["state"] == "away" and provider["hint"]:
        yield f"  hint: {provider['hint']}"
    shown = provider["models"]
    if len(shown) > LIST_MAX and not everything:
        shown = [each for each in shown if _used(each) or each["facts"]["input_usd"] is not None][:LIST_MAX]
    if shown:
        columns = ("model", "context#", "in $/M#", "out $/M#", "images", "used for")
        yield indent(str(table(columns, map(_row, shown))), "  ")
    hidden = len(provider["models"]) - len(shown)
    if hidden:
        yield f"  and {hidden} more: daycare models --all"
    if provider["source"] and any(each["facts"]["input_usd"] for each in shown):
        yield f"  prices of {provider['date']}, see {provider['source']}"


def _row(model: Json) -> tuple[Any, ...]:
    facts = model["facts"]
    images = {True: "yes", False: "no", None: "unknown"}[facts["images"]]
    return (
        model["name"],
        f"{facts['context']:,}",
        _price(facts["input_usd"]),
        _price(facts["output_usd"]),
        images,
        _used(model),
    )


def _price(usd: float | None) -> str:
    return "unknown" if usd is None else f"{usd:.3f}".rstrip("0").rstrip(".")


def _used(model: Json) -> str:
    fallback = [f"fallback {model['fallback']}"] if model["fallback"] else []
    return ", ".join((*model["roles"], *fallback))
