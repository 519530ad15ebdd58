"""Documents made on the spot: the least that each format asks for, and what somebody would send to do harm."""

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Final

_WORD: Final = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_SHEET: Final = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_RELATION: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006"
_OPEN: Final = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{full}:1.0"'
    for name, full in {"office": "office", "text": "text", "table": "table", "draw": "drawing"}.items()
)


def pdf(pages: Sequence[str], *, stream: bytes | None = None, kids: str | None = None) -> bytes:
    """Return a PDF file; `stream` is what all pages draw instead, packed, `kids` another tree of pages."""
    parts = [b"<</Type/Catalog/Pages 2 0 R>>", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    places = []
    for page in pages:
        drawn = stream or zlib.compress(f"BT /F1 12 Tf 72 720 Td ({page}) Tj ET".encode("latin-1"))
        if stream is None or len(parts) == 3:
            parts.append(b"<</Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (len(drawn), drawn))
            content = len(parts)
        font = b"/Resources<</Font<</F1 3 0 R>>>>"
        parts.append(b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]%b/Contents %d 0 R>>" % (font, content))
        places.append(f"{len(parts)} 0 R")
    parts[1] = f"<</Type/Pages/Kids[{kids or ' '.join(places)}]/Count {len(pages)}>>".encode()
    out, offsets = bytearray(b"%PDF-1.7\n"), []
    for number, part in enumerate(parts, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, part)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(parts) + 1) + b"".join(
        b"%010d 00000 n \n" % at for at in offsets
    )
    return bytes(out + b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(parts) + 1, start))


def packed(parts: Mapping[str, str | bytes]) -> bytes:
    """Return an archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return out.getvalue()


def docx(body: str, before: str = "") -> bytes:
    """Return a document of Word with this XML in its body, and `before` above all."""
    types = f'<Types xmlns="{_PACKAGE}/content-types"/>'
    document = f'<?xml version="1.0"?>{before}<w:document {_WORD}><w:body>{body}</w:body></w:document>'
    return packed({"[Content_Types].xml": types, "word/document.xml": document})


def word(*texts: str) -> str:
    """Return paragraphs for a document of Word."""
    return "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in texts)


def pptx(*slides: str) -> bytes:
    """Return slides in this order, though their files are numbered the other way round."""
    numbers = range(len(slides), 0, -1)
    listed = "".join(f'<p:sldId r:id="r{number}"/>' for number in numbers)
    relations = "".join(f'<Relationship Id="r{number}" Target="slides/slide{number}.xml"/>' for number in numbers)
    return packed(
        {
            "ppt/presentation.xml": f'<p:presentation xmlns:p="p" xmlns:r="{_RELATION}">{listed}</p:presentation>',
            "ppt/_rels/presentation.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{relations}'
            "</Relationships>",
            **{
                f"ppt/slides/slide{number}.xml": f'<p:sld xmlns:p="p" xmlns:a="a"><a:p><a:r><a:t>{text}</a:t></a:r>'
                "</a:p></p:sld>"
                for number, text in zip(numbers, slides, strict=True)
            },
        }
    )


def opened(kind: str, body: str) -> bytes:
    """Return an OpenDocument file of a kind: text, spreadsheet or presentation."""
    content = (
        f"<office:document-content {_OPEN}><office:body><office:{kind}>{body}</office:{kind}>"
        "</office:body></office:document-content>"
    )
    return packed(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": content,
            "META-INF/manifest.xml": "<manifest/>",
        }
    )


def epub(*chapters: str, more: Mapping[str, str] | None = None) -> bytes:
    """Return a book."""
    items = "".join(
        f'<item id="c{at}" href="c%20{at}.xhtml" media-type="application/xhtml+xml"/>' for at in range(len(chapters))
    )
    order = "".join(f'<itemref idref="c{at}"/>' for at in range(len(chapters)))
    return packed(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="in/it.opf"/></rootfiles></container>',
            "in/it.opf": f"<package><manifest>{items}</manifest><spine>{order}</spine></package>",
            **{f"in/c {at}.xhtml": f"<html><body>{text}</body></html>" for at, text in enumerate(chapters)},
            **(more or {}),
        }
    )
