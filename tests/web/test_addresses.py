"""What agents may reach on the network: nothing but the public Internet, whatever a name or a literal says."""

import ipaddress
from collections.abc import Sequence

import pytest
import trio

from daycare.base.errors import DaycareError, InvalidError
from daycare.public_network import NotPublicError, PublicNetwork, is_public
from daycare_plugins.web.fetching import WebFetcher, checked

_PRIVATE = """
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.254 127.0.0.1 127.0.0.53 127.255.255.254
    169.254.0.1 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.254 192.0.0.1 192.0.0.8 192.0.0.170
    192.0.2.1 192.88.99.1 192.168.0.1 192.168.255.254 198.18.0.1 198.19.255.254 198.51.100.1 203.0.113.1
    224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1 ::10.0.0.1 ::ffff:127.0.0.1
    ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:192.168.1.1 ::ffff:0:127.0.0.1 ::ffff:0:10.0.0.1
    64:ff9b::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b::169.254.169.254 64:ff9b:1::1 64:ff9b:1::10.0.0.1 100::1
    2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1::
    2002:a00:1:: 2002:a9fe:a9fe:: 2002:c0a8:101:: 3fff::1 5f00::1 fc00::1 fd00::1 fd00:ec2::254
    fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff fe80::1 febf::1 fec0::1 ff01::1 ff02::1 ff05::2 ff0e::1
"""
PRIVATE = _PRIVATE.split()
_PUBLIC = """
    1.1.1.1 8.8.8.8 93.184.216.34 185.199.108.153 2606:4700:4700::1111 2a00:1450:4001::1 64:ff9b::8.8.8.8
"""
PUBLIC = _PUBLIC.split()
_LITERALS = """
    127.1 127.0.1 0 0x7f.1 0x7f000001 0177.0.0.1 017700000001 2130706433 0x7f.0x0.0x0.0x1 localhost localhost.
    [::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:0:0:1] [::127.0.0.1] 127.0.0.1. 0.0.0.0 0.0 10.1
    0xa.1 169.254.169.254 0xa9fea9fe 2852039166 0251.0376.0251.0376 192.168.257 [fd00:ec2::254] [fe80::1%25lo]
"""
WIDE = "".join(chr(ord(each) + 0xFEE0) for each in "127.0.0.1")  # which some resolvers read as digits
LITERALS = [*_LITERALS.split(), WIDE, "\u2460\u2461\u2466.0.0.1", "127\u30020\u30020\u30021"]
NO_PAGES = (
    "file:///etc/passwd",
    "ftp://example.org/x",
    "gopher://127.0.0.1:6379/_x",
    "javascript:alert(1)",
    "data:text/html,x",
    "unix:///run/x.sock",
    "https://",
    "https:///path",
    "http://user:secret@example.org/",
    "http://example.org@127.0.0.1/",
    "http://127.0.0.1\\@example.org/",
    "http://example.org:22/",
    "http://example.org:6379/",
    "http://example.org:25/",
    "http://example.org:99999/",
    "http://example.org:0x50/",
    "http://exam ple.org/",
    "http://example.org/\r\nX: y",
    "http://[::1/",
    "x" * 3_000,
)


@pytest.mark.parametrize("text", PRIVATE)
def test_no_private_address_is_public(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


class Dialled:
    """Notes what would have been connected to, and connects to nothing."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    async def __call__(self, address: str, port: int) -> trio.SocketStream:
        self.reached.append(address)
        raise ConnectionRefusedError("nothing is there")


@pytest.mark.parametrize("host", LITERALS)
async def test_no_spelling_of_a_private_address_is_reached(host: str) -> None:
    dialled = Dialled()
    web = WebFetcher(PublicNetwork(dial=dialled))
    for scheme in ("http", "https"):
        with pytest.raises(DaycareError):
            await web.fetch(f"{scheme}://{host}/")
    assert dialled.reached == []


@pytest.mark.parametrize("url", NO_PAGES)
def test_what_is_no_page_is_refused_before_a_name_is_looked_up(url: str) -> None:
    with pytest.raises(InvalidError):
        checked(url)


@pytest.mark.parametrize("text", PRIVATE)
async def test_a_name_that_has_a_private_address_beside_a_public_one_is_not_reached(text: str) -> None:
    dialled = Dialled()

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["93.184.216.34", text]

    web = WebFetcher(PublicNetwork(resolve=resolve, dial=dialled))
    with pytest.raises(NotPublicError, match=r"example\.org is not on the public Internet"):
        await web.fetch("https://example.org/")
    assert dialled.reached == []


async def test_the_address_that_was_looked_at_is_the_one_that_is_reached() -> None:
    answers = iter([["93.184.216.34"], ["127.0.0.1"]])  # as of a name that means another address a moment later

    async def resolve(host: str, port: int) -> Sequence[str]:
        return next(answers)

    dialled = Dialled()
    network = PublicNetwork(resolve=resolve, dial=dialled)
    with pytest.raises(ConnectionRefusedError):
        await network.connect("example.org", 443)
    assert dialled.reached == ["93.184.216.34"]
    with pytest.raises(NotPublicError):
        await network.connect("example.org", 443)
    assert dialled.reached == ["93.184.216.34"]
