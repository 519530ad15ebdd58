"""Addresses that only this machine reaches."""

from daycare.base.errors import InvalidError


def loopback(listen: str) -> tuple[str, int]:
    """Return (host, port) of `127.0.0.1:9464`. Raises `InvalidError` METRICS_LISTEN for what others might reach."""
    import ipaddress  # late: only who asks for it needs it

    host, colon, port = listen.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    try:
        address = ipaddress.ip_address("127.0.0.1" if bare == "localhost" else bare)
        number = int(port) if port.isascii() and port.isdecimal() else -1
    except ValueError:
        number = -1
    if not colon or not 0 <= number <= 65_535:  # 0: any that is free
        raise InvalidError("METRICS_LISTEN", f'expected "127.0.0.1:9464" instead of "{listen}"')
    if not address.is_loopback:
        raise InvalidError(
            "METRICS_LISTEN",
            f"{listen} can be reached from outside, and metrics have no password: listen on 127.0.0.1 or [::1], and"
            " let a proxy of yours decide who else sees them",
        )
    return str(address), number
