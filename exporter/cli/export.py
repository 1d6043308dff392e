"""`fxport export SOURCE`: from a model in Python to a validated file."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fxport.diagnostics import Log
from fxport.diagnostics.flame_graph import flame_graph
from fxport.diagnostics.paths import stamp_of
from fxport.exporter.cli import arguments
from fxport.exporter.cli.edge import run
from fxport.exporter.cli.exit_codes import CLEAN
from fxport.exporter.cli.ranks import agreed
from fxport.exporter.cli.reporting import Reporting, reports
from fxport.exporter.sources.dynamic import require_readable
from fxport.exporter.sources.outputs import require_apart, require_folder, require_writable
from fxport.exporter.sources.source import require_pretrained, short_name
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.choices import require_provider, require_table
from fxport.exporter.validation.request import ExternalData, Request, SelfCheck, export_and_validate

if TYPE_CHECKING:
    from fxport.exporter.validation.fixes import Fixed


@reports()
def command(
    source: arguments.Source,
    trust: arguments.Trust = False,
    sandbox: arguments.Sandbox = False,  # dealt with before: cli.sandbox
    init: arguments.Init = None,
    input: arguments.Input = None,
    inputs: arguments.SampleFiles = None,
    dynamic: arguments.Dynamic = None,
    output: arguments.Output = None,
    opset: arguments.Opset = None,
    provider: arguments.Provider = "auto",
    bisect: arguments.Bisect = True,
    repro: arguments.Repro = None,
    adversarial: arguments.Adversarial = False,
    atol: arguments.Atol = None,
    rtol: arguments.Rtol = None,
    check_passes: arguments.CheckPasses = False,
    predict: arguments.Predict = None,
    no_validate: arguments.NoValidate = False,
    dump: Annotated[Path | None, typer.Option("--dump", metavar="DIR", help="Write the graph after each pass.")] = None,
    profile: Annotated[
        Path | None, typer.Option("--profile", metavar="FILE", help="Write a flame graph of the run, for speedscope.")
    ] = None,
    external_data: Annotated[
        ExternalData, typer.Option("--external-data", help="Weights in a file of their own; auto: above a threshold.")
    ] = ExternalData.AUTO,
    weights: arguments.Weights = None,
    fake: Annotated[
        bool, typer.Option("--fake", help="Make the model without memory for its weights; --weights has them.")
    ] = False,
    weights_in_place: Annotated[
        bool, typer.Option("--weights-in-place", help="Refer to weights in the files of --weights, without a copy.")
    ] = False,
    no_functions: Annotated[
        bool, typer.Option("--no-functions", help="Repeated regions are nodes of the graph, not calls of a function.")
    ] = False,
    custom_ops: Annotated[
        bool, typer.Option("--custom-ops", help="Operators of your own without a lowering: nodes of their own domain.")
    ] = False,
    no_reuse: Annotated[
        bool, typer.Option("--no-reuse", help="Capture each block of the model, also those that are alike.")
    ] = False,
    no_rewrite: Annotated[
        bool, typer.Option("--no-rewrite", help="Refuse branches and loops that depend on data; rewrite none.")
    ] = False,
    self_check: Annotated[
        SelfCheck, typer.Option("--self-check", help="Compare captures with the model in PyTorch: which ones.")
    ] = SelfCheck.REWRITTEN,
    rank_timeout: Annotated[
        float,
        typer.Option(
            "--rank-timeout", metavar="S", min=1.0, help="Under torchrun: seconds for which one rank waits for another."
        ),
    ] = 45.0,
    plugin: arguments.Plugin = None,
    allow_specialization: Annotated[
        bool, typer.Option("--allow-specialization", help="A dynamic dim that became a constant is only a warning.")
    ] = False,
    input_names: Annotated[
        str | None, typer.Option("--input-names", metavar="A,B", help="Names of the flattened inputs.")
    ] = None,
    output_names: Annotated[
        str | None, typer.Option("--output-names", metavar="A,B", help="Names of the flattened outputs.")
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Change the source where a fix was tried and found to help; show the changes.")
    ] = False,
    reporting: Reporting = Reporting(),
) -> None:
    """Export a PyTorch model to ONNX and validate it in ONNX Runtime.

    Exit codes: 0 clean, 1 findings at or above --fail-on, 2 usage, 3 a fault of fxport's, 130 interrupted.
    """
    request = Request(
        source=source,
        input=input or (),
        inputs=inputs or (),
        dynamic=dynamic or (),
        output=output or Path(f"{short_name(source)}.onnx"),
        opset=opset,
        plugin=plugin or (),
        allow_specialization=allow_specialization,
        input_names=input_names,
        output_names=output_names,
        provider=provider,
        validate=not no_validate,
        bisect=bisect,
        repro=repro,
        adversarial=adversarial,
        check_passes=check_passes,
        predict=predict,
        dump=dump,
        external_data=external_data,
        weights=weights,
        fake=fake,
        weights_in_place=weights_in_place,
        functions=not no_functions,
        custom_ops=custom_ops,
        reuse=not no_reuse,
        rewrite=not no_rewrite,
        self_check=self_check,
        rank_timeout=rank_timeout,
        init=init or (),
        trust=trust,
        atol=atol,
        rtol=rtol,
    )
    if weights_in_place and weights is None and not Path(source).is_dir():
        raise UsageError("--weights-in-place leaves the weights in a checkpoint; name it with --weights.")
    written = {"--output": request.output} | ({"--sarif": reporting.sarif} if reporting.sarif else {})
    require_writable(request.output, "--output")
    if profile is not None:
        require_writable(profile, "--profile")
        written["--profile"] = profile
    read = {"SOURCE": Path(source.rpartition(":")[0] or source)} | {f"--inputs {path}": path for path in inputs or ()}
    read |= {"--weights": weights} if weights else {}
    require_apart(read | written)
    for option, folder in {"--dump": dump, "--repro": repro}.items():
        if folder is not None:
            require_folder(folder, option)
    if Path(source).is_dir():
        require_pretrained(Path(source))
    require_provider(provider)
    if predict is not None:
        require_table(predict)
    require_readable(request.input, request.dynamic)
    report = reporting.resolved("export", source)
    stages: list[tuple[str, float]] = []
    tried: Fixed | None = None
    if fix:
        from fxport.exporter.cli.fix import fix_source

        start = time.perf_counter()
        tried = fix_source(request, report.fail_on)
        stages.append(("fix", time.perf_counter() - start))

    def work(log: Log) -> str:
        log.stages += stages
        if tried is not None:
            log.revise(tried.without_failed)
        with flame_graph(profile, f"fxport export {source}"):
            return export_and_validate(request, log)

    before = stamp_of(request.output)
    code = agreed(lambda: run(work, report))
    if before is not None and code != CLEAN and stamp_of(request.output) == before:
        print(f"fxport: no model was written; '{request.output}' is of an earlier run", file=sys.stderr)
    raise typer.Exit(code)
