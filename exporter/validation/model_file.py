"""An ONNX file that the user names: read, or refused in one line or with a finding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Log, Place, rules
from fxport.diagnostics.exhaustion import raise_if_exhausted
from fxport.diagnostics.messages import error_line
from fxport.exporter.sources.usage import UsageError
from fxport.ort_runner.provenance import PLACES_KEY, rows_of
from fxport.ort_runner.wire import NO_MODEL, require_bounded

if TYPE_CHECKING:
    import onnx_ir as ir


def model_of(path: Path) -> ir.Model:
    """The model, whose weights are read on use. Raises UsageError for what is none."""
    import onnx_ir as ir

    try:
        require_bounded(path)
        model = ir.load(path)
    except Exception as error:  # protobuf and onnx_ir raise their own kinds for a foreign file
        raise_if_exhausted(error)
        detail = "" if NO_MODEL in str(error) else f": {error_line(error)}"
        raise UsageError(f"'{path}' is no ONNX model{detail}; name an .onnx file.") from error
    if not model.ir_version:  # no bytes at all are a valid message of protobuf
        raise UsageError(f"'{path}' is no ONNX model: it says no version of the format; name an .onnx file.")
    if (table := model.metadata_props.get(PLACES_KEY)) is not None:
        try:
            model.metadata_props[PLACES_KEY] = json.dumps(rows_of(table))
        except ValueError as error:
            raise UsageError(f"'{path}': {error}; export the model again.") from error
    return model


def require_weights(path: Path, log: Log) -> None:
    """Raises Stop, with findings, where weights are not in the folder or not whole: before any of them is read."""
    from fxport.ort_runner.model_file import missing_external_data, read_model_file

    with log.stage("read"):
        for name, reason in missing_external_data(read_model_file(path)):
            log.report(rules.EXTERNAL_DATA_MISSING, at=Place(str(path.resolve()), 1, 1), name=name, reason=reason)
