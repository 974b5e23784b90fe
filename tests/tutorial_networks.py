"""Networks as popular tutorials write them, small: each flattens with `.view` after a convolution, or with `.reshape`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class View(nn.Module):
    """`x.view(-1, features)`, the line that most tutorials have."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features

    def forward(self, x: Tensor) -> Tensor:
        return x.view(-1, self.features)


class Reshape(View):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(-1, self.features)


class LeNet(nn.Module):
    """The network of PyTorch's 60-minute blitz: two convolutions with pooling, three linear layers."""

    shape = (3, 32, 32)

    def __init__(self, flat: type[View]) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.flat = flat(16 * 5 * 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(16 * 5 * 5, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(functional.relu(self.conv1(x)))
        x = self.pool(functional.relu(self.conv2(x)))
        x = functional.relu(self.fc1(self.flat(x)))
        return self.fc3(functional.relu(self.fc2(x)))


class Mnist(nn.Module):
    """The network of PyTorch's MNIST example: grey pictures, dropout, and log-probabilities as outputs."""

    shape = (1, 28, 28)

    def __init__(self, flat: type[View]) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5)
        self.drop = nn.Dropout2d()
        self.flat = flat(320)
        self.fc1, self.fc2 = nn.Linear(320, 50), nn.Linear(50, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
        x = functional.relu(functional.max_pool2d(self.drop(self.conv2(x)), 2))
        x = functional.dropout(functional.relu(self.fc1(self.flat(x))), training=self.training)
        return functional.log_softmax(self.fc2(x), dim=1)


class SmallVgg(nn.Module):
    """Pairs of convolutions with batch normalisation and in-place rectifiers, as in courses on CIFAR-10."""

    shape = (3, 32, 32)

    def __init__(self, flat: type[View]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inside, outside in ((3, 8), (8, 16), (16, 16)):
            layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(inplace=True)]
            layers += [nn.MaxPool2d(2)]
        self.features = nn.Sequential(*layers)
        self.flat = flat(16 * 4 * 4)
        self.classifier = nn.Sequential(nn.Dropout(), nn.Linear(16 * 4 * 4, 32), nn.ReLU(inplace=True), nn.Linear(32, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.flat(self.features(x)))


class Transfer(nn.Module):
    """A residual backbone with a new head for two classes, as in tutorials on transfer learning."""

    shape = (3, 32, 32)

    def __init__(self, flat: type[View]) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.conv1 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.avgpool = nn.AvgPool2d(8)
        self.flat = flat(8 * 2 * 2)
        self.fc = nn.Linear(8 * 2 * 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.relu(x + self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))
        return self.fc(self.flat(self.avgpool(x)))


TUTORIALS: dict[str, type[nn.Module]] = {"lenet": LeNet, "mnist": Mnist, "vgg": SmallVgg, "transfer": Transfer}


def tutorial(name: str, flat: type[View] = View) -> nn.Module:
    """The network with fixed random weights, in evaluation mode."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        net = TUTORIALS[name](flat)
    return net.eval()
