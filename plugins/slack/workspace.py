"""One workspace's life: off without tokens, receiving with them, and again when one changes or something breaks."""

from typing import TYPE_CHECKING, Any, Final

from daycare.base.connector import Health
from daycare.base.errors import DaycareError
from daycare.messenger.keeping import imported, keep, stored
from daycare.messenger.late import LateConnector
from daycare.plugin import PluginContext
from daycare_plugins.slack.settings import NAME, SlackSecrets, SlackWorkspaceSettings

if TYPE_CHECKING:
    from daycare_plugins.slack.connector import SlackConnector
    from daycare_plugins.slack.health import SlackMonitor

SERVING: Final = "daycare_plugins.slack.serving"  # imported with the first token
EVENTS: Final = "daycare_plugins.slack.events"
DEAF: Final = "choose another `listen` in [plugins.slack]"
MANNER: Final = (
    "Your answers are read in Slack: bold, italics, struck text, lists, links, quotes and code of Markdown arrive "
    "as such, tables as text. A message has at most 3,000 characters; longer answers come as several. Slack takes what "
    "begins with a slash for itself: people write /daycare help for /help."
)


class WorkspaceTask:
    """Keeps one workspace going for as long as the plugin lives. `transport` is httpx's, for tests."""

    def __init__(
        self,
        context: PluginContext,
        name: str,
        secrets: SlackSecrets,
        settings: SlackWorkspaceSettings,
        transport: Any = None,
    ) -> None:
        self.name = name
        self.connector = LateConnector(name, MANNER, self._make, lambda: bool(stored(context, secrets.token)[0]))
        self._context = context
        self._secrets = secrets
        self._settings = settings
        self._transport = transport
        self._state = "off"
        self._monitor: SlackMonitor | None = None  # while it is served here
        self._deaf = ""  # why Slack cannot post to this node

    @property
    def state(self) -> str:
        """How it is, in a word."""
        return self._state

    async def run(self) -> None:
        """Serve until cancelled. Raises nothing: what goes wrong is told as this workspace's state."""
        await keep(self, "SLACK_CRASHED", f"serving {self.name}")

    async def listen(self) -> None:
        """Let Slack in if it is to post, also while another node is connected, until cancelled."""
        if self._settings.events_url:
            events = await imported(EVENTS)
            way_in = events.way_in(self._context, self, self.name, self._settings, self._proof, self._is_deaf)
            await way_in.run()

    def _proof(self) -> str:
        return stored(self._context, self._secrets.signing_secret)[0]

    def _is_deaf(self, why: str) -> None:
        self._deaf = why
        if why and self._monitor is not None:
            self._monitor.tell("away", why, DEAF)

    def credential(self) -> tuple[str, str]:
        """Return both tokens as one, empty where one is missing, and why."""
        proof = self._secrets.signing_secret if self._settings.events_url else self._secrets.app_token
        found = []
        for name in (self._secrets.token, proof):
            value, why = stored(self._context, name)
            if not value:
                return "", why if name == self._secrets.token else f"no {proof.rpartition('.')[2]} is stored"
            found.append(value)
        return "\n".join(found), ""

    def off(self, reason: str) -> None:
        """A token is missing."""
        missing = self._secrets.token
        if stored(self._context, missing)[0]:
            missing = self._secrets.signing_secret if self._settings.events_url else self._secrets.app_token
        checked = missing == NAME  # the command tries it, and tells which scopes it lacks
        how = f"daycare credentials set {NAME}" if checked else f"daycare keys add {missing}"
        self._report(Health(state="off", reason=reason, hint=how))

    def starting(self) -> None:
        """There are other tokens."""
        self._report(Health(state="starting", reason="asking Slack for the first time"))

    def broken(self, defect: DaycareError) -> None:
        """Tell of a defect."""
        self._context.log.error("slack_failed", connector=self.name, reason=defect.message)
        self._report(Health(state="away", reason="something broke inside; it is started again", hint="daycare logs"))

    async def serve(self, credential: str) -> None:
        """Receive and send."""
        serving = await imported(SERVING)
        from daycare_plugins.slack.health import SlackMonitor

        monitor = SlackMonitor(self._report)
        connector = self.connector.made()
        self._monitor = monitor
        try:
            if self._deaf:
                monitor.tell("away", self._deaf, DEAF)
            await serving.serve(self._context, self._settings, self._secrets, connector, monitor, self._transport)
        finally:
            self._monitor = None

    def _make(self) -> "SlackConnector":
        from daycare_plugins.slack.connector import SlackConnector

        return SlackConnector(self._context, self.name, self._secrets.token)

    def _report(self, health: Health) -> None:
        self._state = health.state
        self._context.report(self.name, health)
