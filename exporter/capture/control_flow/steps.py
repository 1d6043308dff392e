"""The functions that rewritten code calls while it is captured, under the name `_steps`."""

from exporter.capture.control_flow.branches import chosen, refused, repeated
from exporter.capture.control_flow.found_places import Found
from exporter.capture.control_flow.kept_calls import kept
from exporter.capture.control_flow.lists import ScanList
from exporter.capture.control_flow.merging import UNSET
from exporter.capture.control_flow.operators import among, and_, both, compared, either, not_, or_
from exporter.capture.control_flow.scans import for_each

__all__ = ["UNSET", "Found", "ScanList", "among", "and_", "both", "chosen", "compared", "either", "for_each", "kept",
           "not_", "or_", "refused", "repeated"]  # fmt: skip
