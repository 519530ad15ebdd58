"""Slack's step in `daycare init`: the tokens, tried by auth.test and by asking for a connection."""

from collections.abc import Sequence
from typing import Final

from daycare.plugin import Secret, SetupQuestion, SetupStep, Verified
from daycare_plugins.slack.settings import NAME, SlackSecrets, SlackSettings, workspaces


def in_use(settings: SlackSettings, secret: Secret) -> Sequence[str]:
    """Return the workspaces that have tokens."""
    return [
        name
        for name, (secrets, own) in workspaces(settings).items()
        if secret(secrets.token) and secret(secrets.signing_secret if own.events_url else secrets.app_token)
    ]


async def check(connector: str, settings: SlackSettings, secret: Secret) -> Verified:
    """Ask Slack who we are; nothing is received or changed by that."""
    from daycare_plugins.slack.client import SlackApi  # httpx

    secrets, own = workspaces(settings)[connector]

    def token() -> str:
        return (secret(secrets.token) or "").strip()

    def app_token() -> str:
        return (secret(secrets.app_token) or "").strip()

    async with SlackApi(own, token, app_token) as api:
        about = await api.call("auth.test")
        if not own.events_url:
            await api.open_link()
    user, team = str(about.get("user") or ""), str(about.get("team") or "")
    return Verified(identity=f"@{user} in {team}", contact=f"write to @{user} in Slack, under Apps")


STEP: Final = SetupStep(
    title="Slack",
    about="api.slack.com/apps makes an app of a manifest; see doc/operate/connectors/slack.md",
    connector=NAME,
    connectors=in_use,
    questions=(
        SetupQuestion(name=NAME, prompt="Bot token (xoxb-...)", kind="secret"),
        SetupQuestion(name=SlackSecrets(NAME).app_token, prompt="App-level token (xapp-...)", kind="secret"),
        SetupQuestion(name="base_url", prompt="Address of the Web API", optional=True, asked=False),
    ),
    check=check,
)
