"""What a bucket's server may do, and what is made of it."""

import hashlib

import pytest
import trio

from daycare.base.errors import BrokenError, DaycareError, SetupError, UnavailableError
from daycare.base.files_settings import FilesSection, S3Section, flaws
from daycare.features.files.answers import read_page
from daycare.features.files.bucket import account
from daycare.features.files.client import S3_RETRY_S, S3_TRIES, S3Client
from daycare.testing.clock import VirtualClock
from daycare.testing.s3_server import Fault
from tests.files.conftest import UpOrDown, section

DATA = bytes(range(256)) * 8


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
async def client(s3: UpOrDown, clock: VirtualClock) -> S3Client:
    return S3Client(section(s3), lambda: account(section(s3), s3.key), clock)


async def test_an_object_is_read_as_it_was_put_whole_and_in_parts(autojump_clock: object, client: S3Client) -> None:
    await client.put("daycare/a/b", DATA, sha(DATA))
    for offset, length in ((0, len(DATA)), (0, 10), (5, 100), (len(DATA) - 3, 3), (len(DATA) - 3, 10)):
        found = await client.get("daycare/a/b", offset, length, len(DATA))
        assert (found.data, found.size, found.sha256) == (DATA[offset : offset + length], len(DATA), sha(DATA))


async def test_a_name_with_each_letter_that_a_prefix_may_have_is_signed_as_it_is_sent(
    autojump_clock: object, s3: UpOrDown, clock: VirtualClock
) -> None:
    for style in (True, False):
        settings = section(s3, path_style=style, endpoint="http://localhost")
        client = S3Client(settings, lambda: account(settings, s3.key), clock)  # noqa: B023
        await client.put("a_b.c-d/E~/x", b"x", sha(b"x"))
        assert (await client.get("a_b.c-d/E~/x", 0, 1, 1)).data == b"x"
        assert [each.name for each in (await client.page("a_b.c-d/"))[0].objects] == ["a_b.c-d/E~/x"]


async def test_a_list_comes_in_pages_in_the_order_of_names(
    autojump_clock: object, client: S3Client, s3: UpOrDown
) -> None:
    s3.page_max = 3
    names = [f"daycare/x/{number:02}" for number in range(8)]
    for name in (*names, "daycare/y/1", "other/1"):
        await client.put(name, b"x", sha(b"x"))
    found, after = [], ""
    while True:
        page, now_ms = await client.page("daycare/x/", after)
        found += [each.name for each in page.objects]
        assert all(abs(each.changed_ms - now_ms) <= 1_000 for each in page.objects)
        if not page.more:
            break
        after = found[-1]
    assert found == names


async def test_of_many_deletions_those_that_are_refused_are_named(
    autojump_clock: object, client: S3Client, s3: UpOrDown
) -> None:
    for name in ("a", "b&<c>", "d"):
        await client.put(name, b"x", sha(b"x"))
    s3.refused_names = {"b&<c>"}
    left = await client.delete(["a", "b&<c>", "d", "was-never-there"])
    assert list(left) == ["b&<c>"] and "AccessDenied" in left["b&<c>"]
    assert list(s3.objects) == ["b&<c>"]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=503, code="SlowDown"),
        Fault(status=500),
        Fault(status=400, code="RequestTimeout"),
        Fault(status=400, code="BadDigest"),
        Fault(lost=True),
        Fault(lost=True, late=True),
        Fault(cut=3, method="GET"),
    ],
    ids=["slow-down", "internal", "timeout", "digest", "lost", "done-and-lost", "cut"],
)
async def test_what_passes_is_tried_again(autojump_clock: object, client: S3Client, s3: UpOrDown, fault: Fault) -> None:
    s3.faults = [fault]
    await client.put("a", DATA, sha(DATA))
    assert (await client.get("a", 0, len(DATA), len(DATA))).data == DATA
    assert s3.objects["a"].data == DATA and not s3.faults
    assert len(s3.asked) == 3


async def test_no_more_than_some_times(autojump_clock: object, client: S3Client, s3: UpOrDown) -> None:
    s3.faults = [Fault(status=503, code="SlowDown") for _ in range(10)]
    began = trio.current_time()
    with pytest.raises(UnavailableError, match=r"status 503: SlowDown") as failed:
        await client.put("a", DATA, sha(DATA))
    assert failed.value.code == "BUCKET_AWAY" and len(s3.asked) == S3_TRIES
    assert trio.current_time() - began == pytest.approx(3 * S3_RETRY_S)


async def test_a_server_that_says_nothing_is_waited_for_as_long_as_is_set(
    autojump_clock: object, s3: UpOrDown, clock: VirtualClock
) -> None:
    settings = section(s3, timeout_s=3)
    client = S3Client(settings, lambda: account(settings, s3.key), clock)
    s3.faults = [Fault(silent=True), Fault(silent=True)]
    began = trio.current_time()
    with pytest.raises(UnavailableError, match="longer than 3 s"):
        await client.put("a", b"x", sha(b"x"))
    assert 3 <= trio.current_time() - began < 3.1 and len(s3.asked) == 1, "who was late once is not asked again"
    began = trio.current_time()
    with pytest.raises(UnavailableError, match="longer than 13 s"):
        await client.put("a", bytes(10_000_000), sha(bytes(10_000_000)))
    assert 13 <= trio.current_time() - began < 13.1


