"""Requests are signed as S3 expects it: by its published examples, and as another program signs them."""

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from daycare.features.files.signing import S3Credentials, S3Request, signed
from tests import chance

# "Examples: Signature Calculations in AWS Signature Version 4", Amazon S3 API Reference.
ACCOUNT = S3Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
HOST = "examplebucket.s3.amazonaws.com"
AT_MS = round(datetime(2013, 5, 24, tzinfo=UTC).timestamp() * 1000)
PUT = {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"}


@pytest.mark.parametrize(
    ("request_", "signature"),
    [
        (
            S3Request("GET", "/test.txt", headers={"range": "bytes=0-9"}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            S3Request("PUT", "/test$file.text", headers=PUT, body=b"Welcome to Amazon S3."),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            S3Request("GET", "/", (("lifecycle", ""),)),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            S3Request("GET", "/", (("prefix", "J"), ("max-keys", "2"))),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
    ids=["range", "put", "lifecycle", "list"],
)
def test_the_published_examples_have_their_signatures(request_: S3Request, signature: str) -> None:
    headers = signed(request_, HOST, ACCOUNT, "us-east-1", AT_MS)
    assert headers["Authorization"].endswith(f"Signature={signature}")


def test_another_program_signs_the_same_requests_the_same() -> None:
    why = "botocore is not installed: pip install 'daycare[test]'"
    judges: Any = pytest.importorskip("botocore.auth", reason=why)
    requests: Any = pytest.importorskip("botocore.awsrequest", reason=why)
    credentials: Any = pytest.importorskip("botocore.credentials", reason=why)
    print(f"SEED={chance.SEED}")
    rng = random.Random(f"signing/{chance.SEED}")
    for _ in range(200):
        request, account, region = some_request(rng), some_account(rng), rng.choice(("us-east-1", "eu-central-1"))
        at_ms = rng.randrange(0, 4_000_000_000_000, 1000)
        headers = signed(request, "s3.example:9000", account, region, at_ms)
        judge = judges.S3SigV4Auth(
            credentials.Credentials(account.key_id, account.secret, account.token or None), "s3", region
        )
        given = {name: value for name, value in headers.items() if name != "Authorization"}
        asked = requests.AWSRequest(request.method, f"http://s3.example:9000{request.target}", given, request.body)
        asked.context["timestamp"] = headers["x-amz-date"]
        said = judge.string_to_sign(asked, judge.canonical_request(asked))
        assert headers["Authorization"].endswith(f"Signature={judge.signature(said, asked)}"), request
        assert f"SignedHeaders={judge.signed_headers(judge.headers_to_sign(asked))}," in headers["Authorization"]


def some_request(rng: random.Random) -> S3Request:
    letters = "abcXYZ019-_.~ /+%&=äß$'()*!@,;:"

    def word() -> str:
        return "".join(rng.choices(letters, k=rng.randrange(1, 12)))

    query = {word().replace("/", ""): word() for _ in range(rng.randrange(4))}
    headers = {f"x-amz-meta-{number}": f" a  {number} " for number in range(rng.randrange(3))}
    headers |= {"range": "bytes=0-9"} if rng.random() < 0.3 else {}
    path = f"/files/{word().strip('/')}"
    return S3Request(rng.choice(("GET", "PUT", "POST")), path, tuple(query.items()), headers, rng.randbytes(20))


def some_account(rng: random.Random) -> S3Credentials:
    return S3Credentials("AKIA" + str(rng.random())[2:], str(rng.random()), rng.choice(("", "a+token/=")))
