"""Packages of language models beside those of onnxruntime-genai's builder: the same weights, in the same runtime.

    pip install onnxruntime-genai
    python benchmarks/language_packages.py                          every family in float32 and int4
    python benchmarks/language_packages.py llama --weights int4     one of them
    python benchmarks/language_packages.py llama --cache dynamic    the cache as new tensors in each step

Both are made from one folder of random weights, each by its own command, and run by onnxruntime-genai in turns, so that
a busy moment meets both. Printed are: seconds of CPU and on the clock to make the package, its size, the peak of
memory of one process that runs it, and the medians of a prompt and of a step at each length of the past; and whether
the tokens are the same.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

VOCABULARY = 8192
BASE: Mapping[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 512,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 1536,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FAMILIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "llama": ("LlamaForCausalLM", BASE),
    "qwen3": ("Qwen3ForCausalLM", {**BASE, "head_dim": 64}),
    "gemma3": ("Gemma3ForCausalLM", {**BASE, "head_dim": 64, "sliding_window": 512}),
    "phi3": ("Phi3ForCausalLM", {**BASE, "original_max_position_embeddings": 4096, "sliding_window": None}),
    "mistral": ("MistralForCausalLM", {**BASE, "sliding_window": None}),
}
"""Model class and config, of about 35 million parameters; `--hidden` and `--layers` make larger ones."""

PASTS = (128, 2048)
STEPS = 24
WARM_UP = 1
NAMES = ("builder", "fxport")
MEMORY = "import sys; sys.path.insert(0, {folder!r}); import language_packages as b; b.alone({package!r})"


def checkpoint(family: str, folder: Path, hidden: int, layers: int) -> None:
    """Write a folder of random weights with a tokenizer of words."""
    import tokenizers
    import torch
    import transformers

    kind, settings = FAMILIES[family]
    sizes = {"hidden_size": hidden, "intermediate_size": 3 * hidden, "num_hidden_layers": layers}
    cls = getattr(transformers, kind)
    torch.manual_seed(0)
    model = cls(cls.config_class(**{**settings, **sizes})).eval()
    model.save_pretrained(folder)
    words = tokenizers.models.WordLevel({f"w{index}": index for index in range(VOCABULARY)}, unk_token="w3")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(words), unk_token="w3")
    fast.save_pretrained(folder)


def commands(source: Path, made: Mapping[str, Path], weights: str, cache: str, scratch: Path) -> dict[str, list[str]]:
    """The command line of each package; int4 is exact in both: products with float32 inputs."""
    precision = {"float32": "fp32", "int4": "int4"}[weights]
    level = ["--extra_options", "accuracy_level=1"] if weights == "int4" else []
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", str(source), "-o", str(made["builder"])]
    ours = [sys.executable, "-m", "fxport", "package", str(source), "-o", str(made["fxport"]), "--weights", weights]
    return {
        "builder": [*builder, "-p", precision, "-e", "cpu", "-c", str(scratch), *level],
        "fxport": [*ours, "--cache", cache],
    }


def timed(command: Sequence[str]) -> tuple[float, float]:
    """Seconds of CPU, and on the clock, of a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - start


def generated(model: Any, prompt: np.ndarray) -> tuple[float, list[float], list[int]]:
    """Seconds of the prompt, those of each step, and the tokens."""
    import onnxruntime_genai as og

    settings = og.GeneratorParams(model)
    length = prompt.shape[1] + STEPS + WARM_UP + 1
    settings.set_search_options(max_length=length, min_length=length, do_sample=False)
    generator = og.Generator(model, settings)
    start = time.perf_counter()
    generator.append_tokens(prompt)
    first, steps = time.perf_counter() - start, []
    for _ in range(STEPS + WARM_UP):
        start = time.perf_counter()
        generator.generate_next_token()
        steps.append(time.perf_counter() - start)
    return first, steps[WARM_UP:], generator.get_sequence(0)[-STEPS:].tolist()


def prompt_of(past: int) -> np.ndarray:
    return np.random.default_rng(past).integers(5, VOCABULARY, (1, past)).astype(np.int32)


def alone(package: str) -> None:
    """Print the peak of memory in MB of this process, which runs a package at the longest past.

    It is that of the process's own memory: `ru_maxrss` would also count what the one that started it had.
    """
    import onnxruntime_genai as og

    generated(og.Model(package), prompt_of(PASTS[-1]))
    told = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(int(told["VmHWM"].split()[0]) // 1024)


def peak(package: Path) -> int:
    code = MEMORY.format(folder=str(Path(__file__).parent), package=str(package))
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def race(made: Mapping[str, Path], rounds: int) -> None:
    """Print medians of both packages at each past."""
    import onnxruntime_genai as og

    models = {name: og.Model(str(folder)) for name, folder in made.items()}
    for past in PASTS:
        firsts: dict[str, list[float]] = {name: [] for name in made}
        steps: dict[str, list[float]] = {name: [] for name in made}
        tokens = {}
        for _ in range(rounds):
            for name, model in models.items():
                first, each, tokens[name] = generated(model, prompt_of(past))
                firsts[name].append(first)
                steps[name] += each
        told = [compared(f"past {past}: prompt", firsts), compared("step", steps)]
        print(f"  {'; '.join(told)}; same tokens: {tokens['builder'] == tokens['fxport']}", flush=True)


def compared(what: str, times: Mapping[str, Sequence[float]]) -> str:
    theirs, ours = (statistics.median(times[name]) * 1e3 for name in NAMES)
    return f"{what} {theirs:.1f} / {ours:.1f} ms ({theirs / ours:.2f} ×)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--weights", choices=("float32", "int4"))
    parser.add_argument("--cache", choices=("dynamic", "shared"), default="shared")
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    print("builder / fxport; in brackets the speed of fxport")
    for family in asked.families or FAMILIES:
        for weights in [asked.weights] if asked.weights else ("float32", "int4"):
            with tempfile.TemporaryDirectory() as scratch:
                root = Path(scratch)
                checkpoint(family, root / "source", asked.hidden, asked.layers)
                made = {name: root / name for name in NAMES}
                lines = commands(root / "source", made, weights, asked.cache, root / "cache")
                took = {name: timed(lines[name]) for name in NAMES}
                size = {name: sum(each.stat().st_size for each in made[name].iterdir()) / 1e6 for name in NAMES}
                memory = {name: peak(made[name]) for name in NAMES}
                context = json.loads((made["fxport"] / "genai_config.json").read_text())["model"]["context_length"]
                print(f"{family}, {weights}, cache {asked.cache}, context {context}")
                print(f"  CPU to make {' / '.join(f'{took[name][0]:.1f}' for name in NAMES)} s, on the clock", end=" ")
                print(f"{' / '.join(f'{took[name][1]:.1f}' for name in NAMES)} s", end="; ")
                print(f"size {' / '.join(f'{size[name]:.1f}' for name in NAMES)} MB", end="; ")
                print(f"peak {' / '.join(str(memory[name]) for name in NAMES)} MB", flush=True)
                race(made, asked.rounds)


if __name__ == "__main__":
    main()