async def test_one_that_cannot_be_reached_says_so(autojump_clock: object, client: S3Client, s3: UpOrDown) -> None:
    s3.down = True
    with pytest.raises(UnavailableError, match=r"files at 127\.0\.0\.1: the connection failed: Connection refused"):
        await client.put("a", b"x", sha(b"x"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"secret": "another"}, "SignatureDoesNotMatch"),
        ({"key_id": "ANOTHER"}, "InvalidAccessKeyId"),
        ({"token": "needed"}, "InvalidToken"),
        ({"region": "eu-central-1"}, "AuthorizationHeaderMalformed"),
        ({"bucket": "another"}, "NoSuchBucket"),
        ({"now_s": lambda: 0.0}, "RequestTimeTooSkewed"),
    ],
)
async def test_what_does_not_pass_needs_a_person_and_tells_no_secret(
    autojump_clock: object, s3: UpOrDown, clock: VirtualClock, change: dict[str, object], says: str
) -> None:
    settings, key = section(s3), s3.key
    client = S3Client(settings, lambda: account(settings, key), clock)
    for name, value in change.items():
        setattr(s3, name, value)
    for ask in (client.put("a", b"x", sha(b"x")), client.get("a", 0, 1, 1), client.page("a")):
        with pytest.raises(SetupError, match=says) as refused:
            await ask
        assert refused.value.code == "BUCKET_REFUSED" and refused.value.hint
        told = str(refused.value)
        assert not [part for part in key.split(":")[1:] if part in told] and "AWS4" not in told
    assert len(s3.asked) == 3, "nobody asks again what stays as it is"


async def test_who_asks_is_told_what_is_wrong_with_the_key(
    autojump_clock: object, s3: UpOrDown, clock: VirtualClock
) -> None:
    settings = section(s3)
    for wrong in ("only-one-part", ":part", "part:", "a-part:a-part:a-part:a-part", "a-part:a\npart"):
        with pytest.raises(SetupError, match="ACCESS_KEY_ID:SECRET_ACCESS_KEY") as refused:
            account(settings, wrong, {})
        assert "part" not in str(refused.value)
    with pytest.raises(SetupError, match="there is no key"):
        account(settings, None, {"AWS_ACCESS_KEY_ID": "a"})
    environment = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b+/=", "AWS_SESSION_TOKEN": "c"}
    assert account(settings, None, environment) == ("a", "b+/=", "c")
    assert account(settings, "d:e/f", environment) == ("d", "e/f", "")
    s3.key_id, s3.secret, s3.token = "a", "b+/=", "c"
    await S3Client(settings, lambda: account(settings, None, environment), clock).put("x", b"y", sha(b"y"))


async def test_an_object_that_is_not_there_or_has_another_size_is_no_outage(
    autojump_clock: object, client: S3Client, s3: UpOrDown
) -> None:
    with pytest.raises(BrokenError, match="it is not there") as missing:
        await client.get("a", 0, 5, 5)
    assert missing.value.code == "OBJECT_LOST"
    await client.put("a", b"abc", sha(b"abc"))
    for offset, length, size in ((0, 2, 2), (5, 2, 10)):
        with pytest.raises(BrokenError, match="another size") as changed:
            await client.get("a", offset, length, size)
        assert changed.value.code == "OBJECT_CHANGED"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"<html>hello</html>",
        b"<ListBucketResult><Contents>",
        b'<!DOCTYPE a [<!ENTITY b "c">]><ListBucketResult/>',
        b"<ListBucketResult>" + b"<a>" * 40 + b"</a>" * 40 + b"</ListBucketResult>",
        b"<ListBucketResult><Contents><Key>a</Key><LastModified>soon</LastModified></Contents></ListBucketResult>",
        b"\xff\xfe<",
    ],
)
def test_an_answer_that_makes_no_sense_is_refused(said: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_page(said)


async def test_a_server_that_speaks_something_else_is_no_bucket(
    autojump_clock: object, client: S3Client, s3: UpOrDown
) -> None:
    s3._page = lambda query: b"<html>hello</html>"  # type: ignore[method-assign]
    with pytest.raises(DaycareError, match="is it S3") as garbled:
        await client.page("a")
    assert garbled.value.code == "BUCKET_GARBLED"


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ("http://10.0.0.5:9000", "https"),
        ("ftp://s3.example", "expected"),
        ("https://", "expected"),
        ("https://s3.example/path", "expected"),
        ("https://s3.example:x", "expected"),
        ("https://ann@s3.example", "expected"),
        ("https://s3.exämple", "expected"),
    ],
)
def test_an_address_that_cannot_be_used_is_told_at_once(endpoint: str, says: str) -> None:
    [(key, why)] = flaws(FilesSection(s3=S3Section(endpoint=endpoint, bucket="files")))
    assert key == ("files", "s3", "endpoint") and says in why


def test_addresses_that_can_be_used() -> None:
    for endpoint in ("https://s3.example", "https://s3.example:9000/", "http://127.0.0.1:9000", "http://[::1]:9000"):
        assert list(flaws(FilesSection(backend="s3", s3=S3Section(endpoint=endpoint, bucket="files")))) == []
    open_ = S3Section(endpoint="http://10.0.0.5:9000", bucket="files", insecure=True)
    assert list(flaws(FilesSection(backend="s3", s3=open_))) == []
    assert [key for key, _ in flaws(FilesSection(backend="s3"))] == [("files", "s3", "bucket")]
