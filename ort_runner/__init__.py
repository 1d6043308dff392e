"""Validation of an ONNX file in ONNX Runtime against what PyTorch computed. Needs no torch.

`import ort_runner` does not import onnxruntime; what runs a model does.
"""

from fxport.ort_runner.bench import Latency, latency, latency_alone
from fxport.ort_runner.compare import Gap, compare
from fxport.ort_runner.device import DeviceSession, DeviceTensor
from fxport.ort_runner.placement import Placed, placement
from fxport.ort_runner.providers import PROVIDERS, Provider, resolve
from fxport.ort_runner.samples import Samples, load_all, save_all
from fxport.ort_runner.structure import flattened, restored
from fxport.ort_runner.validate import SampleResult, Validation, validate

__all__ = [
    "PROVIDERS",
    "DeviceSession",
    "DeviceTensor",
    "Gap",
    "Latency",
    "Placed",
    "Provider",
    "SampleResult",
    "Samples",
    "Validation",
    "compare",
    "flattened",
    "latency",
    "latency_alone",
    "load_all",
    "placement",
    "resolve",
    "restored",
    "save_all",
    "validate",
]
