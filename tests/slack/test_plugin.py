"""What Slack costs whom it does not serve: next to nothing."""

import subprocess
import sys

LIGHT = {"plugin", "settings", "setup", "tools", "workspace"}
PROGRAM = """
import sys
from daycare.base.connector import Outgoing
from daycare_plugins.slack.plugin import plugin
from daycare_plugins.slack.settings import SlackSettings, SlackWorkspaceSettings


class Context:
    config = SlackSettings(workspaces={"family": SlackWorkspaceSettings()})

    def secret(self, name):
        return None


made = plugin.setup(Context())
for make in made.connectors.values():
    connector = make()
    reply = Outgoing(outbox=1, key="k", path="/a/b", user="a", target="U1", text="x" * 9_000)
    assert connector.split(reply) == (reply,) and connector.delay_s("U1") == 0.0 and connector.identity() is None
    assert not connector.capabilities("U1").edits and connector.manner
assert len(made.connectors) == len(made.tools) == 2 and not any(tool.ready() for tool in made.tools)
print(*sys.modules)
"""


def test_without_a_token_nothing_is_imported_but_what_says_that_there_is_slack() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    modules = set(done.stdout.split())
    ours = {
        name.removeprefix("daycare_plugins.slack.") for name in modules if name.startswith("daycare_plugins.slack.")
    }
    assert ours == LIGHT
    assert modules.isdisjoint({"httpx", "trio_websocket", "daycare.messenger.markdown", "daycare.messenger.governor"})
