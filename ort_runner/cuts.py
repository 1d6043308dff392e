"""Models made of parts of a model: with more outputs, or cut apart at the values that PyTorch's graph has too.

A value that carries the mark `fxport.value` is the result of one or more nodes of the captured graph. Weights in
external files are linked, not read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
from google.protobuf.message import DecodeError

from fxport.diagnostics.drafts import draft_folder
from fxport.ort_runner.wire import NO_MODEL

VALUE_KEY = "fxport.value"
MODELS = "models"
"""Name of the folder of models in a draft folder."""

MADE = ".made"
"""Behind the name of a value that is fed, for the one that its nodes make of what they are fed."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A value of the model that is `key` in the captured graph. `order` is the number of the node that makes it, -1 for
    inputs and constants; `varies` says that it depends on the model's inputs. A value may stand for several keys, one
    of an operation that passed on what it was given: `rank` is the place among them, `given` the key before it."""

    value: str
    key: str
    order: int
    varies: bool
    rank: int = 0
    given: str = ""

    @property
    def is_copy(self) -> bool:
        """True if no node makes it: it is an input, a constant, or what another key stands for."""
        return self.order < 0 or self.rank > 0

    @property
    def position(self) -> tuple[int, int]:
        """The order in which they are made."""
        return self.order, self.rank

    @property
    def fx_node(self) -> str:
        """The name of the node whose result, or one of whose results, it is."""
        name, _, index = self.key.rpartition(".")
        return name if index.isdecimal() and name else self.key


class Cuts:
    """The graph of a model file; `results` are the keys of its outputs in the captured graph, in order.

    Raises ValueError or OSError for a file that is none.
    """

    def __init__(self, path: Path, results: Sequence[str] = ()) -> None:
        self.path = path
        try:
            self.proto = onnx.load(path, load_external_data=False)
        except DecodeError as error:
            raise ValueError(NO_MODEL) from error
        self._makers = {name: i for i, node in enumerate(self.graph.node) for name in node.output if name}
        self._reads = [tuple(_reads(node)) for node in self.graph.node]
        self._initializers = {tensor.name: tensor for tensor in self.graph.initializer}
        self._sparse = {tensor.values.name: tensor for tensor in self.graph.sparse_initializer}
        self._inputs = {value.name: value for value in self.graph.input}
        infos = (*self.graph.input, *self.graph.value_info, *self.graph.output)
        self._infos = {value.name: value for value in infos}
        self._ancestors: dict[int, frozenset[int]] = {}
        outputs = [value.name for value in self.graph.output]
        self._results = dict(zip(outputs, results, strict=True)) if len(outputs) == len(results) else {}

    @property
    def graph(self) -> onnx.GraphProto:
        """The model's own graph."""
        return self.proto.graph

    @cached_property
    def marks(self) -> tuple[Mark, ...]:
        """The values that the captured graph has too, in the order in which they are made."""
        varying = self._varying()
        found: list[Mark] = []
        held = {name: _keys(info) for name, info in self._infos.items()}
        known = {key for keys in held.values() for key in keys}
        for name, keys in held.items():
            if (result := self._results.get(name)) and result not in known:
                keys.append(result)
            order = self._makers.get(name, -1)
            for rank, key in enumerate(keys):
                found.append(Mark(name, key, order, name in varying, rank, keys[rank - 1] if rank else ""))
        return tuple(sorted(found, key=lambda mark: mark.position))

    def constant(self, name: str) -> np.ndarray | None:
        """The values of a constant that is in the file itself; None for any other value."""
        tensor = self._initializers.get(name)
        if tensor is None or tensor.data_location == tensor.EXTERNAL:
            return None
        return onnx.numpy_helper.to_array(tensor)

    def copy_of(self, value: str) -> onnx.ModelProto:
        """A model of one node, which passes the value on as `<value>.made`."""
        model = self._empty()
        model.graph.node.add(op_type="Identity", input=[value], output=[value + MADE], name=value)
        model.graph.input.append(_loose(self._infos[value]))
        made = model.graph.output.add()
        made.CopyFrom(_loose(self._infos[value]))
        made.name = value + MADE
        return model

    def before(self, value: str) -> frozenset[int]:
        """The numbers of all nodes that take part in making a value."""
        start = self._makers.get(value)
        if start is None:
            return frozenset()
        if start not in self._ancestors:
            self._ancestors[start] = frozenset(self._slice([value], frozenset()))
        return self._ancestors[start]

    def leading_to(self, outputs: Collection[str]) -> Collection[str]:
        """The values that these outputs of the model are made of, with themselves; of all where it has none of them."""
        own = [value.name for value in self.graph.output]
        wanted = [name for name in own if name in outputs] or own
        numbers = self._slice(wanted, frozenset())
        made = {name for number in numbers for name in self.graph.node[number].output}
        return made.union(wanted, *(self._reads[number] for number in numbers))

    def group(self, value: str, cuts: Collection[str]) -> list[onnx.NodeProto]:
        """The nodes that make a value of the cut ones before it."""
        return [self.graph.node[i] for i in sorted(self._slice([value], frozenset(cuts) - {value}))]

    def feeds(self, values: Iterable[str], cuts: Collection[str]) -> tuple[str, ...]:
        """The cut values that the nodes which make these values read."""
        held = frozenset(cuts)
        return tuple(sorted({n for i in self._slice(values, held, inside=True) for n in self._reads[i] if n in held}))

    def with_outputs(self, values: Collection[str]) -> onnx.ModelProto:
        """The part of the model that makes these values, as its outputs."""
        return self._built(values, frozenset())

    def apart(self, values: Collection[str], cuts: Collection[str]) -> onnx.ModelProto:
        """A model that makes each of these values of the cut ones before it: those are inputs, and the outputs are
        called `<value>.made`."""
        return self._built(values, frozenset(cuts))

    def reads(self, number: int) -> tuple[str, ...]:
        """Return the names that a node reads, including those that its bodies take from the enclosing graph."""
        return self._reads[number]

    def leaving(self, numbers: Collection[int]) -> list[str]:
        """The values that these nodes make for others, or for the graph's outputs, in order."""
        inside, outputs = frozenset(numbers), {value.name for value in self.graph.output}
        read = {name for i, reads in enumerate(self._reads) if i not in inside for name in reads}
        made = [name for number in sorted(inside) for name in self.graph.node[number].output]
        return [name for name in made if name in read or name in outputs]

    def of_nodes(
        self, numbers: Collection[int], outputs: Collection[str], *, declared: bool = False
    ) -> onnx.ModelProto:
        """A model of these nodes alone: what they read and do not make are its inputs.

        With `declared`, they have the sizes that the file says. Raises KeyError for outputs that it does not describe.
        """
        described = _same if declared else _loose
        made = {name for number in numbers for name in self.graph.node[number].output}
        read = {name for number in numbers for name in self._reads[number]}
        model = self._empty()
        model.graph.node.extend(self.graph.node[number] for number in sorted(numbers))
        fed = sorted(read - made - self._initializers.keys() - self._sparse.keys())
        model.graph.input.extend(described(self._infos[name]) for name in fed if name in self._infos)
        model.graph.initializer.extend(self._initializers[name] for name in sorted(read & self._initializers.keys()))
        model.graph.sparse_initializer.extend(self._sparse[name] for name in sorted(read & self._sparse.keys()))
        model.graph.output.extend(described(self._infos[name]) for name in outputs)
        return model

    def _empty(self) -> onnx.ModelProto:
        """A model without nodes, of the same versions, functions and metadata."""
        model = onnx.ModelProto(ir_version=self.proto.ir_version, producer_name=self.proto.producer_name)
        model.opset_import.extend(self.proto.opset_import)
        model.functions.extend(self.proto.functions)
        model.metadata_props.extend(self.proto.metadata_props)
        model.graph.name = self.graph.name or "model"
        return model

    def _varying(self) -> frozenset[str]:
        found = set(self._inputs) - set(self._initializers)
        for node, reads in zip(self.graph.node, self._reads, strict=True):
            if any(name in found for name in reads):
                found.update(node.output)
        return frozenset(found)

    def _slice(self, values: Iterable[str], cuts: frozenset[str], *, inside: bool = False) -> set[int]:
        """Numbers of the nodes behind values, back to the cuts. The values asked for are made even where cut."""
        wanted = [self._makers[name] for name in values if name in self._makers]
        found: set[int] = set()
        while wanted:
            number = wanted.pop()
            if number in found:
                continue
            found.add(number)
            wanted += [self._makers[n] for n in self._reads[number] if n in self._makers and n not in cuts]
        return found

    def _built(self, values: Collection[str], cuts: frozenset[str]) -> onnx.ModelProto:
        numbers = sorted(self._slice(values, cuts))
        reads = {name for number in numbers for name in self._reads[number]}
        model = self._empty()
        graph = model.graph
        fed = [self._infos[name] for name in sorted(reads & cuts)]
        fed += [value for name, value in self._inputs.items() if name in reads and name not in cuts]
        graph.input.extend(_loose(value) if value.name in cuts else value for value in fed)
        for number in numbers:
            node = graph.node.add()
            node.CopyFrom(self.graph.node[number])
            for index, name in enumerate(node.output):
                if name in cuts:
                    node.output[index] = name + MADE
        graph.initializer.extend(self._initializers[name] for name in reads if name in self._initializers)
        graph.sparse_initializer.extend(self._sparse[name] for name in reads if name in self._sparse)
        for name in values:
            info = graph.output.add()
            info.CopyFrom(_loose(self._infos[name]))
            info.name = name + MADE if name in cuts else name
        made = {name for number in numbers for name in self.graph.node[number].output} - cuts - set(values)
        graph.value_info.extend(value for value in self.graph.value_info if value.name in made)
        return model


