"""`daycare credentials` from the command line, with a Slack on loopback."""

import json
from pathlib import Path

import trio

from daycare.testing.slack_server import FakeSlack
from tests.cli.conftest import Daycare

GOOD = "xoxb-1234567890-goodgoodgood"


async def test_a_token_is_set_checked_listed_and_deleted_and_shown_nowhere(daycare: Daycare, home: Path) -> None:
    async def run(*arguments: str, stdin: str = "") -> tuple[int, str]:
        done = await trio.to_thread.run_sync(lambda: daycare("credentials", *arguments, stdin=stdin))
        assert GOOD not in done.stdout + done.stderr
        return done.returncode, done.stdout + done.stderr

    async with FakeSlack.serve() as slack:
        slack.tokens[GOOD] = ""
        assert (await trio.to_thread.run_sync(daycare, "init", "--yes")).returncode == 0
        with (home / "config.toml").open("a") as config:
            config.write(f'\n[credentials]\nslack_url = "{slack.url}"\n')
        assert "none" in (await run())[1]
        code, said = await run("check", "slack")
        assert (code, "daycare credentials set slack" in said) == (3, True)
        code, said = await run("set", "slack")
        assert (code, "--stdin" in said) == (2, True)
        code, said = await run("set", "slack", "--stdin", stdin="nonsense\n")
        assert (code, "xoxb-..." in said) == (2, True)
        assert await run("set", "slack", "--stdin", stdin=f"{GOOD}\n") == (
            0,
            "stored: slack takes it as @bot in Acme\n",
        )
        slack.scopes = "chat:write"
        code, said = await run("check", "slack")
        assert (code, "good: slack takes it" in said, "lacks the scopes channels:read, groups:read" in said) == (
            0,
            True,
            True,
        )
        [listed] = json.loads((await run("list", "--json"))[1])["credentials"]
        assert (listed["configured"], listed["scopes"]) == (True, ["channels:read", "groups:read", "chat:write"])
        slack.tokens[GOOD] = "token_revoked"
        code, said = await run("check", "slack")
        assert (code, "token_revoked" in said, "hint: " in said) == (1, True, True)
        assert await run("remove", "slack") == (0, "removed: slack\n")
        assert json.loads((await run("--json"))[1])["credentials"][0]["configured"] is False
        code, said = await run("check", "acme")
        assert (code, "one of: slack" in said) == (3, True)
