"""The Cloud API's step in `daycare init`: the number and the token, tried by asking Meta for the number."""

from collections.abc import Sequence
from typing import Final

from daycare.plugin import Secret, SetupQuestion, SetupStep, Verified
from daycare_plugins.whatsapp_cloud.settings import APP_SECRET, NAME, VERIFY_TOKEN, CloudSettings

CONNECTOR: Final = "whatsapp-cloud"


def in_use(settings: CloudSettings, secret: Secret) -> Sequence[str]:
    """Return the connector where there is a number with a token."""
    return [CONNECTOR] if settings.phone_number_id and secret(NAME) else []


async def check(_: str, settings: CloudSettings, secret: Secret) -> Verified:
    """Ask Meta for our number; nothing is sent or changed by that."""
    from daycare_plugins.whatsapp_cloud.client import Graph  # httpx

    async with Graph(settings, lambda: (secret(NAME) or "").strip()) as graph:
        found = await graph.number()
    number = str(found.get("display_phone_number") or settings.phone_number_id)
    return Verified(identity=number, contact=f"write to {number} in WhatsApp")


STEP: Final = SetupStep(
    title="WhatsApp Business (Cloud API)",
    about="Meta's developer pages show the number's id and make a token; see doc/operate/connectors/whatsapp-cloud.md",
    connector=CONNECTOR,
    connectors=in_use,
    questions=(
        SetupQuestion(name="phone_number_id", prompt="Id of the telephone number"),
        SetupQuestion(name=NAME, prompt="Access token", kind="secret"),
        SetupQuestion(name=APP_SECRET, prompt="App secret", kind="secret"),
        SetupQuestion(name=VERIFY_TOKEN, prompt="Verify token of the webhook", kind="secret"),
        SetupQuestion(name="webhook_url", prompt="Public address of the webhook", optional=True),
        SetupQuestion(name="base_url", prompt="Address of the Graph API", optional=True, asked=False),
    ),
    check=check,
)
