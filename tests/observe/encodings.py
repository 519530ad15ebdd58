"""How a secret may look in what a program writes: forms made by the standard library, apart from what finds them."""

import base64
import html
import json
import urllib.parse
from collections.abc import Iterator


def forms(secret: str) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each form; the texts are what must not be shown, without what surrounds it."""
    raw = secret.encode()
    yield "utf-16 read as latin-1", secret.encode("utf-16-le").decode("latin-1").strip("\x00")
    yield "quoted-printable", "".join(f"={byte:02X}" for byte in raw)
    for before in range(5):
        whole = base64.b32encode(b"<" * before + raw + b">" * 5).decode()
        yield f"base32 {before}", whole[-(-8 * before // 5) : 8 * (before + len(raw)) // 5]
    for code, data in _wide(secret):
        yield f"hex of {code}", data.hex()
        for before in range(3):
            whole = base64.b64encode(b"<" * before + data[4:] + b">>").decode()  # without a byte order mark
            yield f"base64 of {code} {before}", whole[-(-4 * before // 3) : 4 * (before + len(data) - 4) // 3 - 2]
    quoted = urllib.parse.quote(secret, safe="")
    yield "plain", secret
    yield "url", quoted
    yield "url path", urllib.parse.quote(secret)
    yield "url in small letters", "".join(f"%{byte:02x}" for byte in raw)
    yield "url in capitals", "".join(f"%{byte:02X}" for byte in raw)
    yield "url twice", urllib.parse.quote(quoted, safe="")
    yield "form", urllib.parse.quote_plus(secret)
    yield "json", json.dumps(secret)[1:-1]
    yield "json in utf-8", json.dumps(secret, ensure_ascii=False)[1:-1]
    yield "json in json", json.dumps(json.dumps(secret))[3:-3]
    wide = secret.encode("utf-16-be")
    units = [wide[at : at + 2].hex() for at in range(0, len(wide), 2)]
    yield "json escapes", "".join(f"\\u{unit}" for unit in units)
    yield "json escapes in capitals", "".join(f"\\u{unit.upper()}" for unit in units)
    yield "html", html.escape(secret)
    yield "repr", repr(secret)[1:-1]
    yield "repr of bytes", repr(raw)[2:-1]
    yield "hex", raw.hex()
    yield "HEX", raw.hex().upper()
    for separator in (":", " ", "-"):
        yield f"hex with {separator}", raw.hex(separator)
        yield f"HEX with {separator}", raw.hex(separator).upper()
    for before in range(3):
        for behind in range(3):
            text = b"<" * before + raw + b">" * behind
            inner = slice((0, 2, 3)[before], None)
            for name, encode in (("base64", base64.b64encode), ("urlsafe base64", base64.urlsafe_b64encode)):
                whole = encode(text).decode()
                end = (before + len(raw)) % 3
                own = whole[inner][: -(-len(raw) * 4 // 3) - 4] if end or behind else whole[inner].rstrip("=")
                yield f"{name} at {before}, {behind} behind", own
                yield f"{name} in a URL at {before}, {behind} behind", urllib.parse.quote(own, safe="")


def _wide(secret: str) -> Iterator[tuple[str, bytes]]:
    """Yield what other programs make bytes of before they encode them."""
    for code in ("utf-16-le", "utf-16-be", "utf-16"):
        yield code, secret.encode(code)
    yield "base64", base64.b64encode(secret.encode())


def shown(secret: str) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each form as it would stand in an output, with its surroundings."""
    raw = secret.encode()
    for name, form in forms(secret):
        if "base" not in name and "of utf" not in name:
            yield name, f"<{form}>"
    for before in range(3):
        for behind in range(3):
            text = b"<" * before + raw + b">" * behind
            yield f"base64 {before} {behind}", base64.b64encode(text).decode()
            yield f"urlsafe base64 {before} {behind}", base64.urlsafe_b64encode(text).decode()
            yield f"base64 in a URL {before} {behind}", urllib.parse.quote(base64.b64encode(text).decode(), safe="")
    yield "quoted-printable", "".join(f"={byte:02X}" for byte in raw)
    for before in range(5):
        yield f"base32 {before}", base64.b32encode(b"<" * before + raw + b">" * 5).decode()
    for code, data in _wide(secret):
        yield f"hex of {code}", data.hex()
        for before in range(3):
            yield f"base64 of {code} {before}", base64.b64encode(b"<" * before + data + b">>").decode()
