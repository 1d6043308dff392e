"""Packages of language models: the tokens of `generate`, weights in few bits, the verdict, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from fxport import Package, Stop, package
from fxport.diagnostics import Log
from fxport.exporter.language_models.few_bits import rounded
from fxport.exporter.language_models.generation import NotGenerativeError
from fxport.exporter.language_models.verdict import Verdict, verdict
from fxport.exporter.sources.pretrained import PretrainedError
from fxport.exporter.weights import CheckpointError
from fxport.ort_runner.generation import Generator
from fxport.ort_runner.package_config import FILE, PackageConfig, PackageError
from tests.cases.language_models import MODELS, QUICK, TOKENIZER, UNEQUAL, made, model_of

transformers = pytest.importorskip("transformers")

NEW = 16
LONG = 64
PROMPTS = ([3, 14, 15, 92, 65, 35], [27, 18, 28])
RARE = pytest.mark.slow


def small(seed: int = 0, **settings: Any) -> Any:
    """A model of one layer, whose weights make texts of more than one token."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=100,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        **settings,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3 if parameter.dim() > 1 else 1)
    return model


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of `small()`, for tests that do not change it."""
    return package(small(), tmp_path_factory.mktemp("packaged") / "package", steps=0).folder


def generated(model: Any, new: int = NEW) -> list[list[int]]:
    """The new tokens that eager PyTorch's `generate` gives for the prompts, padded on the left."""
    longest = max(map(len, PROMPTS))
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in PROMPTS])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in PROMPTS])
    found = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=new, min_new_tokens=new)
    return found[:, -new:].tolist()


def written(folder: Path, new: int = NEW) -> list[list[int]]:
    """The same by the runner."""
    tokens = Generator(folder, "cpu").greedy(PROMPTS, new, stop=frozenset())
    return np.stack(list(tokens), 1).tolist()


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else RARE) for name in MODELS])
@pytest.mark.filterwarnings("ignore::UserWarning:transformers")
def test_a_package_writes_the_tokens_of_generate(name: str, tmp_path: Path) -> None:
    model = made(name)
    made_of = package(model, tmp_path / "package", runtime="ort" if name in UNEQUAL else "genai")
    assert made_of.verdict is not None
    assert made_of.verdict.passed
    assert (made_of.verdict.tokens, made_of.verdict.flips) == (64, 0)
    assert written(made_of.folder, LONG) == generated(model, LONG)


def initializers(folder: Path) -> dict[str, onnx.TensorProto]:
    return {each.name: each for each in onnx.load(folder / "model.onnx").graph.initializer}


def operators(folder: Path) -> list[str]:
    return [node.op_type for node in onnx.load(folder / "model.onnx").graph.node]


@pytest.mark.parametrize(("weights", "block"), [("int4", 32), pytest.param("int8", 16, marks=RARE)])
def test_weights_in_few_bits_compute_what_they_stand_for(weights: Any, block: int, tmp_path: Path) -> None:
    """Exactly: the tied table of embeddings is one copy, of which the head and the embeddings both read."""
    model = small(tie_word_embeddings=True)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = package(model, tmp_path / "package", weights=weights, block=block)
    assert found.verdict is not None
    assert found.verdict.error < 1e-5
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    kinds = operators(found.folder)
    assert (kinds.count("MatMulNBits"), kinds.count("GatherBlockQuantized")) == (8, 1)
    held = initializers(found.folder)
    assert not any(list(each.dims) in ([100, 32], [32, 100]) and each.data_type == 1 for each in held.values())
    assert sum(name.startswith(("lm_head", "model.embed")) and name.endswith(".scales") for name in held) == 1
    with rounded(model, int(weights[3:]), block):
        assert written(found.folder) == generated(model)


def levels(folder: Path) -> dict[str, int]:
    """The accuracy level of each product by its weight."""
    return {
        node.input[1].removesuffix(".q4"): each.i
        for node in onnx.load(folder / "model.onnx").graph.node
        if node.op_type == "MatMulNBits"
        for each in node.attribute
        if each.name == "accuracy_level"
    }


def test_fast_keeps_exact_what_has_to_be(tmp_path: Path) -> None:
    """One layer's inputs have a number that is much larger than the others of its block, which 8 bits lose."""
    model = small(seed=1)
    with torch.no_grad():
        mlp = model.model.layers[0].mlp
        mlp.up_proj.weight[3] *= 3000
        mlp.down_proj.weight[:, 3] /= 3000
    found = package(model, tmp_path / "package", weights="int4", block=16, accuracy="fast", steps=8)
    assert found.exact == ("model.layers.0.mlp.down_proj.weight",)
    assert isinstance(found.verdict, Verdict)
    assert 1e-5 < found.verdict.error < 5e-2
    assert not found.verdict.flips
    (told,) = [each for each in found.log.findings if each.rule.id == "FXP5017"]
    assert told.facts["name"] == "model.layers.*.mlp.down_proj.weight"
    assert (told.facts["layers"], told.facts["all"]) == (1, 8)
    held = levels(found.folder)
    assert {name for name, level in held.items() if level == 1} == {*found.exact}
    assert sorted(held.values()) == [1] + [4] * 7
    with pytest.raises(PackageError, match="'fast' is compared with eager PyTorch before it is believed"):
        package(model, tmp_path / "package", weights="int4", accuracy="fast", steps=0)


