"""Where programs and browsers reach the API besides its socket, and who encrypts that: `[api]` in config.toml."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from daycare.base.errors import InvalidError
from daycare.base.loopback import address, is_loopback
from daycare.base.problems import lower
from daycare.base.toml_positions import Key

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network


class ApiSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[api]`: where programs reach the API besides its socket, several addresses with commas; empty for nowhere.

    `hosts` are the names by which they do, `origins` the web pages that may. `cert` and `key` are files for TLS of our
    own, `trusted_proxies` the addresses and networks of proxies that do it instead; `insecure` lets tokens cross a
    network without encryption.
    """

    listen: str = ""
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    cert: str = ""
    key: str = ""
    trusted_proxies: tuple[str, ...] = ()
    insecure: bool = False

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The addresses, (host, port) each. Raises `InvalidError` ADDRESS_INVALID."""
        return tuple(address(each.strip()) for each in self.listen.split(",") if each.strip())

    @property
    def outside(self) -> tuple[tuple[str, int], ...]:
        """The addresses that other machines reach."""
        return tuple(each for each in self.addresses if not is_loopback(each[0]))

    @property
    def proxies(self) -> "tuple[IPv4Network | IPv6Network, ...]":
        """The addresses of `trusted_proxies`. Raises `ValueError` for what is none."""
        from ipaddress import ip_network

        return tuple(ip_network(each) for each in self.trusted_proxies)

    @property
    def cert_files(self) -> tuple[Path, Path]:
        """The files of the certificate and its key."""
        return Path(self.cert).expanduser(), Path(self.key).expanduser()


def flaws(section: ApiSection) -> Iterator[tuple[Key, str]]:
    """Return what is wrong in it, by key: what others reach has to be encrypted by somebody, or said not to be."""
    try:
        outside = section.outside
    except InvalidError as error:
        yield ("api", "listen"), lower(error.message)
        return
    for name in ("cert", "key"):
        file = getattr(section, name)
        if file and not Path(file).expanduser().is_absolute():
            yield ("api", name), f'expected the whole path of a file instead of "{file}"'
    if bool(section.cert) != bool(section.key):
        yield ("api", "key" if section.cert else "cert"), "is needed: TLS takes a certificate and its key"
    try:
        _ = section.proxies
    except ValueError as error:
        yield ("api", "trusted_proxies"), f'expected such as "10.0.0.1" or "10.0.0.0/8": {error}'
    if outside and not (section.cert or section.trusted_proxies or section.insecure):
        yield (
            ("api", "listen"),
            f"{outside[0][0]} can be reached from outside, and nothing would be encrypted: name cert and key, or the"
            " trusted_proxies that do TLS, or listen on 127.0.0.1, or write insecure = true",
        )
    for origin in section.origins:
        if not _is_origin(origin):
            yield ("api", "origins"), f'expected such as "https://chat.example.org" instead of "{origin}"'


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        named = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return named and not parts.path and not parts.query and text.isprintable()
