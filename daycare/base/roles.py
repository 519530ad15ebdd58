"""Names of parts of the daemon that only one of several nodes may run at a time."""

from typing import Final

CONNECTORS: Final = "connectors"  # what is connected with messengers
