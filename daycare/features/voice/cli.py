"""Commands about hearing and speaking: who does it, and whether it works."""

from pathlib import Path
from typing import Annotated, Any

import typer

from daycare.api.client import Json, new_key
from daycare.cli.command import Cli, command, default_command
from daycare.cli.operations import ask
from daycare.cli.render import visible
from daycare.features.voice import operations as ops

app = typer.Typer(rich_markup_mode=None)


@default_command(app, examples="daycare voice\ndaycare voice test note.ogg")
def voice(cli: Cli) -> None:
    """Show who listens to voice notes and who speaks answers, or try it."""
    with cli.connect() as client:
        cli.out(ask(client, ops.ShowVoice()), _shown)


def _shown(it: Json) -> str:
    own = "a model that hears, " if it["model"] else ""
    hears = f"{own}{', '.join(it['hears'])}".rstrip(", ")
    hint = "" if it["hears"] else "; nothing else does: [voice.hearing] in config.toml"
    speaks = ", ".join(it["speaks"]) or "nobody: [voice.speaking] in config.toml"
    return f"listens: {hears or 'nobody'}{hint}\nspeaks: {speaks}\nanswers are spoken: {it['answers']}"


@command(app, "test", examples="daycare voice test note.ogg")
def test(cli: Cli, file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)]) -> None:
    """Listen to a file as to a voice note, and show the words. It costs what a note costs."""
    with cli.connect() as client:
        cli.out(ask(client, ops.HearFile(file=client.upload(file, key=new_key()))), _heard)


def _heard(it: Json) -> Any:
    language = f", in the language {it['language']}" if it["language"] else ""
    return f"{visible(it['text']) or '(no words)'}\n\nheard by {it['by']} in {it['seconds']:.1f} s{language}"


@command(app, "say", examples="daycare voice say 'Good morning.' --to hello.ogg")
def say(
    cli: Cli,
    text: Annotated[str, typer.Argument(metavar="TEXT", show_default=False)],
    *,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="Where the sound goes.")],
) -> None:
    """Speak a text as an answer would be, into a file. It costs what an answer costs."""
    with cli.connect() as client:
        it = ask(client, ops.SpeakText(text=text))
        _, data = client.download(it["file"])
    to.write_bytes(data)
    cli.out(it, lambda it: f"{to}: {it['size']} bytes, spoken in {it['seconds']:.1f} s")
