"""Where a request comes from, and how: a proxy is believed what it says of that if `[api] trusted_proxies` names it."""

import ipaddress
from collections.abc import Mapping
from typing import NamedTuple

from starlette.types import Scope

from daycare.base.loopback import is_loopback
from daycare.settings import Live


class Peer(NamedTuple):
    """Who is at the other end. `secure` is whether everything in between is encrypted; `direct` that no proxy is."""

    address: str
    secure: bool
    direct: bool


class Peers:
    """Tells where requests come from."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._networks = live.made(lambda config: config.api.proxies)

    def of(self, scope: Scope, headers: Mapping[str, str]) -> Peer:
        """Return who sends a request: behind trusted proxies the last one that is none of them."""
        address, secure = str((scope.get("client") or ("", 0))[0]), scope["scheme"] in ("https", "wss")
        if not self.trusted(address):
            return Peer(address, secure, direct=True)
        secure = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower() in ("https", "wss")
        for hop in reversed(headers.get("x-forwarded-for", "").split(",")):
            if not (said := _address(hop)):
                break  # what cannot be read, and all before it, is nobody's word
            address = said
            if not self.trusted(said):
                break
        return Peer(address, secure, direct=False)

    def trusted(self, address: str) -> bool:
        """Whether an address is a proxy's that is believed."""
        found = _address(address)
        return bool(found) and any(ipaddress.ip_address(found) in network for network in self._networks())

    def past_proxy(self, peer: Peer) -> bool:
        """Whether a request comes from outside without encryption, where only proxies may do so."""
        section = self._live.now.api
        if not peer.direct or peer.secure or section.insecure or not section.trusted_proxies:
            return False
        found = _address(peer.address)
        return bool(found) and not is_loopback(found)


def _address(text: str) -> str:
    """Return an address in its one spelling, without a port and as IPv4 where it is one; "" for anything else."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return ""
    return str(getattr(found, "ipv4_mapped", None) or found)
