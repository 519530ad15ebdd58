"""A BERT model in plain numpy: from a text to the pieces of words that it knows, and from their numbers to a vector.

Texts are computed one behind the other without padding, so that a vector is the same in any company.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from daycare.base.errors import BrokenError
from daycare.features.memory.embed.arrays import Floats, np
from daycare.features.memory.embed.tensors import Tensor

PASS_MAX_PIECES: Final = 1_024  # computed at once, about 25 MB; more gain nothing
_HEADS: Final = {128: 2, 256: 4, 384: 12, 512: 8, 768: 12, 1024: 16}  # of published models, by their width
_FIRST: Final = "embeddings.word_embeddings.weight"


class BertShape(msgspec.Struct, frozen=True, kw_only=True):
    """What `config.json` says of a model; what is left out is that of the published ones."""

    model_type: str = "bert"
    hidden_act: str = "gelu"
    position_embedding_type: str = "absolute"
    num_attention_heads: int = 0
    layer_norm_eps: float = 1e-12


class Bert:
    """A model by its arrays. Raises `BrokenError` when they are not those of one.

    A text's vector is the mean of those of its pieces, with `first` that of its first piece.
    """

    def __init__(self, tensors: Mapping[str, Tensor], shape: BertShape, *, first: bool = False) -> None:
        for key, value, known in (
            ("model_type", shape.model_type, "bert"),
            ("hidden_act", shape.hidden_act, "gelu"),
            ("position_embedding_type", shape.position_embedding_type, "absolute"),
        ):
            if value != known:
                raise BrokenError(
                    "MODEL_UNKNOWN",
                    f"reading the model: its config.json has {key} {value!r}, only {known!r} is computed here",
                    hint="take a BERT model, such as all-MiniLM-L6-v2, or an embedder behind a provider",
                )
        self._tensors = tensors
        self._prefix = next((name.removesuffix(_FIRST) for name in tensors if name.endswith(_FIRST)), "")
        self._eps = shape.layer_norm_eps
        self._first = first
        self._words = self._get(_FIRST, 2)
        self._positions = self._get("embeddings.position_embeddings.weight", 2) + self._get(
            "embeddings.token_type_embeddings.weight", 2
        )[0].astype(np.float32)
        self._norm = self._pair("embeddings.LayerNorm")
        self.words, self.dimensions = self._words.shape
        self.pieces_max = len(self._positions)
        self._heads = shape.num_attention_heads or _HEADS.get(self.dimensions, 0)
        if not self._heads or self.dimensions % self._heads:
            raise BrokenError(
                "MODEL_UNKNOWN",
                f"reading the model: {self.dimensions} dimensions, and no config.json says how many attention heads",
                hint="put the model's config.json into the folder",
            )
        self._layers: list[_Layer] = []
        while f"{self._prefix}encoder.layer.{len(self._layers)}.output.dense.weight" in tensors:
            self._layers.append(self._layer(f"encoder.layer.{len(self._layers)}."))
        if not self._layers:
            self._get("encoder.layer.0.output.dense.weight", 2)  # says what is missing

    def embed(self, texts: Sequence[Sequence[int]]) -> Floats:
        """Return a vector of length 1 for each text, given as the numbers of its pieces, at most `pieces_max` each."""
        found = np.empty((len(texts), self.dimensions), np.float32)
        begin = 0
        while begin < len(texts):
            end, pieces = begin + 1, len(texts[begin])
            while end < len(texts) and pieces + len(texts[end]) <= PASS_MAX_PIECES:
                pieces += len(texts[end])
                end += 1
            found[begin:end] = self._pass(texts[begin:end])
            begin = end
        return found

    def _pass(self, texts: Sequence[Sequence[int]]) -> Floats:
        borders = np.cumsum([0, *map(len, texts)])
        state = self._words[np.concatenate(texts)].astype(np.float32)
        state += self._positions[np.concatenate([np.arange(len(text)) for text in texts])]
        state = self._normed(state, self._norm)
        for layer in self._layers:
            seen = self._attention(_linear(state, layer.attention), borders)
            state = self._normed(state + _linear(seen, layer.joined), layer.norm)
            grown = _gelu(_linear(state, layer.grown))
            state = self._normed(state + _linear(grown, layer.shrunk), layer.last_norm)
        pooled: Floats = state[borders[:-1]] if self._first else np.add.reduceat(state, borders[:-1], axis=0)
        pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
        return pooled

    def _attention(self, mixed: Floats, borders: Tensor) -> Floats:
        """Let each piece look at those of its own text. `mixed` is query, key and value side by side."""
        width = self.dimensions // self._heads
        seen = np.empty((len(mixed), self.dimensions), np.float32)
        for begin, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            parts = mixed[begin:end].reshape(end - begin, 3, self._heads, width)
            query, key, value = parts.transpose(1, 2, 0, 3)
            weights = query @ key.transpose(0, 2, 1)
            weights *= width**-0.5
            weights -= weights.max(axis=-1, keepdims=True)
            np.exp(weights, out=weights)
            weights /= weights.sum(axis=-1, keepdims=True)
            seen[begin:end] = (weights @ value).transpose(1, 0, 2).reshape(end - begin, self.dimensions)
        return seen

    def _normed(self, state: Floats, pair: "_Pair") -> Floats:
        state -= state.mean(axis=1, keepdims=True)
        state /= np.sqrt(np.einsum("ij,ij->i", state, state)[:, None] / state.shape[1] + np.float32(self._eps))
        state *= pair.weight
        state += pair.bias
        return state

    def _layer(self, name: str) -> "_Layer":
        parts = [self._pair(f"{name}attention.self.{part}", 2) for part in ("query", "key", "value")]
        return _Layer(
            _Pair(np.concatenate([part.weight for part in parts]), np.concatenate([part.bias for part in parts])),
            self._pair(f"{name}attention.output.dense", 2),
            self._pair(f"{name}attention.output.LayerNorm"),
            self._pair(f"{name}intermediate.dense", 2),
            self._pair(f"{name}output.dense", 2),
            self._pair(f"{name}output.LayerNorm"),
        )

    def _pair(self, name: str, axes: int = 1) -> "_Pair":
        weight, bias = self._get(f"{name}.weight", axes), self._get(f"{name}.bias", 1)
        return _Pair(weight.astype(np.float32, copy=False), bias.astype(np.float32, copy=False))

    def _get(self, name: str, axes: int) -> Tensor:
        found = self._tensors.get(self._prefix + name)
        if found is None or found.ndim != axes:
            raise BrokenError(
                "MODEL_UNKNOWN",
                f"reading the model: it has no array {self._prefix}{name} of {axes} axes, so it is no BERT model",
                hint="take a BERT model, such as all-MiniLM-L6-v2, or an embedder behind a provider",
            )
        return found


class _Pair(msgspec.Struct, frozen=True):
    weight: Floats
    bias: Floats


class _Layer(msgspec.Struct, frozen=True):
    attention: _Pair
    joined: _Pair
    norm: _Pair
    grown: _Pair
    shrunk: _Pair
    last_norm: _Pair


def _linear(state: Floats, pair: _Pair) -> Floats:
    found: Floats = state @ pair.weight.T
    found += pair.bias
    return found


def _gelu(state: Floats) -> Floats:
    """Return x times the share of a normal distribution below x; the error function by Abramowitz and Stegun 7.1.26."""
    scaled = np.abs(state) * np.float32(0.5**0.5)
    slope = 1 / (1 + np.float32(0.3275911) * scaled)
    rest = np.full_like(state, 1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        rest *= slope
        rest += np.float32(factor)
    rest *= slope
    scaled *= -scaled
    rest *= np.exp(scaled, out=scaled)  # 1 - erf(|x| / sqrt 2)
    half: Floats = np.float32(0.5) * state
    half += np.abs(half) * (1 - rest)
    return half


_WORD_MAX_CHARS: Final = 100  # a longer one is unknown as a whole
_KINDS_KEPT: Final = 4_096  # characters whose kind is remembered: more than those of one language, Chinese aside

_CLS, _SEP, _UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
SPECIAL: Final = (_CLS, _SEP, _UNKNOWN)  # what every vocabulary has


class WordPiece:
    """The numbers of a text's pieces. `vocabulary` maps a piece to its number; later pieces of a word begin with ##."""

    def __init__(self, vocabulary: Mapping[str, int], *, lower: bool, pieces_max: int) -> None:
        self._vocabulary = vocabulary
        self._lower = lower
        self._inner_max = pieces_max - 2
        self._begin, self._end, self._unknown = (vocabulary[name] for name in SPECIAL)

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of a text's pieces between those of its begin and end, at most `pieces_max` in all."""
        found = [self._begin]
        for word in _words(text, self._lower):
            found += self._pieces(word)
            if len(found) > self._inner_max:
                break
        return [*found[: self._inner_max + 1], self._end]

    def _pieces(self, word: str) -> list[int]:
        whole = self._vocabulary.get(word)
        if whole is not None:
            return [whole]
        if len(word) > _WORD_MAX_CHARS:
            return [self._unknown]
        found = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._vocabulary.get(mark + word[start:end])
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                return [self._unknown]
        return found


