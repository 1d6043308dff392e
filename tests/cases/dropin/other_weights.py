"""A program that lives on after the export: other weights, other names of axes, values inside of it."""

import torch
from torch import nn, onnx

torch.manual_seed(0)


def network():
    return nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3)).eval()


x = torch.randn(2, 2, 10)
model, trained = network(), network()
for each in (model, trained):
    each(x)
trained[1].running_mean.uniform_()

program = onnx.export(model, (x,), input_names=["x"], dynamic_shapes=({0: "n"},))
torch.testing.assert_close(program(x)[0], model(x))
program.release()
program.apply_weights(trained.state_dict())
program.rename_axes({program.model.graph.inputs[0].shape[0]: "batch"})
program.optimize()
program.initialize_inference_session()
torch.testing.assert_close(program(x)[0], trained(x))
(inner,) = program.compute_values([program.model.graph.outputs[0].name], (x,))
torch.testing.assert_close(inner, trained(x))
assert "batch" in str(program.model.graph.inputs[0].shape)
assert program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
torch.testing.assert_close(program.exported_program.module()(x), model(x))
program.save("trained.onnx", include_initializers=True, keep_initializers_as_inputs=False, external_data=False)

x = torch.randn(5, 2, 10)
written = "trained.onnx"
feeds = {"x": x}
expected = [trained(x)]
