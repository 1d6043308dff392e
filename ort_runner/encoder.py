"""The encoder of a package in ONNX Runtime: from a text or a sound to the keys and values that each step reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fxport.ort_runner.failures import RUN, failure_of
from fxport.ort_runner.package_config import MASK, EncoderConfig, PackageError
from fxport.ort_runner.session import ports_of, session_on, to_ort

if TYPE_CHECKING:
    import onnxruntime

KINDS = ("key", "value")


class Encoder:
    """An encoder that is open.

    Raises PackageError where its model has other inputs or outputs than its configuration says, and Failure.
    """

    def __init__(self, config: EncoderConfig, layers: int, provider: str, threads: int) -> None:
        self._config, self._layers = config, layers
        self._session, used = session_on(provider, config.model, threads=threads)
        self._provider = used.name
        self._outputs = [
            numbered_name(config.outputs[f"cross_present_{kind}_names"], index)
            for index in range(layers)
            for kind in KINDS
        ]
        inputs = {port.name for port in ports_of(self._session.get_inputs())}
        outputs = {port.name for port in ports_of(self._session.get_outputs())}
        if other := inputs ^ {*config.inputs.values()} or {*self._outputs} - outputs:
            raise PackageError(f"'{config.model}' and its configuration differ in {sorted(other)}; package it again.")

    def run(self, given: Mapping[str, np.ndarray], names: Mapping[str, str]) -> dict[str, onnxruntime.OrtValue]:
        """The inputs of the decoder that stay the same in all steps, by the names that it has for them.

        Raises PackageError for other inputs than the encoder takes, and for too long a text; Failure if a kernel fails.
        """
        if given.keys() != self._config.inputs.keys():
            raise PackageError(f"the encoder takes {', '.join(self._config.inputs)}, not {', '.join(given)}.")
        most = self._config.context_length
        if most is not None and (length := given["input_ids"].shape[1]) > most:
            raise PackageError(f"{length} tokens are more than the encoder takes, which is {most}; shorten the text.")
        feeds = {self._config.inputs[part]: to_ort(array) for part, array in given.items()}
        try:
            found = self._session.run_with_ort_values(self._outputs, feeds)
        except Exception as error:
            raise failure_of(error, RUN, self._provider) from error
        taken = [
            numbered_name(names[f"cross_past_{kind}_names"], index) for index in range(self._layers) for kind in KINDS
        ]
        fixed = dict(zip(taken, found, strict=True))
        return fixed | ({names[MASK]: to_ort(given["attention_mask"])} if MASK in names else {})


def numbered_name(template: str, index: int) -> str:
    """A name of the configuration with the number of a layer."""
    return template.replace("%d", str(index))