def _keys(info: onnx.ValueInfoProto) -> list[str]:
    return next((entry.value.split() for entry in info.metadata_props if entry.key == VALUE_KEY), [])


def _same(info: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    return info


def _loose(info: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """The value with its rank, but without sizes: what runs is what is, not what was declared."""
    loose = onnx.ValueInfoProto(name=info.name)
    loose.type.CopyFrom(info.type)
    for dim in loose.type.tensor_type.shape.dim:
        dim.Clear()
    return loose


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that a node reads, including those that its bodies take from the enclosing graph."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            for inner in graph.node:
                yield from _reads(inner)
            yield from (value.name for value in graph.output)


@contextmanager
def scratch(model: Path, external: Collection[str]) -> Iterator[Path]:
    """A folder for models that refer to the same external files as `model`, removed afterwards.

    It lies beside the model, where hard links are possible; elsewhere, with copies, where nothing can be written.
    """
    with ExitStack() as stack:
        try:
            outer = stack.enter_context(draft_folder(model.parent))
        except OSError:
            outer = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fxport.")))
        folder = outer / MODELS
        folder.mkdir()
        for location in external:
            target = folder / location
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                link_or_copy(model.parent / location, target)
        yield folder


def link_or_copy(source: Path, target: Path) -> None:
    """The same file under another name, or a copy where the file system has no such links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
