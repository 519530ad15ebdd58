"""The model in plain numpy gives what its definition gives, computed here number by number and in double precision."""

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.base.errors import BrokenError
from daycare.features.memory.embed.arrays import np
from daycare.features.memory.embed.bert import PASS_MAX_PIECES, Bert, BertShape, WordPiece
from daycare.features.memory.embed.tensors import Tensor, read_tensors
from tests.memory.models import VOCABULARY, safetensors, weights

SHAPE = BertShape(num_attention_heads=3)


def reference(tensors: dict[str, Tensor], pieces: Sequence[int], heads: int, *, first: bool = False) -> list[float]:
    """Return a text's vector by the definition of BERT."""
    width = tensors["embeddings.word_embeddings.weight"].shape[1]

    def dense(rows: list[list[float]], name: str) -> list[list[float]]:
        weight, bias = tensors[f"{name}.weight"].tolist(), tensors[f"{name}.bias"].tolist()
        return [
            [
                math.fsum(a * b for a, b in zip(row, line, strict=True)) + add
                for line, add in zip(weight, bias, strict=True)
            ]
            for row in rows
        ]

    def norm(rows: list[list[float]], name: str) -> list[list[float]]:
        weight, bias = tensors[f"{name}.weight"].tolist(), tensors[f"{name}.bias"].tolist()
        found = []
        for row in rows:
            mean = math.fsum(row) / len(row)
            deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in row) / len(row) + 1e-12)
            found.append([(x - mean) / deviation * w + b for x, w, b in zip(row, weight, bias, strict=True)])
        return found

    def added(left: list[list[float]], right: list[list[float]]) -> list[list[float]]:
        return [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(left, right, strict=True)]

    words = tensors["embeddings.word_embeddings.weight"].tolist()
    places = tensors["embeddings.position_embeddings.weight"].tolist()
    kind = tensors["embeddings.token_type_embeddings.weight"].tolist()[0]
    rows = [
        [a + b + c for a, b, c in zip(words[piece], places[at], kind, strict=True)] for at, piece in enumerate(pieces)
    ]
    rows = norm(rows, "embeddings.LayerNorm")
    number = 0
    while f"encoder.layer.{number}.output.dense.weight" in tensors:
        layer = f"encoder.layer.{number}."
        query, key, value = (dense(rows, f"{layer}attention.self.{part}") for part in ("query", "key", "value"))
        seen = [[0.0] * width for _ in rows]
        size = width // heads
        for head in range(0, width, size):
            for at, asked in enumerate(query):
                scores = [
                    math.fsum(asked[d] * other[d] for d in range(head, head + size)) / math.sqrt(size) for other in key
                ]
                shares = [math.exp(score - max(scores)) for score in scores]
                for d in range(head, head + size):
                    seen[at][d] = math.fsum(
                        share * other[d] for share, other in zip(shares, value, strict=True)
                    ) / math.fsum(shares)
        rows = norm(added(rows, dense(seen, f"{layer}attention.output.dense")), f"{layer}attention.output.LayerNorm")
        inner = [
            [x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in row]
            for row in dense(rows, f"{layer}intermediate.dense")
        ]
        rows = norm(added(rows, dense(inner, f"{layer}output.dense")), f"{layer}output.LayerNorm")
        number += 1
    pooled = rows[0] if first else [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
    length = math.sqrt(math.fsum(x * x for x in pooled))
    return [x / length for x in pooled]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_vector_is_what_the_definition_gives_to_a_millionth(seed: int, first: bool) -> None:
    tensors = weights(seed=seed)
    draw = random.Random(seed)
    texts = [[draw.randrange(len(VOCABULARY)) for _ in range(draw.randint(1, 40))] for _ in range(4)]
    found = Bert(tensors, SHAPE, first=first).embed(texts)
    assert found.dtype == np.float32
    for row, pieces in zip(found, texts, strict=True):
        assert row.tolist() == pytest.approx(reference(tensors, pieces, 3, first=first), abs=1e-6)


def test_a_vector_is_the_same_in_any_company() -> None:
    model = Bert(weights(), SHAPE)
    draw = random.Random(3)
    texts = [[draw.randrange(len(VOCABULARY)) for _ in range(draw.randint(1, 40))] for _ in range(200)]
    assert sum(map(len, texts)) > 3 * PASS_MAX_PIECES  # several passes
    together = model.embed(texts)
    assert np.abs(together - np.concatenate([model.embed([text]) for text in texts])).max() < 1e-6


def test_large_weights_overflow_nowhere() -> None:
    tensors = {name: tensor * np.float32(40) if "dense" in name else tensor for name, tensor in weights().items()}
    found = Bert(tensors, SHAPE).embed([[2, 5, 9, 3]])
    assert found[0].tolist() == pytest.approx(reference(tensors, [2, 5, 9, 3], 3), abs=1e-4)


def test_weights_are_read_from_any_of_the_usual_types_and_under_a_prefix(tmp_path: Path) -> None:
    tensors = weights()
    expected = Bert(tensors, SHAPE).embed([[2, 6, 3]])
    file = tmp_path / "model.safetensors"
    for change, tolerance in (
        (lambda tensor: tensor, 1e-7),
        (lambda tensor: tensor.astype(np.float16), 5e-3),
        (lambda tensor: (np.ascontiguousarray(tensor).view(np.uint32) >> 16).astype(np.uint16), 5e-2),
    ):
        file.write_bytes(
            safetensors(
                {f"bert.{name}": change(tensor) for name, tensor in tensors.items() if tensor.dtype == np.float32}
            )
        )
        assert np.abs(Bert(read_tensors(file), SHAPE).embed([[2, 6, 3]]) - expected).max() < tolerance


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (BertShape(model_type="roberta", num_attention_heads=3), "model_type 'roberta'"),
        (BertShape(hidden_act="relu", num_attention_heads=3), "hidden_act 'relu'"),
        (BertShape(position_embedding_type="relative_key", num_attention_heads=3), "position_embedding_type"),
        (BertShape(num_attention_heads=7), "attention heads"),
        (BertShape(), "attention heads"),
    ],
)
def test_a_model_of_another_kind_is_refused_by_name(shape: BertShape, said: str) -> None:
    with pytest.raises(BrokenError, match=said):
        Bert(weights(), shape)


