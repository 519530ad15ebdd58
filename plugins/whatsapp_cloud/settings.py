"""The settings of the WhatsApp Cloud API: `[plugins.whatsapp_cloud]`. See doc/operate/connectors/whatsapp-cloud.md."""

from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

GRAPH_URL: Final = "https://graph.facebook.com"
PATH: Final = "/whatsapp"
NAME: Final = "whatsapp_cloud"  # of the plugin, and of the secret that is the access token
CONNECTOR: Final = "whatsapp-cloud"
APP_SECRET: Final = f"{NAME}.app_secret"
VERIFY_TOKEN: Final = f"{NAME}.verify_token"
DEAF: Final = "choose another `listen` in [plugins.whatsapp_cloud]"

_Url = Annotated[str, Meta(pattern=r"^https?://[^/\s?#@]+[^\s?#@]*$")]
_Host = Annotated[str, Meta(pattern=r"^[A-Za-z0-9.-]+$")]


class CloudSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be chosen. Without a `phone_number_id` there is no connector."""

    phone_number_id: Annotated[str, Meta(pattern=r"^\d{0,32}$")] = ""
    base_url: _Url = GRAPH_URL
    version: Annotated[str, Meta(pattern=r"^v\d{1,3}\.\d{1,2}$")] = "v23.0"
    listen: Annotated[str, Meta(pattern=r"^(\[[0-9a-fA-F:]+\]|[^:\s]+):\d{1,5}$")] = "127.0.0.1:8444"
    webhook_url: Annotated[str, Meta(pattern=r"^(https?://[^/\s?#@]+[^\s?#@]*)?$")] = ""
    media_hosts: tuple[_Host, ...] = ("lookaside.fbsbx.com",)
    template: Annotated[str, Meta(pattern=r"^[a-z0-9_]{0,512}$")] = ""
    template_language: Annotated[str, Meta(pattern=r"^[a-z]{2,3}(_[A-Z]{2})?$")] = "en_US"
    templates_per_day: Annotated[int, Meta(ge=1, le=10_000)] = 20
    confirm_s: Annotated[int, Meta(ge=0, le=15)] = 12
    read_marks: bool = True

    @property
    def api_url(self) -> str:
        """What stands before the path of a call."""
        return f"{self.base_url.rstrip('/')}/{self.version}"

    @property
    def path(self) -> str:
        """The path that is listened for."""
        return (urlsplit(self.webhook_url).path or "/") if self.webhook_url else PATH
