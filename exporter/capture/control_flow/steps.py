"""The functions that rewritten code calls while it is captured, under the name `_steps`."""

from fxport.exporter.capture.control_flow.applied import display, transposed, unpacked
from fxport.exporter.capture.control_flow.branches import chosen, refused, repeated
from fxport.exporter.capture.control_flow.counted import counted
from fxport.exporter.capture.control_flow.found_places import Found
from fxport.exporter.capture.control_flow.generators import Pushed
from fxport.exporter.capture.control_flow.identities import (
    Bool,
    Float,
    Int,
    IsFalse,
    IsTrue,
    class_of,
    is_number,
    is_truth,
)
from fxport.exporter.capture.control_flow.items import unless_iterator
from fxport.exporter.capture.control_flow.kept_calls import kept, require_unchanged, state_read_by
from fxport.exporter.capture.control_flow.key_methods import put
from fxport.exporter.capture.control_flow.lists import ScanList
from fxport.exporter.capture.control_flow.local_objects import Local
from fxport.exporter.capture.control_flow.merging import UNSET
from fxport.exporter.capture.control_flow.operators import (
    among,
    and_,
    both,
    compared,
    either,
    element,
    is_same,
    not_,
    or_,
    truth,
)
from fxport.exporter.capture.control_flow.scans import for_each

__all__ = ["UNSET", "Bool", "Float", "Found", "Int", "IsFalse", "IsTrue", "Local", "Pushed", "ScanList", "among",
           "and_", "both", "chosen", "class_of", "compared", "counted", "display", "either", "element", "for_each",
           "is_number", "is_same", "is_truth", "kept", "not_", "or_", "put", "refused", "repeated", "require_unchanged",
           "state_read_by", "transposed", "truth", "unless_iterator", "unpacked"]  # fmt: skip