@pytest.mark.parametrize("name", [name for name in weights(layers=1) if not name.endswith("position_ids")])
def test_an_array_that_is_missing_is_named(name: str) -> None:
    tensors = weights(layers=1)
    del tensors[name]
    with pytest.raises(BrokenError, match=name.replace(".", r"\.")):
        Bert(tensors, SHAPE)


@given(cut=st.integers(0, 2_000), noise=st.binary(max_size=40))
def test_a_damaged_file_of_weights_is_an_error_that_names_it(
    cut: int, noise: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("damaged") / "model.safetensors"
    file.write_bytes(noise + safetensors(weights(layers=1))[: -cut - 1][len(noise) :])
    with pytest.raises(BrokenError, match=r"model\.safetensors"):
        Bert(read_tensors(file), SHAPE)


def cutter(*, lower: bool = True, pieces_max: int = 40) -> WordPiece:
    return WordPiece({piece: number for number, piece in enumerate(VOCABULARY)}, lower=lower, pieces_max=pieces_max)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("the", "the"),
        ("The THE  the.", "the the the ."),
        ("thing", "t ##h ##ing"),
        ("bring", "b ##r ##ing"),
        ("", ""),
        ("a\tb\nc\u00a0d\u3000e", "a b c d e"),
        ("a\x00b\u200bc\ufffdd\x0be", "a ##b ##c ##d ##e"),
        ("Ünaïvé", "u ##n ##a ##i ##v ##e"),
        ("a.b", "a . b"),
        ("a!b", "a [UNK] b"),
        ("a\u4e2db", "a [UNK] b"),
        ("a\u20acb c", "[UNK] c"),  # a currency sign is no punctuation
        ("the" + "x" * 98, "[UNK]"),
        ("x" * 100, "x" + " ##x" * 99),
        ("[SEP]", "[UNK] s ##e ##p [UNK]"),  # what a person writes is never a sign to the model
        ("a\u0301\u0301", "a"),
        ("\u0301", ""),
        ("\u03a3", "[UNK]"),
    ],
)
def test_a_text_is_cut_as_the_model_was_trained(text: str, pieces: str) -> None:
    numbers = cutter(pieces_max=200).numbers(text)
    assert [VOCABULARY[number] for number in numbers] == ["[CLS]", *pieces.split(), "[SEP]"]


def test_a_model_with_capitals_keeps_them() -> None:
    assert [VOCABULARY[number] for number in cutter(lower=False).numbers("The the")] == [
        "[CLS]",
        "[UNK]",
        "the",
        "[SEP]",
    ]


@given(st.text(max_size=300), st.integers(3, 50))
def test_any_text_gives_at_most_so_many_pieces(text: str, pieces_max: int) -> None:
    numbers = cutter(pieces_max=pieces_max).numbers(text)
    assert 2 <= len(numbers) <= pieces_max
    assert (numbers[0], numbers[-1]) == (VOCABULARY.index("[CLS]"), VOCABULARY.index("[SEP]"))
