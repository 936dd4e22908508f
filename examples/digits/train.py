"""Train the demo network and write `model.onnx` and `digits.npz` beside this file.

Data: scikit-learn's handwritten digits, 8x8 upsampled bilinearly to 32x32 uint8.
Network: a residual depthwise-separable CNN over raw pixels (float, 0..255), batch normalization left in as nodes:

    stem -> separable /2 -> residual -> separable /2 -> residual -> separable /2 -> global average -> Gemm -> Softmax

Everything is seeded and single-threaded; the last epoch is exported, so the held-out images choose nothing.
Needs torch and scikit-learn (see README.md); npuc itself needs neither.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

HERE = Path(__file__).parent
SIDE = 32
CLASSES = 10
HELD_OUT = 450
CALIBRATION = 128
EPOCHS = 60
BATCH = 64
SEED = 0
STEM_CHANNELS = 24
OPSET = 13


@dataclass(frozen=True)
class Stage:
    """Depthwise 3x3 with `stride`, then pointwise to `channels`; the input is added back if `is_residual`."""

    name: str
    channels: int
    stride: int = 1
    is_residual: bool = False


STAGES = (
    Stage("stage1", 48, stride=2),
    Stage("residual1", 48, is_residual=True),
    Stage("stage2", 96, stride=2),
    Stage("residual2", 96, is_residual=True),
    Stage("stage3", 128, stride=2),
)


# Data -----------------------------------------------------------------------------------------------------------------


def upsample_bilinear(images: np.ndarray, side: int) -> np.ndarray:
    """Resize square images [n,s,s] to [n,side,side] with half-pixel centers, edges replicated."""
    source = images.shape[-1]
    center = np.clip((np.arange(side) + 0.5) * source / side - 0.5, 0, source - 1)
    low = np.minimum(center.astype(np.int64), source - 2)
    weight = np.zeros((side, source))
    rows = np.arange(side)
    weight[rows, low] = 1 - (center - low)
    weight[rows, low + 1] = center - low
    return weight @ images @ weight.T


@dataclass(frozen=True)
class Data:
    """uint8 images [n,32,32] and their labels [n]."""

    train: np.ndarray
    train_y: np.ndarray
    test: np.ndarray
    test_y: np.ndarray


def load_data() -> Data:
    """Split the 1,797 digits, stratified by label, into a training part and 450 held-out images."""
    digits = load_digits()
    images = np.rint(upsample_bilinear(digits.images, SIDE) * (255 / 16)).astype(np.uint8)
    train, test, train_y, test_y = train_test_split(
        images, digits.target.astype(np.int64), test_size=HELD_OUT, random_state=SEED, stratify=digits.target
    )
    return Data(train, train_y, test, test_y)


# Network --------------------------------------------------------------------------------------------------------------


class Separable(nn.Module):
    """relu(bn(depthwise)) then relu(bn(pointwise) [+ input])."""

    def __init__(self, cin: int, stage: Stage) -> None:
        super().__init__()
        self.stage = stage
        self.depthwise = nn.Conv2d(cin, cin, 3, stage.stride, padding=1, groups=cin, bias=False)
        self.depthwise_bn = nn.BatchNorm2d(cin)
        self.pointwise = nn.Conv2d(cin, stage.channels, 1, bias=False)
        self.pointwise_bn = nn.BatchNorm2d(stage.channels)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.depthwise_bn(self.depthwise(x)))
        y = self.pointwise_bn(self.pointwise(y))
        return F.relu(y + x if self.stage.is_residual else y)


class Network(nn.Module):
    """Pixels 0..1 [n,1,32,32] -> logits [n,10]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, STEM_CHANNELS, 3, padding=1, bias=False)
        self.stem_bn = nn.BatchNorm2d(STEM_CHANNELS)
        inputs = (STEM_CHANNELS, *(stage.channels for stage in STAGES))
        self.stages = nn.ModuleList(Separable(cin, stage) for cin, stage in zip(inputs, STAGES, strict=False))
        self.head = nn.Linear(STAGES[-1].channels, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem_bn(self.stem(x)))
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean(dim=(2, 3)))


def augment(x: Tensor, generator: torch.Generator) -> Tensor:
    """Rotate by up to 10 degrees, scale by up to 10 %, shift by up to 2 pixels; each image its own draw."""
    draw = torch.rand((4, len(x)), generator=generator) * 2 - 1
    angle, scale = draw[0] * (10 * torch.pi / 180), 1 + 0.1 * draw[1]
    shift = draw[2:] * (2 * 2 / SIDE)
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    theta = torch.stack([torch.stack([cos, -sin, shift[0]], 1), torch.stack([sin, cos, shift[1]], 1)], 1)
    return F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False)


