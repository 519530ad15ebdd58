"""Embedders on this machine: what they need, what they say when it is missing, and that they never ask a network."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from daycare.base.errors import BrokenError
from daycare.features.memory.embed.arrays import np
from daycare.features.memory.embed.bert import Bert, BertShape, WordPiece
from daycare.features.memory.embed.local import open_local, threaded
from daycare.plugin import vectors
from tests.memory.models import VOCABULARY, folder_of, graph, weights

needs_wordllama = pytest.mark.skipif(
    importlib.util.find_spec("wordllama") is None, reason="wordllama is not installed: pip install -e '.[local]'"
)
needs_onnxruntime = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed"
)
no_onnxruntime = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is not None, reason="onnxruntime is installed"
)
TEXTS = ("the thing", "", "Abc.", "x" * 300, "the " * 500)


def lengths(rows: "np.typing.NDArray[np.float32]") -> list[float]:
    return [float(np.linalg.norm(row)) for row in rows]


def cutter(pieces_max: int = 40) -> WordPiece:
    return WordPiece({piece: number for number, piece in enumerate(VOCABULARY)}, lower=True, pieces_max=pieces_max)


# -- a folder's model ------------------------------------------------------------------------------------------------


def test_a_folders_model_gives_vectors_of_length_one(tmp_path: Path) -> None:
    embedder = open_local("dir", folder_of(tmp_path, weights()))
    found = embedder.embed(TEXTS)
    assert (found.dtype.name, found.shape) == ("float32", (5, 24))
    assert lengths(found) == pytest.approx([1.0] * 5)
    assert embedder.embed(()).shape == (0, 24)
    expected = Bert(weights(), BertShape(num_attention_heads=3)).embed([cutter().numbers(text) for text in TEXTS])
    assert np.abs(found - expected).max() < 1e-6


def test_what_lies_beside_the_weights_counts(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, weights())
    plain = open_local("dir", folder).embed(["abcdef THE"])
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 5, "do_lower_case": false}')
    short = open_local("dir", folder)
    assert np.abs(short.embed(["abcdef"]) - short.embed(["abcxyz"])).max() < 1e-6
    (folder / "sentence_bert_config.json").unlink()
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    cased = open_local("dir", folder)
    assert np.abs(cased.embed(["abcdef THE"]) - plain).max() > 1e-3
    (folder / "tokenizer_config.json").unlink()
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}'
    )
    first = Bert(weights(), BertShape(num_attention_heads=3), first=True).embed([cutter().numbers("abcdef THE")])
    assert np.abs(open_local("dir", folder).embed(["abcdef THE"]) - first).max() < 1e-6


def test_a_models_identity_is_another_one_when_its_vectors_are(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "one", weights())
    identity = open_local("dir", folder).identity
    moved = shutil.copytree(folder, tmp_path / "elsewhere")
    assert open_local("dir", moved).identity == identity
    assert open_local("dir", folder_of(tmp_path / "two", weights(seed=2))).identity != identity
    (moved / "sentence_bert_config.json").write_text('{"max_seq_length": 5}')
    assert open_local("dir", moved).identity != identity
    (moved / "sentence_bert_config.json").unlink()
    swapped = [*VOCABULARY[:-2], VOCABULARY[-1], VOCABULARY[-2]]
    (moved / "vocab.txt").write_text("\n".join(swapped))
    assert open_local("dir", moved).identity != identity


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.txt"])
def test_a_file_that_is_missing_is_named(name: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, weights())
    (folder / name).unlink()
    with pytest.raises(BrokenError, match=f"{name} is missing") as caught:
        open_local("dir", folder)
    assert "model_dir" in caught.value.hint


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(BrokenError, match="elsewhere: there is no such folder"):
        open_local("dir", tmp_path / "elsewhere")


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer_config.json", "sentence_bert_config.json", "1_Pooling/config.json", "vocab.txt"]
)
def test_a_file_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, weights())
    (folder / "1_Pooling").mkdir()
    (folder / name).write_bytes(b'{"num_attention_heads": "\xff')
    with pytest.raises(BrokenError, match=name):
        open_local("dir", folder)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, weights())
    (folder / "vocab.txt").write_text("\n".join([*VOCABULARY, "more", "than", "rows"]))
    with pytest.raises(BrokenError, match=rf"has {len(VOCABULARY) + 3} pieces, the model {len(VOCABULARY)}"):
        open_local("dir", folder)
    (folder / "vocab.txt").write_text("<s>\n</s>\nthe\n")
    with pytest.raises(BrokenError, match=r"no \[CLS\], \[SEP\], \[UNK\]"):
        open_local("dir", folder)


def test_pooling_that_is_not_computed_here_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, weights())
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": false}')
    with pytest.raises(BrokenError, match="1_Pooling"):
        open_local("dir", folder)


@no_onnxruntime
def test_a_graph_without_what_runs_it_says_so(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, weights())
    (folder / "model.onnx").write_bytes(graph(weights()["embeddings.word_embeddings.weight"]))
    assert open_local("dir", folder).dimensions == 24
    (folder / "model.safetensors").unlink()
    with pytest.raises(BrokenError, match=r"model\.safetensors is missing, and model\.onnx needs .* onnxruntime"):
        open_local("dir", folder)


@needs_onnxruntime
@pytest.mark.parametrize("first", [False, True])
def test_a_graph_is_taken_where_onnxruntime_is_installed(first: bool, tmp_path: Path) -> None:
    table = weights()["embeddings.word_embeddings.weight"]
    folder = folder_of(tmp_path, weights())
    (folder / "model.onnx").write_bytes(graph(table))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": first}))
    found = open_local("dir", folder).embed(TEXTS)
    for row, text in zip(found, TEXTS, strict=True):
        rows = table[cutter(512).numbers(text)]
        expected = rows[0] if first else rows.mean(axis=0)
        assert row == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)


@needs_onnxruntime
def test_a_damaged_graph_is_an_error_that_names_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, weights())
    (folder / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(BrokenError, match=r"model\.onnx"):
        open_local("dir", folder)


async def test_an_embedder_computes_in_a_thread_and_answers_with_a_view_of_two_axes(tmp_path: Path) -> None:
    embedder = open_local("dir", folder_of(tmp_path, weights()))
    with trio.fail_after(10):
        found = await threaded(embedder)(TEXTS)
    assert (found.format, found.shape) == ("f", (5, 24))
    assert np.array_equal(np.asarray(found), embedder.embed(TEXTS))


def test_lists_of_numbers_become_such_a_view() -> None:
    found = vectors([[1.0, 0.0, 0.5], [0.0, 1.0, -2.0]])
    assert (found.format, found.shape) == ("f", (2, 3))
    assert np.asarray(found).tolist() == [[1.0, 0.0, 0.5], [0.0, 1.0, -2.0]]


# -- wordllama -------------------------------------------------------------------------------------------------------


@needs_wordllama
def test_the_local_embedder_puts_what_means_the_same_together() -> None:
    embedder = open_local("local")
    found = embedder.embed(["My cat is ill", "the kitten needs a vet", "interest rates rose", "", "\0", "a" * 20_000])
    assert (found.dtype.name, found.shape) == ("float32", (6, 256))
    assert lengths(found) == pytest.approx([1.0] * 6)
    assert found[0] @ found[1] > found[0] @ found[2] + 0.1
    assert embedder.identity.startswith("wordllama@")
    assert embedder.embed(()).shape == (0, 256)


@needs_wordllama
def test_the_local_embedder_imports_no_package_of_models_and_opens_no_connection() -> None:
    code = (
        "import sys\n"
        "def heard(event, args):\n"
        "    assert not event.startswith('socket.'), event\n"
        "sys.addaudithook(heard)\n"
        "from daycare.features.memory.embed.local import open_local\n"
        "open_local('local').embed(['hello'])\n"
        "assert not {'wordllama', 'requests', 'huggingface_hub', 'torch'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(filter(None, sys.path))})


@needs_wordllama
def test_the_local_embedder_gives_the_vectors_that_its_package_gives(tmp_path: Path) -> None:
    texts = ["Did I say when I go to the dentist in March?", "Grüße aus Köln", "日本語", "one\ntwo", "."]
    code = (  # apart, for importing the package sets up logging
        "import json, pathlib, sys, wordllama\n"
        "folder = pathlib.Path(wordllama.__file__).parent\n"
        "model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)\n"
        "print(json.dumps(model.embed(json.loads(sys.argv[1]), norm=True).tolist()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(texts)], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert np.abs(np.array(json.loads(done.stdout)) - open_local("local").embed(texts)).max() < 1e-6


@pytest.mark.skipif(importlib.util.find_spec("wordllama") is not None, reason="wordllama is installed")
def test_without_its_package_the_local_embedder_says_how_to_get_it() -> None:
    with pytest.raises(BrokenError, match="wordllama is not installed") as caught:
        open_local("local")
    assert "daycare[local]" in caught.value.hint
