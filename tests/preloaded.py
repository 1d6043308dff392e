"""Import everything that ranks and trials need, in the process that they are forked from, which has no threads."""

import gc

import onnxruntime  # noqa: F401
import torch

import fxport.exporter.distributed.per_rank
import fxport.exporter.pipeline.stages
import fxport.exporter.validation.validated  # noqa: F401
import tests.conformance.suites
import tests.conformance.trial
import tests.distributed.everyday  # noqa: F401

torch.set_num_threads(1)
gc.freeze()  # a collection in a fork would touch, and so copy, the memory of what is here
