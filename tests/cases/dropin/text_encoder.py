"""An encoder of texts with keyword arguments and two dynamic dimensions."""

import torch
from torch import nn, onnx

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self, vocabulary=50, width=16) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.pooler = nn.Linear(width, width)

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        x = self.tokens(input_ids)
        hidden = self.encoder(x, src_key_padding_mask=attention_mask == 0)
        return {"last_hidden_state": hidden, "pooler_output": torch.tanh(self.pooler(hidden[:, 0]))}


model = Encoder().eval()
ids = torch.randint(0, 50, (2, 7))
mask = torch.ones(2, 7, dtype=torch.int64)
mask[1, 5:] = 0

program = onnx.export(
    model,
    (),
    kwargs={"input_ids": ids, "attention_mask": mask},
    dynamic_shapes={
        "input_ids": {0: "batch", 1: "sequence"},
        "attention_mask": {0: "batch", 1: "sequence"},
    },
    input_names=["input_ids", "attention_mask"],
    output_names=["last_hidden_state", "pooler_output"],
)
program.save("encoder.onnx")

ids, mask = torch.randint(0, 50, (3, 9)), torch.ones(3, 9, dtype=torch.int64)
mask[0, 4:] = 0
written = "encoder.onnx"
feeds = {"input_ids": ids, "attention_mask": mask}
expected = [*model(ids, mask).values()]
