"""Arguments and options that subcommands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fxport.exporter.pipeline.options import DEFAULT_OPSET, MAX_OPSET, MIN_OPSET
from fxport.exporter.sources.outputs import file_path

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="FILE.py:NAME or package.module:NAME, where NAME is a model, an nn.Module class (constructed without "
        "arguments, in eval mode), or a function that returns a model or (model, args[, kwargs[, dynamic_shapes]]); "
        "or a .pt2 file of torch.export.save; or a folder that transformers has saved. Trusted input: Python code that "
        "it names is run. Of the others none is, unless --trust is given for a .pt2 file.",
    ),
]
Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=SHAPE[:DTYPE[:LOW..HIGH]]",
        help="An example input of random values: ids=2x16:int64:0..999, image=1x3x32x32, v=3:float32 (a vector of 3), "
        "t=scalar:float32 (a tensor of no dims), or a Python number: scale=1.5, n=3, or a string: mode=fast. Whole "
        "numbers are 0 and 1 where no range is given. Repeatable.",
    ),
]
INPUTS_HELP = "Example inputs: .npz, or .pt with a dict of tensors, by name."
Inputs = Annotated[Path | None, typer.Option("--inputs", metavar="FILE", help=INPUTS_HELP)]
SampleFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--inputs",
        metavar="FILE",
        help=f"{INPUTS_HELP} Repeatable: the model is captured with the first and validated with each.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="PATH", parser=file_path, help="The ONNX file; NAME.onnx by default."),
]
Opset = Annotated[
    int | None,
    typer.Option(
        "--opset",
        help=f"The ai.onnx opset, {MIN_OPSET} to {MAX_OPSET}; {DEFAULT_OPSET} by default, 21 for kernels on CUDA.",
        show_default=False,
    ),
]
NoValidate = Annotated[bool, typer.Option("--no-validate", help="Do not run the model.")]
Dynamic = Annotated[
    list[str] | None,
    typer.Option(
        "--dynamic",
        metavar="NAME:INDEX=DIM[,…]",
        help="Dims of an input that may vary: x:0=batch,1=seq; with bounds: x:0=batch[1..64]; multiples: x:0=4*n. NAME "
        "may be a path (past.0.key). NAME:auto: all of them that can; auto: those of all inputs. Repeatable.",
    ),
]
Provider = Annotated[
    str, typer.Option("--provider", help="ONNX Runtime provider to validate on; auto: CUDA where it works, else CPU.")
]
Runtimes = Annotated[
    list[str] | None,
    typer.Option(
        "--runtime",
        metavar="NAME",
        help="Another implementation of ONNX that runs the same samples, besides ONNX Runtime: reference (onnx's "
        "own), openvino, or web (onnxruntime-web in Node). Repeatable.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Load a .pt2 SOURCE that has pickles or other code in it, too: loading it runs that code."
    ),
]
Sandbox = Annotated[
    bool,
    typer.Option(
        "--sandbox",
        help="Run all of this without a network and without write access but to the outputs named here; needs "
        "bubblewrap (Linux).",
    ),
]
Plugin = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="MODULE",
        help="A module with LOWERINGS of your own. Trusted input: it is imported, which runs it. Repeatable.",
    ),
]
Bisect = Annotated[
    bool, typer.Option("--bisect/--no-bisect", help="Look for the line that a difference from PyTorch comes from.")
]
Adversarial = Annotated[
    bool,
    typer.Option("--adversarial", help="Also validate at hard sizes and on zeros, denormal and large numbers, NaN."),
]
Atol = Annotated[
    float | None,
    typer.Option("--atol", metavar="X", min=0.0, help="Allow errors of X + rtol * |value|, not the error budget."),
]
Rtol = Annotated[
    float | None,
    typer.Option("--rtol", metavar="X", min=0.0, help="Allow errors of atol + X * |value|, not the error budget."),
]
CheckPasses = Annotated[
    bool,
    typer.Option("--check-passes", help="Run the model before and after each pass, and name one that changes values."),
]
Predict = Annotated[
    str | None,
    typer.Option(
        "--predict", metavar="PROVIDER", help="Tell which nodes a provider that is not here has no kernel for."
    ),
]
Repro = Annotated[
    Path | None,
    typer.Option("--repro", metavar="DIR", help="Write the smallest model that shows a difference, with a script."),
]
Init = Annotated[
    list[str] | None,
    typer.Option(
        "--init",
        metavar="NAME=VALUE",
        help="An argument of the class or function that SOURCE names: hidden=64, act=relu. Repeatable.",
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="PATH",
        help="A checkpoint with the weights: safetensors, an index of shards, torch.save, or a folder of them.",
    ),
]
