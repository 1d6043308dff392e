"""One rank's model with collectives: ONNX Runtime runs what lies between them, and a function of the caller's them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import onnx

from fxport.ort_runner.cuts import Cuts, scratch
from fxport.ort_runner.providers import AUTO
from fxport.ort_runner.session import run_session, session_on

if TYPE_CHECKING:
    import onnxruntime

DOMAIN = "torch.distributed"
"""The domain of collectives: nodes with one input and one output, and the attribute `ranks`."""

Communicate = Callable[[str, np.ndarray, Mapping[str, Any]], np.ndarray]
"""Carries a collective out: its operator ("AllReduce"), this rank's array, the node's attributes → this rank's result.

`fxport.exporter.distributed.collectives.communicate` does so by torch.distributed.
"""


@dataclass(frozen=True, slots=True)
class Segment:
    """Nodes between collectives: their numbers in the file, and the values that others need of them."""

    nodes: tuple[int, ...]
    outputs: tuple[str, ...]


class RankSession:
    """The session of one rank. All ranks that share a collective must run at the same time.

    The segments lie in a folder beside the model until the session is closed; weights are linked, not copied. `steps`
    are the segments and the collectives between them.
    """

    def __init__(
        self, model: str | os.PathLike[str], communicate: Communicate, provider: str = AUTO, threads: int = 0
    ) -> None:
        """Raises ValueError for a file that is no model or has a collective in a body, and as `session_on` does."""
        path = Path(model)
        self._cuts, self._communicate, self._provider = Cuts(path), communicate, provider
        self.steps = steps_of(self._cuts)
        self.outputs = [value.name for value in self._cuts.graph.output]
        self._resources = ExitStack()
        try:
            folder = self._resources.enter_context(scratch(path, _external(self._cuts.graph)))
            self._sessions = {
                index: self._opened(step, folder / f"{index}.onnx", threads)
                for index, step in enumerate(self.steps)
                if isinstance(step, Segment)
            }
        except BaseException:
            self._resources.close()
            raise

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The model's outputs by name. Raises KeyError for an input that is missing, and Failure."""
        values = dict(inputs)
        for index, step in enumerate(self.steps):
            if isinstance(step, Segment):
                session = self._sessions[index]
                fed = {each.name: values[each.name] for each in session.get_inputs()}
                values |= run_session(session, fed, self._provider)
            else:
                attributes = {each.name: _plain(each) for each in step.attribute}
                values[step.output[0]] = self._communicate(step.op_type, values[step.input[0]], attributes)
        return {name: values[name] for name in self.outputs}

    def _opened(self, segment: Segment, path: Path, threads: int) -> onnxruntime.InferenceSession:
        onnx.save(self._cuts.of_nodes(segment.nodes, segment.outputs), path)
        return session_on(self._provider, path, threads=threads)[0]

    def close(self) -> None:
        """Ends the sessions, and removes the segments."""
        self._sessions.clear()
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def steps_of(cuts: Cuts) -> list[Segment | onnx.NodeProto]:
    """Segments and collectives in an order in which each finds what it reads.

    A node stands in the first segment after all collectives that it depends on; so all ranks of one model come to the
    collectives in one order.
    """
    graph = cuts.graph
    if any(node.domain == DOMAIN for outer in graph.node for node in _inner(outer)):
        raise ValueError("a collective stands in a body of control flow, where the ranks could part ways")
    made_in: dict[str, int] = {}
    members: dict[int, list[int]] = {}
    collectives: dict[int, list[onnx.NodeProto]] = {}
    for number, node in enumerate(graph.node):
        depth = max((made_in.get(name, 0) for name in cuts.reads(number)), default=0)
        if node.domain == DOMAIN:
            collectives.setdefault(depth, []).append(node)
            depth += 1
        else:
            members.setdefault(depth, []).append(number)
        made_in.update(dict.fromkeys(node.output, depth))
    needed = {value.name for value in graph.output} | {node.input[0] for each in collectives.values() for node in each}
    for depth, numbers in members.items():
        needed |= {name for number in numbers for name in cuts.reads(number) if made_in.get(name, depth) < depth}
    steps: list[Segment | onnx.NodeProto] = []
    for depth in range(max([*members, *collectives], default=-1) + 1):
        numbers = members.get(depth, [])
        outputs = [name for number in numbers for name in graph.node[number].output if name in needed]
        if outputs:
            steps.append(Segment(tuple(numbers), tuple(outputs)))
        steps += collectives.get(depth, [])
    return steps


def _inner(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """All nodes in the bodies of a node."""
    bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return [each for body in bodies for inner in body.node for each in (inner, *_inner(inner))]


def _external(graph: onnx.GraphProto) -> set[str]:
    """The files that initializers lie in, relative to the model."""
    return {entry.value for tensor in graph.initializer for entry in tensor.external_data if entry.key == "location"}


def _plain(attribute: onnx.AttributeProto) -> Any:
    """An attribute's value, with text as text."""
    value = onnx.helper.get_attribute_value(attribute)
    return value.decode() if isinstance(value, bytes) else value
