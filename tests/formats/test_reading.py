"""Documents become text in a process of its own; what would do harm ends there, with a word about it."""

import io
import os
import subprocess
import sys
import zlib
from datetime import date
from functools import partial

import pytest
import trio
from openpyxl import Workbook
from pypdf import PdfReader, PdfWriter

from daycare.base.errors import InvalidError
from daycare.formats import parsing, reading
from daycare.formats.pdf import PDF_PAGES_MAX
from daycare.formats.reading import READ_LATE_S, readable, text_of
from tests.formats.samples import docx, epub, opened, packed, pdf, pptx, word

TABLE = f"<w:tbl><w:tr><w:tc>{word('a')}</w:tc><w:tc>{word('b', 'c')}</w:tc></w:tr></w:tbl>"
HEADING = '<w:p><w:pPr><w:pStyle w:val="Heading2"/></w:pPr><w:r><w:t>Tea</w:t></w:r></w:p>'
SPEECH = '<draw:page draw:name="one"><text:p>first</text:p></draw:page>'
ROWS = (
    '<table:table table:name="Costs"><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>'
    '<table:table-cell table:number-columns-repeated="2"><text:p>5</text:p></table:table-cell>'
    '<table:table-cell table:number-columns-repeated="16000"/></table:table-row></table:table>'
)


def workbook() -> bytes:
    book = Workbook()
    sheet = book.active
    sheet.title = "Costs"
    sheet.append(["when", "what", None, "how much"])
    sheet.append([date(2026, 11, 27), "tea", None, 4.5])
    book.create_sheet("Empty")
    book.save(out := io.BytesIO())
    return out.getvalue()


def locked(password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(["secret"]))))
    writer.encrypt(password, owner_password="owner", algorithm="AES-256")
    writer.write(out := io.BytesIO())
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (pdf(["one", "two"]), "[page 1 of 2]\none\n\n[page 2 of 2]\ntwo"),
        (locked(""), "[page 1 of 1]\nsecret"),
        (docx(HEADING + word("Steep &amp; wait") + TABLE), "## Tea\nSteep & wait\na | b c"),
        (
            workbook(),
            "[sheet 1 of 2: Costs]\nwhen | what |  | how much\n2026-11-27 00:00:00 | tea |  | 4.5\n\n[sheet 2",
        ),
        (pptx("first", "second"), "[slide 1 of 2]\nfirst\n\n[slide 2 of 2]\nsecond"),
        (opened("text", '<text:h text:outline-level="2">Tea</text:h><text:p>a<text:s/>b</text:p>'), "## Tea\na b"),
        (opened("spreadsheet", ROWS), "[sheet 1: Costs]\na | 5 | 5"),
        (opened("presentation", SPEECH), "[slide 1: one]\nfirst"),
        (epub("<h1>Tea</h1>", "<p>Steep it.</p>"), "[chapter 1]\n# Tea\n\n[chapter 2]\nSteep it."),
        ("<!DOCTYPE html><meta charset=latin-1><p>Grün".encode("latin-1"), "Grün"),
    ],
    ids=["pdf", "no password", "docx", "xlsx", "pptx", "odt", "ods", "odp", "epub", "html"],
)
async def test_a_document_is_read_with_its_pages(data: bytes, text: str) -> None:
    assert readable(data, "application/octet-stream"), "by its bytes"
    assert (await text_of(data)).startswith(text)


