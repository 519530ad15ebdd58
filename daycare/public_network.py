"""Which addresses may be reached: those of the public Internet, and those of a house that its owner has named.

A name is resolved here, each address looked at, and the connection made to that very address: a name that means another
one a moment later reaches nothing else.
"""

import ipaddress
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import trio

from daycare.base.errors import ForbiddenError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[Collection[str]]]
Dial = Callable[[str, int], Awaitable[trio.SocketStream]]

RESOLVE_S: Final = 5.0
CONNECT_S: Final = 5.0  # to one of its addresses

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: how networks without IPv4 name all of it
_V4_BITS: Final = (1 << 32) - 1
# Not for others to reach, whatever Python's own table says of parts of them.
_NEVER: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",
            "100.64.0.0/10",
            "192.0.0.0/24",
            "192.88.99.0/24",
            "198.18.0.0/15",
            "240.0.0.0/4",
            "64:ff9b:1::/48",
            "100::/64",
            "2001::/23",  # Teredo and other protocols
            "2001:db8::/32",
            "3fff::/20",
            "5f00::/16",
            "fc00::/7",
            "fe80::/10",
            "fec0::/10",
        ),
    )
)


def is_public(address: Address) -> bool:
    """Return whether an address is one of the public Internet; one that stands for another if that one is."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & _V4_BITS))
        inner = address.ipv4_mapped or address.sixtofour
        if inner is not None and not is_public(inner):
            return False
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address in network for network in _NEVER if network.version == address.version)


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a name, in the order in which they are to be tried."""
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


async def dial(address: str, port: int) -> trio.SocketStream:
    """Open a connection to an address."""
    family = trio.socket.AF_INET6 if ":" in address else trio.socket.AF_INET
    made = trio.socket.socket(family)
    try:
        await made.connect((address, port))
    except BaseException:
        made.close()
        raise
    return trio.SocketStream(made)


class NotPublicError(ForbiddenError):
    """A name leads to an address that is not for agents to reach."""


class PublicNetwork:
    """Connects to public addresses, and to those in `private`, and to no others. `dial` opens a connection."""

    def __init__(self, private: Collection[Network] = (), resolve: Resolve = resolve, dial: Dial = dial) -> None:
        self._private = private
        self._resolve = resolve
        self._dial = dial

    async def connect(self, host: str, port: int) -> trio.SocketStream:
        """Connect to the first address of a host that answers.

        Raises `NotPublicError` if one of them is not public, `OSError` if none answers.
        """
        addresses = await self._addresses(host, port)
        refused: OSError = ConnectionRefusedError(f"{host} has no address")
        for address in addresses:
            try:
                with trio.fail_after(CONNECT_S):
                    return await self._dial(str(address), port)
            except trio.TooSlowError:
                refused = TimeoutError(f"{host} does not answer")
            except OSError as error:
                refused = error
        raise refused

    async def _addresses(self, host: str, port: int) -> list[Address]:
        try:
            with trio.fail_after(RESOLVE_S):
                found = [ipaddress.ip_address(each.partition("%")[0]) for each in await self._resolve(host, port)]
        except (OSError, UnicodeError, ValueError, trio.TooSlowError):
            raise ConnectionRefusedError(f"{host} is not known") from None
        if not all(map(self._may_reach, found)):
            raise NotPublicError(
                "WEB_NOT_PUBLIC", f"{host} is not on the public Internet", hint="[plugins.web] private"
            )
        return found

    def _may_reach(self, address: Address) -> bool:
        return is_public(address) or any(address in network for network in self._private)