def _words(text: str, lower: bool) -> Iterator[str]:
    """Yield the words of a text: what stands between blanks; punctuation and each Chinese character by itself."""
    word: list[str] = []
    for char in _lowered(text) if lower else text:
        kind = _kind(char)
        if kind == "letter":
            word.append(char)
        elif kind != "nothing":
            if word:
                yield "".join(word)
                word.clear()
            if kind == "alone":
                yield char
    if word:
        yield "".join(word)


def _lowered(text: str) -> str:
    """Return a text in lower case and without accents; a letter at a time, for models know no final sigma."""
    if text.isascii():
        return text.lower()
    return "".join(char.lower() for char in unicodedata.normalize("NFD", text) if unicodedata.category(char) != "Mn")


@lru_cache(_KINDS_KEPT)
def _kind(char: str) -> str:
    """Return what a character is to the model: part of a word, a word of its own, a blank, or nothing."""
    if char in " \t\n\r":
        return "blank"
    category = unicodedata.category(char)
    if char in "\0\ufffd" or category in ("Cc", "Cf", "Co", "Cs"):
        return "nothing"
    if char.isspace():
        return "blank"
    if category.startswith("P") or "!" <= char <= "/" or ":" <= char <= "@" or "[" <= char <= "`" or "{" <= char <= "~":
        return "alone"
    return "alone" if _chinese(ord(char)) else "letter"


def _chinese(code: int) -> bool:
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2CEAF
        or 0x2F800 <= code <= 0x2FA1F
    )
