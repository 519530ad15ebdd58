"""Embedders on this machine, without network: the weights that come with the package wordllama, and a folder's model.

They compute in the thread that calls them; `threaded` makes of one what may be awaited.
"""

import hashlib
import importlib.util
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import msgspec
import trio

from daycare.base.errors import BrokenError
from daycare.base.memory_settings import FOLDER_EMBEDDER, LOCAL_EMBEDDER
from daycare.features.memory.embed.arrays import Floats, np
from daycare.features.memory.embed.bert import PASS_MAX_PIECES, SPECIAL, Bert, BertShape, WordPiece
from daycare.features.memory.embed.tensors import Tensor, read_tensors

TEXT_MAX_CHARS: Final = 8_000  # looked at of one text: some 2,000 tokens, of which models read 256 to 512
_PIECES_MAX: Final = 512  # of a folder's model that says nothing
_DIGEST_CHARS: Final = 16  # of a model's hash, in its identity
_WORDLLAMA: Final = ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json")
_UNKNOWN: Final = 0  # the token that stands for a text without any

S = TypeVar("S", bound=msgspec.Struct)

_WEIGHTS, _GRAPH, _VOCABULARY = "model.safetensors", "model.onnx", "vocab.txt"


class LocalEmbedder:
    """Turns texts into vectors of length 1: a text is cut into the numbers of its pieces, and a model computes these.

    `identity` is another one whenever its vectors would be others.
    """

    def __init__(self, name: str, identity: str, cut: Callable[[str], list[int]], model: "_Model") -> None:
        self.name = name
        self.identity = identity
        self.dimensions = model.dimensions
        self._cut = cut
        self._model = model

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return float32[len(texts), dimensions]. It blocks: 0.1 ms a text for `local`, 20 ms and more for `dir`."""
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        return self._model.embed([self._cut(text[:TEXT_MAX_CHARS]) for text in texts])


class _Model(Protocol):
    """What computes the vectors of texts, of length 1, from the numbers of their pieces."""

    dimensions: int

    def embed(self, texts: Sequence[Sequence[int]]) -> Floats:
        """Return float32[len(texts), dimensions]."""
        ...


def open_local(kind: str, folder: Path | None = None) -> LocalEmbedder:
    """Load an embedder, `local` or `dir` with its folder. Blocks for some 0.5 s; raises `BrokenError`."""
    if kind == LOCAL_EMBEDDER:
        return _wordllama()
    assert kind == FOLDER_EMBEDDER, kind
    assert folder is not None
    return _of_folder(folder)


def has_local() -> bool:
    """Return whether the local embedder is installed; nothing is loaded."""
    return importlib.util.find_spec("wordllama") is not None


def threaded(embedder: LocalEmbedder) -> Callable[[Sequence[str]], Awaitable[memoryview]]:
    """Return the embedder as something to await, which computes in a thread."""

    async def embed(texts: Sequence[str]) -> memoryview:
        return (await trio.to_thread.run_sync(embedder.embed, texts)).data

    return embed


def _wordllama() -> LocalEmbedder:
    """Open the weights of the package wordllama, which is only read, never imported.

    Importing it takes 60 MB, sets up logging for the whole process, and could fetch weights.
    """
    found = importlib.util.find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise BrokenError(
            "EMBEDDER_MISSING",
            "loading the local embedder: the package wordllama is not installed",
            hint="pip install 'daycare[local]'",
        )
    weights, tokenizer = (Path(found.submodule_search_locations[0], part) for part in _WORDLLAMA)
    for file in (weights, tokenizer):
        if not file.is_file():
            raise BrokenError(
                "EMBEDDER_MISSING",
                f"loading the local embedder: this version of wordllama has no {file.name}",
                hint="pip install 'daycare[local]'",
            )
    from tokenizers import Tokenizer

    cutter = Tokenizer.from_file(str(tokenizer))

    def cut(text: str) -> list[int]:  # one by one: its batches start threads of their own
        return cutter.encode(text, add_special_tokens=False).ids or [_UNKNOWN]

    table = _Table(read_tensors(weights)["embedding.weight"])
    return LocalEmbedder(LOCAL_EMBEDDER, f"wordllama@{_digest((weights, tokenizer))}", cut, table)


def _of_folder(folder: Path) -> LocalEmbedder:
    """Open a BERT model that lies in a folder as its makers publish it: its weights or its graph, and `vocab.txt`.

    Of `config.json`, `tokenizer_config.json`, `sentence_bert_config.json` and `1_Pooling/config.json` what is there
    counts. `model.onnx` is taken where onnxruntime is installed: five times faster.
    """
    weights, vocabulary = _weights(folder), _present(folder / _VOCABULARY)
    settings = _Settings.of(folder)
    pieces = _read_vocabulary(vocabulary)
    model: Bert | _Graph
    if weights.name == _GRAPH:
        model = _Graph(weights, first=settings.first)
    else:
        shape = _section(folder / "config.json", BertShape)
        model = Bert(read_tensors(weights), shape, first=settings.first)
        if max(pieces.values()) > model.words:  # one more is the end of its last line
            raise BrokenError(
                "MODEL_UNKNOWN",
                f"reading {folder}: {_VOCABULARY} has {len(pieces)} pieces, the model {model.words}",
                hint="get both files of the same model",
            )
    lower = settings.lower if settings.lower is not None else "A" not in pieces
    cutter = WordPiece(pieces, lower=lower, pieces_max=min(settings.pieces_max, model.pieces_max))
    digest = _digest((weights, vocabulary), f"{lower} {settings.pieces_max} {settings.first}")
    return LocalEmbedder(FOLDER_EMBEDDER, f"{FOLDER_EMBEDDER}@{digest}", cutter.numbers, model)


class _Table:
    """A vector for each piece, and their mean for a text: no model is run."""

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows
        self.dimensions: int = rows.shape[1]

    def embed(self, texts: Sequence[Sequence[int]]) -> Floats:
        found = np.empty((len(texts), self.dimensions), np.float32)
        for row, text in zip(found, texts, strict=True):
            row[:] = self._rows[text].sum(axis=0, dtype=np.float32)
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        return found


class _Graph:
    """A model that onnxruntime computes."""

    def __init__(self, file: Path, *, first: bool) -> None:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as binding

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # more of them wait for each other on a busy machine
        options.log_severity_level = 4  # what goes wrong is told by its exceptions
        names = vars(binding).values()
        errors = tuple(each for each in names if isinstance(each, type) and issubclass(each, Exception))
        self._first = first
        self.pieces_max = _PIECES_MAX
        try:
            self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
            self._inputs = {each.name for each in self._session.get_inputs()}
            self.dimensions = self.embed([[0, 0]]).shape[1]
        except errors as error:  # they have no other base than Exception
            raise BrokenError("MODEL_UNREADABLE", f"reading {file}: {error}", hint="get the file again") from error

    def embed(self, texts: Sequence[Sequence[int]]) -> Floats:
        at_once = max(1, PASS_MAX_PIECES // max(map(len, texts)))
        return np.concatenate([self._pass(texts[at : at + at_once]) for at in range(0, len(texts), at_once)])

    def _pass(self, texts: Sequence[Sequence[int]]) -> Floats:
        numbers = np.zeros((len(texts), max(map(len, texts))), np.int64)
        mask = np.zeros_like(numbers)
        for row, text in enumerate(texts):
            numbers[row, : len(text)] = text
            mask[row, : len(text)] = 1
        given = {"input_ids": numbers, "attention_mask": mask, "token_type_ids": np.zeros_like(numbers)}
        state: Any = self._session.run(None, {name: given[name] for name in given if name in self._inputs})[0]
        if state.ndim == 3:  # of each piece; of two axes it is of each text already
            state = state[:, 0] if self._first else (state * mask[:, :, None]).sum(axis=1)
        found: Floats = state.astype(np.float32)
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        return found


class _Tokenizing(msgspec.Struct):
    do_lower_case: bool | None = None


class _Length(msgspec.Struct):
    max_seq_length: int | None = None


class _Pooling(msgspec.Struct):
    pooling_mode_cls_token: bool = False
    pooling_mode_mean_tokens: bool = True


class _Settings(msgspec.Struct, frozen=True):
    lower: bool | None
    pieces_max: int
    first: bool

    @classmethod
    def of(cls, folder: Path) -> "_Settings":
        pooling = _section(folder / "1_Pooling" / "config.json", _Pooling)
        if not (pooling.pooling_mode_cls_token or pooling.pooling_mode_mean_tokens):
            raise BrokenError(
                "MODEL_UNKNOWN",
                f"reading {folder}: 1_Pooling/config.json asks for neither the mean nor the first token",
                hint="take a model that does, such as all-MiniLM-L6-v2",
            )
        return cls(
            _section(folder / "tokenizer_config.json", _Tokenizing).do_lower_case,
            max(3, _section(folder / "sentence_bert_config.json", _Length).max_seq_length or _PIECES_MAX),
            pooling.pooling_mode_cls_token,
        )


def _weights(folder: Path) -> Path:
    """Return the file of a folder to compute with: the graph where it can be, else the weights."""
    if not folder.is_dir():
        raise _missing(folder, "there is no such folder")
    weights, graph = folder / _WEIGHTS, folder / _GRAPH
    runs = importlib.util.find_spec("onnxruntime") is not None
    if graph.is_file() and runs:
        return graph
    if not weights.is_file():
        other = f", and {_GRAPH} needs the package onnxruntime" if graph.is_file() else ""
        raise _missing(folder, f"{_WEIGHTS} is missing{other}")
    return weights


def _present(file: Path) -> Path:
    if not file.is_file():
        raise _missing(file.parent, f"{file.name} is missing")
    return file


def _missing(folder: Path, what: str) -> BrokenError:
    return BrokenError(
        "EMBEDDER_MISSING",
        f"loading the embedder of {folder}: {what}",
        hint=f"put {_WEIGHTS}, {_VOCABULARY} and config.json of a BERT model there, or change [memory] model_dir",
    )


def _read_vocabulary(file: Path) -> dict[str, int]:
    pieces: dict[str, int] = {}
    try:
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n")):
            pieces.setdefault(line.rstrip("\r"), number)
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenError("MODEL_UNREADABLE", f"reading {file}: {error}", hint="get the file again") from error
    absent = [name for name in SPECIAL if name not in pieces]
    if absent:
        raise BrokenError(
            "MODEL_UNKNOWN",
            f"reading {file}: it has no {', '.join(absent)}, so it is not the vocabulary of a BERT model",
            hint="get the file again, or take a BERT model, such as all-MiniLM-L6-v2",
        )
    return pieces


def _section(file: Path, kind: type[S]) -> S:
    """Return what a file of settings says; a file that is not there says nothing."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except FileNotFoundError:
        return kind()
    except (OSError, ValueError) as error:
        raise BrokenError("MODEL_UNREADABLE", f"reading {file}: {error}", hint="get the file again") from error


def _digest(files: Iterable[Path], settings: str = "") -> str:
    """Return a hash of a model: two that differ make different vectors."""
    whole = hashlib.sha256(settings.encode())
    for file in files:
        with file.open("rb") as stream:
            whole.update(hashlib.file_digest(stream, "sha256").digest())
    return whole.hexdigest()[:_DIGEST_CHARS]
