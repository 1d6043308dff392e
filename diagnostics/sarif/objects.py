"""sarif_om's classes, and their way to JSON and back. The only file that imports sarif_om.

jschema_to_python's serializer, which sarif_om was made for, drops an explicit `level: warning`, writes NaN, and turns
numpy scalars into strings; its classes have no types and no loader. Both ways refuse what the schema refuses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import attr

from fxport.diagnostics.errors import FxportError
from fxport.diagnostics.escape import visible
from fxport.diagnostics.messages import plain

om: Any = import_module("sarif_om")  # Any: sarif_om has no types


class SarifError(FxportError, ValueError):
    """Not the SARIF that the standard describes; the text names the place as a JSON path."""


_ALWAYS = frozenset(("level", "kind", "columnKind"))  # written although they equal the schema's default
_EMPTY_MEANS_NONE_FOUND = frozenset(("runs", "results", "rules", "frames", "suppressions"))
_FIRST = ("$schema", "version")
_MISNAMED = MappingProxyType({("Suppression", "state"): "status"})  # sarif_om follows a draft of the standard

# Class of the value of a property, in a list or alone. `None` in the second table: not an object.
_CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "runs": "Run",
        "tool": "Tool",
        "driver": "ToolComponent",
        "rules": "ReportingDescriptor",
        "defaultConfiguration": "ReportingConfiguration",
        "shortDescription": "MultiformatMessageString",
        "fullDescription": "MultiformatMessageString",
        "help": "MultiformatMessageString",
        "results": "Result",
        "message": "Message",
        "description": "Message",
        "locations": "Location",
        "location": "Location",
        "relatedLocations": "Location",
        "physicalLocation": "PhysicalLocation",
        "logicalLocations": "LogicalLocation",
        "artifactLocation": "ArtifactLocation",
        "mappedTo": "ArtifactLocation",
        "region": "Region",
        "contextRegion": "Region",
        "deletedRegion": "Region",
        "snippet": "ArtifactContent",
        "insertedContent": "ArtifactContent",
        "stacks": "Stack",
        "frames": "StackFrame",
        "codeFlows": "CodeFlow",
        "threadFlows": "ThreadFlow",
        "fixes": "Fix",
        "artifactChanges": "ArtifactChange",
        "replacements": "Replacement",
        "suppressions": "Suppression",
        "invocations": "Invocation",
        "toolExecutionNotifications": "Notification",
        "automationDetails": "RunAutomationDetails",
        "versionControlProvenance": "VersionControlDetails",
    }
)
_CLASSES_BY_OWNER: Mapping[tuple[str, str], str | None] = MappingProxyType(
    {
        ("ThreadFlow", "locations"): "ThreadFlowLocation",
        ("Exception", "message"): None,
        ("Artifact", "location"): "ArtifactLocation",
        ("ReportingDescriptor", "messageStrings"): "MultiformatMessageString",
        ("Run", "originalUriBaseIds"): "ArtifactLocation",
    }
)
_SCALARS: Mapping[type, tuple[str, ...]] = MappingProxyType(
    {
        int: ("startLine", "startColumn", "endLine", "endColumn", "occurrenceCount", "nestingLevel"),
        str: (
            *("text", "uri", "uriBaseId", "name", "fullyQualifiedName", "ruleId", "justification"),
            *("kind", "level", "baselineState", "version"),
        ),
        dict: ("partialFingerprints", "properties"),
    }
)
_TYPES: Mapping[str, type] = MappingProxyType({key: kind for kind, keys in _SCALARS.items() for key in keys})
_NAMES: Mapping[type, str] = MappingProxyType({int: "a whole number", str: "a text", dict: "an object"})
_MAPS = frozenset(("messageStrings", "originalUriBaseIds"))


def to_dict(thing: object, path: str = "$") -> dict[str, object]:
    """A sarif_om object as a dict for JSON. Raises SarifError for a required attribute too few, or one too many."""
    kind = type(thing)
    fields: dict[str, Any] = {field.name: field for field in attr.fields(kind)}
    if extra := vars(thing).keys() - fields.keys():
        raise SarifError(f"{path}: {kind.__name__} has no {', '.join(sorted(extra))}")
    written: dict[str, object] = {}
    for name, field in fields.items():
        key = _key(kind, field)
        value = getattr(thing, name)
        if value is None:
            if field.default is attr.NOTHING:
                raise SarifError(f"{path}.{key}: required by {kind.__name__}")
            continue
        if _is_default(value, field) and key not in _ALWAYS:
            continue
        if isinstance(value, (list, tuple)) and not value and key not in _EMPTY_MEANS_NONE_FOUND:
            continue
        written[key] = _json(value, f"{path}.{key}")
    return {key: written[key] for key in (*_FIRST, *written) if key in written}


def from_dict(data: object, kind: str = "SarifLog", path: str = "$") -> Any:  # Any: sarif_om has no types
    """A sarif_om object from parsed JSON. Raises SarifError where it is not what the schema says."""
    if not isinstance(data, Mapping):
        raise SarifError(f"{path}: an object is expected, not {type(data).__name__}")
    cls = getattr(om, kind)
    names = {_key(cls, field): field for field in attr.fields(cls)}
    if unknown := [str(key) for key in data if key not in names]:
        raise SarifError(f"{path}: {kind} has no {visible(', '.join(sorted(unknown)))}")
    missing = [key for key, field in names.items() if field.default is attr.NOTHING and key not in data]
    if missing:
        raise SarifError(f"{path}.{missing[0]}: required by {kind}")
    return cls(**{names[key].name: _object(kind, key, value, f"{path}.{key}") for key, value in data.items()})


def _object(owner: str, key: str, value: object, path: str) -> object:
    kind = _CLASSES_BY_OWNER.get((owner, key), _CLASSES.get(key))
    wanted = _TYPES.get(key) if kind is None else None
    if wanted is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
        raise SarifError(f"{path}: {_NAMES[wanted]} is expected, not {type(value).__name__}")
    if kind is None or (isinstance(value, Mapping) and key == "properties"):
        return value
    if key in _MAPS and isinstance(value, Mapping):
        return {name: from_dict(item, kind, f"{path}.{name}") for name, item in value.items()}
    if isinstance(value, list):
        return [from_dict(item, kind, f"{path}[{index}]") for index, item in enumerate(value)]
    return from_dict(value, kind, path)


def _json(value: object, path: str) -> object:
    if attr.has(type(value)):
        return to_dict(value, path)
    if isinstance(value, (list, tuple)):
        return [_json(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {visible(str(key)): _json(item, f"{path}.{key}") for key, item in value.items()}
    value = plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return visible(value) if isinstance(value, str) else value


def _is_default(value: object, field: Any) -> bool:  # Any: attrs does not export the type of a field
    default = field.default
    if isinstance(default, attr.Factory):  # type: ignore[arg-type]  # attrs types its class as a function
        return value == default.factory()
    return default is not attr.NOTHING and type(value) is type(default) and value == default


def _key(kind: type, field: Any) -> str:  # Any: as above
    return _MISNAMED.get((kind.__name__, field.name), field.metadata["schema_property_name"])