def train(data: Data) -> Network:
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    generator = torch.Generator().manual_seed(SEED)
    x = torch.from_numpy(data.train).float()[:, None] / 255
    y = torch.from_numpy(data.train_y)
    network = Network()
    optimizer = torch.optim.AdamW(network.parameters(), lr=4e-3, weight_decay=1e-2)
    steps = EPOCHS * (len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    for epoch in range(EPOCHS):
        order = torch.randperm(len(x), generator=generator)
        for batch in order[: len(x) // BATCH * BATCH].split(BATCH):
            loss = F.cross_entropy(network(augment(x[batch], generator)), y[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch + 1:2}/{EPOCHS}  loss {loss.item():.4f}")
    return network.eval()


# Export ---------------------------------------------------------------------------------------------------------------


@dataclass
class OnnxWriter:
    """Appends nodes in order; every method takes and returns the name of a value."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def node(self, op: str, name: str, *inputs: str, output: str | None = None, **attributes: object) -> str:
        result = output or f"{name}_out"
        self.nodes.append(helper.make_node(op, [*inputs], [result], name=name, **attributes))
        return result

    def constant(self, name: str, value: Tensor) -> str:
        self.constants.append(numpy_helper.from_array(value.detach().numpy().astype(np.float32), name))
        return name

    def conv_bn(self, name: str, x: str, conv: nn.Conv2d, bn: nn.BatchNorm2d, gain: float = 1.0) -> str:
        """Convolution then batch normalization; `gain` is folded into the weights."""
        pad = conv.padding[0]
        y = self.node(
            "Conv", f"{name}/conv", x, self.constant(f"{name}.weight", conv.weight * gain), group=conv.groups,
            kernel_shape=conv.kernel_size, strides=conv.stride, pads=[pad] * 4, dilations=[1, 1],
        )  # fmt: skip
        parameters = {"scale": bn.weight, "bias": bn.bias, "mean": bn.running_mean, "var": bn.running_var}
        names = [self.constant(f"{name}.bn.{key}", value) for key, value in parameters.items()]
        return self.node("BatchNormalization", f"{name}/bn", y, *names, epsilon=bn.eps)

    def separable(self, x: str, stage: Separable) -> str:
        name = stage.stage.name
        y = self.conv_bn(f"{name}/depthwise", x, stage.depthwise, stage.depthwise_bn)
        y = self.node("Relu", f"{name}/depthwise/relu", y)
        y = self.conv_bn(f"{name}/pointwise", y, stage.pointwise, stage.pointwise_bn)
        if stage.stage.is_residual:
            y = self.node("Add", f"{name}/add", y, x)
        return self.node("Relu", f"{name}/relu", y)


def export(network: Network) -> onnx.ModelProto:
    """The trained network over pixels 0..255: `image` float [1,1,32,32] -> `probabilities` float [1,10]."""
    writer = OnnxWriter()
    x = writer.conv_bn("stem", "image", network.stem, network.stem_bn, gain=1 / 255)
    x = writer.node("Relu", "stem/relu", x)
    for stage in network.stages:
        x = writer.separable(x, stage)
    x = writer.node("Flatten", "head/flatten", writer.node("GlobalAveragePool", "head/pool", x), axis=1)
    weights = (writer.constant("head.weight", network.head.weight), writer.constant("head.bias", network.head.bias))
    x = writer.node("Gemm", "head/gemm", x, *weights, output="logits", transB=1)
    writer.node("Softmax", "head/softmax", x, output="probabilities", axis=1)
    graph = helper.make_graph(
        writer.nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, SIDE, SIDE])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, CLASSES])],
        writer.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="npuc-examples")
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    return model


def accuracy(network: Network, images: np.ndarray, labels: np.ndarray) -> float:
    with torch.no_grad():
        logits = network(torch.from_numpy(images).float()[:, None] / 255)
    return float((logits.argmax(1).numpy() == labels).mean())


def main() -> None:
    data = load_data()
    network = train(data)
    onnx.save(export(network), HERE / "model.onnx")
    np.savez_compressed(
        HERE / "digits.npz", calib=data.train[:CALIBRATION], x=data.test, y=data.test_y.astype(np.uint8)
    )
    print(f"parameters: {sum(p.numel() for p in network.parameters()):,}")
    print(f"float accuracy on {len(data.test)} held-out images: {accuracy(network, data.test, data.test_y):.2%}")


if __name__ == "__main__":
    main()