LAUGHS = '<!DOCTYPE w [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {here} "{f"&{there};" * 10}">' for there, here in zip("abcdefgh", "bcdefghi", strict=True)
)
OUTSIDE = '<!DOCTYPE w [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
ZEROS = zlib.compress(bytes(10_000_000), 9)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (locked("word"), "password"),
        (docx(word("&a;"), OUTSIDE), "damaged"),
        (docx(word("&i;"), LAUGHS + "]>"), "damaged"),
        (pdf(["x"], kids="2 0 R"), "damaged"),
        (pdf(["x"])[:300], "damaged|no text"),
        (docx(word("x" * 1_000))[:200], "damaged"),
        (pdf([""]), "scanned"),
        (packed({"a.txt": "a"}), "archives are not unpacked"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 old", "saved as .docx"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "password"),
        (epub("a", more={"META-INF/rights.xml": ""}), "locked by the shop"),
        (b"<html>" + b"<div>" * 5_000 + b"deep", "damaged"),
        (b"\x00" * (20 * 1024**2 + 1), "too large"),
    ],
)
async def test_what_is_not_read_says_why_and_what_to_do(data: bytes, why: str) -> None:
    with pytest.raises(InvalidError, match=why):
        await text_of(data)


@pytest.mark.parametrize("parts", [1, 4])
async def test_what_is_too_large_when_it_is_unpacked_is_not_read(parts: int) -> None:
    data = docx(word("x" * 70_000_000)) if parts == 1 else packed({f"word/{n}": bytes(60_000_000) for n in range(4)})
    with pytest.raises(InvalidError, match="too large when it is unpacked"):
        await text_of(data)


async def test_a_document_of_many_levels_is_read() -> None:
    deep = "<w:sdt>" * 100_000 + word("deep") + "</w:sdt>" * 100_000
    assert await text_of(docx(deep)) == "deep"


async def test_of_a_document_of_many_pages_the_first_are_read() -> None:
    text = await text_of(pdf(["word"] * (PDF_PAGES_MAX + 1)))
    assert text.startswith("[page 1 of 2001]\nword")
    assert text.endswith("[pages 2001 to 2001 are not read; they could be sent as a file of their own]")


async def test_a_text_ends_at_its_bound() -> None:
    text = await text_of(docx(word("x" * 1_000)), most=100)
    assert text.startswith("x" * 100 + "\n[the text ends here: the file has more than 100 characters")


async def test_what_takes_for_ever_or_all_memory_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "READ_S", 1.0)
    slow = zlib.compress(b"BT /F1 1 Tf " + b"(x) Tj 1 0 0 1 0 0 cm q Q " * 1_000_000 + b"ET", 9)
    with trio.fail_after(READ_LATE_S):
        async with trio.open_nursery() as nursery:
            for stream in (slow, ZEROS):
                nursery.start_soon(partial(_ends, pdf(["x"], stream=stream)))


async def _ends(data: bytes) -> None:
    with pytest.raises(InvalidError, match=r"reading on|no text|scanned|memory"):
        await text_of(data)


async def test_what_does_not_stop_by_itself_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "READ_LATE_S", 0.01)
    with pytest.raises(InvalidError, match="takes longer"):
        await text_of(pdf(["x"]))


def test_the_process_opens_nothing_once_it_reads() -> None:
    tries = """
import os, socket
from daycare.formats import parsing
parsing.bound(5.0)
parsing.shut()
for each in (lambda: open("/etc/passwd"), socket.socket, lambda: os.pipe()):
    try:
        each()
    except OSError:
        print("refused")
"""
    done = subprocess.run([sys.executable, "-c", tries], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n" * 3


@pytest.mark.parametrize("said", [b"", b"no", b"[]", b'{"why": 1}', b'{"why": "a\\nb"}', b'{"text": ""}'])
def test_an_answer_that_is_none_is_an_unreadable_file(said: bytes) -> None:
    with pytest.raises(InvalidError, match="damaged"):
        reading._answer(0, said)


def test_bounds_fit_each_other() -> None:
    assert reading.ANSWER_MAX_BYTES > 6 * reading.FORMAT_TEXT_MAX_CHARS, "each letter may be six in JSON"
    assert reading.READ_S + parsing.CPU_MORE_S < READ_LATE_S
    assert os.sep == "/"


async def test_a_reader_that_says_without_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ANSWER_MAX_BYTES", 100_000)
    endless = [sys.executable, "-c", "while True: print('x' * 10_000)"]
    with trio.fail_after(20):
        status, said = await reading._run(endless, b"")
    assert status != 0 and len(said) < 1_000_000