def test_a_table_that_ends_with_the_context_is_no_limit(tmp_path: Path) -> None:
    """XGLM grows its table of positions where a text is longer: a text of the whole context was compared."""
    torch.manual_seed(0)
    config = transformers.XGLMConfig(
        vocab_size=100, d_model=16, ffn_dim=32, num_layers=1, attention_heads=2, max_position_embeddings=32
    )
    found = package(transformers.XGLMForCausalLM(config).eval(), tmp_path / "package", steps=2)
    assert found.verdict is not None
    assert found.verdict.filled
    assert found.verdict.error < 1e-5
    assert not found.log.findings


def test_another_model_is_told(packaged: Path) -> None:
    log = Log()
    seen = verdict(packaged, small(seed=1), log, "cpu", steps=4, accuracy="exact", weights="float32")
    assert not seen.passed
    assert {each.rule.id for each in log.findings} == {"FXP5002", "FXP5015"}


def test_what_fails_leaves_the_earlier_package(packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "package"
    shutil.copytree(packaged, target)
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    model = small(seed=1)
    with monkeypatch.context() as patch:
        patch.setattr(type(model), "__call__", wrong)
        with pytest.raises(Stop):
            package(model, target, steps=2)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["package"]
    package(model, target, steps=0)
    assert (target / "model.onnx").read_bytes() != before["model.onnx"]


def wrong(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The model as it is called in the comparison, with other logits."""
    result = torch.nn.Module.__call__(self, *args, **kwargs)
    if isinstance(result, dict) and "logits" in result and "present" not in result:
        result["logits"] = result["logits"].flip(-1)
    return result


def test_no_more_tokens_than_the_context_holds(packaged: Path) -> None:
    generator = Generator(packaged, "cpu")
    with pytest.raises(PackageError, match="65 tokens are more than the context"):
        list(generator.greedy([[1] * 60], 6))
    assert len(list(generator.greedy([[1] * 60], 5))) == 5
    with pytest.raises(PackageError, match="no tokens"):
        list(generator.greedy([[]], 5))


def test_settings_for_generation_are_those_of_generate(tmp_path: Path) -> None:
    """Penalties count the prompt without what fills it up; n-grams and the least length count all of it."""
    model = small()
    model.generation_config.update(
        repetition_penalty=1.5,
        no_repeat_ngram_size=3,
        encoder_no_repeat_ngram_size=1,
        min_new_tokens=2,
        suppress_tokens=[7],
    )
    folder = package(model, tmp_path / "package", steps=0).folder
    assert written(folder) == generated(model)
    assert len({token for row in written(folder) for token in row}) > NEW


def test_a_text_ends_at_its_token(packaged: Path) -> None:
    generator = Generator(packaged, "cpu")
    whole = [int(each[0]) for each in generator.greedy(PROMPTS[:1], NEW, stop=frozenset())]
    end = whole[3]
    cut = [int(each[0]) for each in generator.greedy(PROMPTS[:1], NEW, stop=frozenset({end}))]
    assert cut == whole[: whole.index(end) + 1]


def saved(folder: Path, **settings: Any) -> Path:
    """A folder as transformers saves models, with a tokenizer of words."""
    model = small(**settings)
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(TOKENIZER)
    return folder


def test_a_folder_is_packaged_with_its_tokenizer(tmp_path: Path) -> None:
    source = saved(tmp_path / "source")
    found = package(source, tmp_path / "package", steps=2)
    names = {path.name for path in found.files}
    assert {"model.onnx", FILE, "generation_config.json", "tokenizer.json"} == names
    assert written(found.folder) == generated(small())


def test_half_precision_is_widened(tmp_path: Path) -> None:
    source = tmp_path / "source"
    small().to(torch.bfloat16).save_pretrained(source)
    (source / "tokenizer.json").write_text(TOKENIZER)
    found = package(source, tmp_path / "package", steps=2)
    assert [each.rule.id for each in found.log.findings if each.rule.id == "FXP7013"]


def change_config(source: Path, **changes: Any) -> None:
    path = source / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def drop_tokenizer(source: Path) -> None:
    (source / "tokenizer.json").unlink()


def drop_weights(source: Path) -> None:
    (source / "model.safetensors").unlink()


def cut_weights(source: Path) -> None:
    path = source / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])


BAD_FOLDERS = {
    "no tokenizer": (drop_tokenizer, PackageError, "has no tokenizer"),
    "an unknown type": (lambda s: change_config(s, model_type="unheard_of"), PretrainedError, "names no model"),
    "code of its own": (
        lambda s: change_config(s, model_type="own", auto_map={"AutoConfig": "own.Config"}),
        PretrainedError,
        "names no model",
    ),
    "no weights": (drop_weights, CheckpointError, "source"),
    "half of the weights": (cut_weights, CheckpointError, "model.safetensors"),
    "a cache of its own": (lambda s: None, NotGenerativeError, "does not return its 'past_key_values'"),
    "settings of generation": (
        lambda s: (s / "generation_config.json").write_text('{"guidance_scale": 2.0}'),
        PackageError,
        "'guidance_scale' is 2.0",
    ),
    "quantized by own code": (
        lambda s: change_config(s, quantization_config={"quant_method": "own"}),
        PretrainedError,
        "quantized already, by 'own'",
    ),
}


@pytest.mark.parametrize("name", BAD_FOLDERS)
def test_bad_folders_are_refused(name: str, tmp_path: Path) -> None:
    change, error, words = BAD_FOLDERS[name]
    source = saved(tmp_path / "source")
    if name == "a cache of its own":
        shutil.rmtree(source)
        settings = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 100}
        config = transformers.RecurrentGemmaConfig(**settings, lru_width=32, intermediate_size=64)
        transformers.RecurrentGemmaForCausalLM(config).save_pretrained(source)
        (source / "tokenizer.json").write_text(TOKENIZER)
    change(source)
    with pytest.raises(error, match=words):
        package(source, tmp_path / "package")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_model_that_does_not_run_is_refused(tmp_path: Path) -> None:
    """Latent attention has as many heads of keys as of queries, and this configuration says half as many."""
    kind, settings = MODELS["DeepSeek-V3"]
    model = model_of(kind, {**settings, "num_key_value_heads": 2})
    with pytest.raises(NotGenerativeError, match="does not run on 4 tokens in eager PyTorch: RuntimeError"):
        package(model, tmp_path / "package")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("settings", "rule"), [({"num_hidden_layers": 2}, "FXP7010")])
def test_missing_weights_are_findings(settings: dict[str, int], rule: str, tmp_path: Path) -> None:
    source, log = saved(tmp_path / "source"), Log()
    change_config(source, **settings)
    with pytest.raises(Stop):
        package(source, tmp_path / "package", log=log)
    assert {each.rule.id for each in log.findings} == {rule}
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_extra_weights_are_told(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    source = saved(tmp_path / "source")
    tensors = load_file(source / "model.safetensors")
    save_file({**tensors, "model.extra": torch.ones(2)}, source / "model.safetensors", {"format": "pt"})
    found = package(source, tmp_path / "package", steps=0)
    assert [each.rule.id for each in found.log.findings] == ["FXP7011"]


ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "weights": ({"weights": "int3"}, "weights 'int3' is unknown"),
    "runtime": ({"runtime": "tensorrt"}, "runtime 'tensorrt' is unknown"),
    "accuracy": ({"accuracy": "fast"}, "'fast' is about weights in few bits"),
    "cache": ({"cache": "paged"}, "cache 'paged' is unknown"),
    "in place": ({"cache": "shared", "steps": 0}, "compare some tokens"),
    "block": ({"weights": "int4", "block": 24}, "blocks of 24"),
    "tokenizer": ({"tokenizer": "."}, "has no tokenizer"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_make_no_sense_are_refused(name: str, tmp_path: Path) -> None:
    given, words = ARGUMENTS[name]
    with pytest.raises(PackageError, match=words):
        package(small(), tmp_path / "package", **given)


def test_other_files_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(PackageError, match="holds other files"):
        package(small(), tmp_path)
    with pytest.raises(PackageError, match="is a file"):
        package(small(), tmp_path / "note.txt")


def test_models_in_training_mode_and_in_half_precision_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="training mode"):
        package(small().train(), tmp_path / "package")
    with pytest.raises(PackageError, match="float16"):
        package(small().half(), tmp_path / "package")


def test_what_is_no_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="is no package"):
        Generator(tmp_path)
    (tmp_path / FILE).write_text('{"model": ' + "[" * 100 + "]" * 100 + "}")
    with pytest.raises(PackageError, match="nests more than 64 levels"):
        Generator(tmp_path)
    (tmp_path / FILE).write_text('{"model": {"decoder": {}}}')
    with pytest.raises(PackageError, match="does not describe a decoder"):
        PackageConfig.read(tmp_path)


def test_onnxruntime_genai_writes_the_same(tmp_path: Path) -> None:
    og = pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")
    model = small()
    found: Package = package(model, tmp_path / "package", weights="int4")
    loaded = og.Model(str(found.folder))
    settings = og.GeneratorParams(loaded)
    settings.set_search_options(max_length=len(PROMPTS[0]) + NEW, do_sample=False)
    generator = og.Generator(loaded, settings)
    generator.append_tokens(np.array(PROMPTS[:1], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    assert list(generator.get_sequence(0))[-NEW:] == written(found.folder)[0]
