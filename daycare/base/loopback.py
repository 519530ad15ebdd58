"""Addresses to listen on, `HOST:PORT`, and whether only programs of this machine reach them."""

from daycare.base.errors import InvalidError


def address(listen: str) -> tuple[str, int]:
    """Return (host, port) of `127.0.0.1:8686` or `[::1]:8686`, IP addresses. Raises `InvalidError` ADDRESS_INVALID."""
    import ipaddress  # late: only who asks for it needs it

    host, colon, port = listen.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    try:
        found = ipaddress.ip_address("127.0.0.1" if bare == "localhost" else bare)
        number = int(port) if port.isascii() and port.isdecimal() else -1
    except ValueError:
        number = -1
    if not colon or not 0 <= number <= 65_535:  # 0: any that is free
        raise InvalidError("ADDRESS_INVALID", f'expected such as "127.0.0.1:9464" instead of "{listen}"')
    return str(found), number


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine reach an IP address."""
    import ipaddress

    return ipaddress.ip_address(host).is_loopback


def loopback(listen: str) -> tuple[str, int]:
    """Return (host, port) of `127.0.0.1:9464`. Raises `InvalidError` METRICS_LISTEN for what others might reach."""
    found = address(listen)
    if not is_loopback(found[0]):
        raise InvalidError(
            "METRICS_LISTEN",
            f"{listen} can be reached from outside, and metrics have no password: listen on 127.0.0.1 or [::1], and"
            " let a proxy of yours decide who else sees them",
        )
    return found
