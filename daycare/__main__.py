"""The program `daycare`, also as `python -m daycare`.

A plain `daycare run` becomes the daemon at once: to load all commands first would double the time that a start takes.
"""

import sys

from daycare.ops.program import become_daemon, plain_run


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    plain = plain_run(sys.argv[1:])
    if plain is not None:
        from daycare.store.home import Home

        home = plain.pop("home")
        become_daemon((Home(home) if home else Home.default()).path, **plain)
    from daycare.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
