"""What servers say when they refuse, in their own words."""

from typing import Any

import pytest

from daycare.base.errors import SetupError, UnavailableError
from daycare.inference.refusals import explain, scrub

TOO_LONG = [
    {"error": {"message": "Please shorten", "code": "context_length_exceeded"}},
    {"error": {"message": "This model's maximum context length is 128000 tokens. However, your messages ..."}},
    {"error": {"message": "Input tokens exceed the configured limit of 272000 tokens."}},
    {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000", "code": 400},
    {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."},
    {"error": "the input length exceeds the context length"},
    {"error": {"code": 400, "message": "the request exceeds the available context size", "type": "x"}},
    {"error": {"code": 400, "message": "no room", "type": "exceed_context_size_error"}},
    {"error": "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded ..."},
    {"error": "The number of tokens to keep from the initial prompt is greater than the context length."},
    {
        "error": {
            "message": "This endpoint's maximum context length is 32768 tokens. However, you requested",
            "code": 400,
        }
    },
    {"error": {"message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}},
    {"error": {"message": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}},
    {"error": {"message": "Please reduce the length of the messages or completion."}},
    {
        "object": "error",
        "message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    },
    {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens"}},
    {"error": {"message": "input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000"}},
    {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}},
    {"error": {"message": "Input is too long for requested model."}},
]


@pytest.mark.parametrize("error", TOO_LONG, ids=range(len(TOO_LONG)))
@pytest.mark.parametrize("status", [400, 500, None])
def test_a_prompt_too_long_is_recognised_however_it_is_said(error: Any, status: int | None) -> None:
    assert explain(status, error).code == "CONTEXT_OVERFLOW"


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (400, {"error": {"message": "max_tokens is too large: 9000"}}, "REQUEST_REFUSED"),
        (400, {"error": {"message": "Unknown parameter: 'context_length'"}}, "REQUEST_REFUSED"),
        (429, {"error": {"message": "Rate limit: too many tokens per minute", "code": "tokens"}}, "RATE_LIMITED"),
        (429, {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}, "CREDIT_EXHAUSTED"),
        (500, {"error": {"message": "CUDA out of memory"}}, "PROVIDER_FAILED"),
        (None, {"error": {"message": "CUDA out of memory"}}, "MODEL_FAILED"),
        (503, "loading", "PROVIDER_FAILED"),
        (413, None, "CONTEXT_OVERFLOW"),
        (400, [1, 2], "REQUEST_REFUSED"),
        (400, None, "REQUEST_REFUSED"),
        (400, {"error": {"error": {"detail": [{"msg": "x"}]}}}, "REQUEST_REFUSED"),
    ],
)
def test_other_refusals_are_not_taken_for_it(status: int | None, error: Any, code: str) -> None:
    assert explain(status, error).code == code


def test_a_quota_that_is_used_up_is_no_rate_limit_that_waiting_ends() -> None:
    assert explain(429, {"error": {"code": "insufficient_quota"}}).kind is SetupError
    assert explain(429, {}).kind is UnavailableError


def test_words_are_one_short_line_without_the_key() -> None:
    assert scrub("a\r\n\x1b[31mb key-1", "key-1") == "a [31mb ***"
    assert len(scrub("x" * 10_000, "")) == 300
