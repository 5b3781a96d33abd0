"""Eleven networks as TFLite Micro runs them, from their published layers, with the padding of TensorFlow's models.

`build(name, grain)` gives the network as a graph dict; `NETWORKS` has their names. Those of many branches are in
`micro_inception.py` and `micro_nasnet.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from builders.micro_inception import inception_resnet_v2, inception_v4
from builders.micro_layers import Layers
from builders.micro_nasnet import nasnet_mobile
from builders.mobilenet import BLOCKS, rounded


def mobilenet_v1(net: Layers, width: float = 1.0) -> str:
    """Howard et al., arXiv 1704.04861, table 1."""
    x = net.conv(net.x, int(32 * width), 3, 2)
    for channels, stride in (
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        *[(512, 1)] * 5,
        (1024, 2),
        (1024, 1),
    ):
        x = net.conv(net.depthwise(x, 3, stride), int(channels * width))
    return x


def mobilenet_v2(net: Layers, width: float = 1.0) -> str:
    """Sandler et al., CVPR 2018, table 2."""
    x = net.conv(net.x, rounded(32 * width), 3, 2)
    for expansion, channels, repeats, stride in BLOCKS:
        for repeat in range(repeats):
            before, given, made = x, net.shape(x)[2], rounded(channels * width)
            if expansion != 1:
                x = net.conv(x, given * expansion)
            x = net.conv(net.depthwise(x, 3, stride if repeat == 0 else 1), made)
            if repeat > 0 and given == made:
                x = net.add(x, before)
    return net.conv(x, rounded(1280 * max(width, 1.0)))


def resnet_v2_50(net: Layers) -> str:
    """He et al., ECCV 2016, in its version of 50 layers: norms before convolutions; strides at the end of a block."""
    x = net.pool("MAX", net.biased(net.pad(net.x, 3, 3), 64, 7, 2, valid=True), 3, 2)
    for channels, units, stride in ((64, 3, 2), (128, 4, 2), (256, 6, 2), (512, 3, 1)):
        for unit in range(units):
            step = stride if unit == units - 1 else 1
            active = net.norm(x)
            if unit == 0:
                shortcut = net.biased(active, 4 * channels, 1, step)
            else:
                shortcut = net.pool("MAX", x, 1, step) if step > 1 else x
            inner = net.conv(active, channels)
            inner = (
                net.conv(inner, channels, 3) if step == 1 else net.conv(net.pad(inner, 1, 1), channels, 3, step, True)
            )
            x = net.add(net.biased(inner, 4 * channels), shortcut)
    return net.norm(x)


def densenet_121(net: Layers) -> str:
    """Huang et al., CVPR 2017, table 1."""
    x = net.conv(net.pad(net.x, 3, 3), 64, 7, 2, valid=True)
    x = net.pool("MAX", net.pad(x, 1, 1), 3, 2, valid=True)
    for block, layers in enumerate((6, 12, 24, 16)):
        if block > 0:
            x = net.pool("AVERAGE", net.conv(net.norm(x), net.shape(x)[2] // 2, norm=0), 2, 2)
        for _ in range(layers):
            x = net.concat(x, net.conv(net.conv(net.norm(x), 128), 32, 3, norm=0))
    return net.norm(x)


Network = Callable[[Layers], str]
NETWORKS: dict[str, tuple[int, Network]] = {  # rows of the picture, and what is made of it
    "MobileNet v1 0.25, 96": (96, partial(mobilenet_v1, width=0.25)),
    "MobileNet v1 0.25, 128": (128, partial(mobilenet_v1, width=0.25)),
    "MobileNet v1 1.0, 224": (224, mobilenet_v1),
    "MobileNet v2 0.35, 96": (96, partial(mobilenet_v2, width=0.35)),
    "MobileNet v2 0.35, 224": (224, partial(mobilenet_v2, width=0.35)),
    "MobileNet v2 1.0, 224": (224, mobilenet_v2),
    "Inception v4, 299": (299, inception_v4),
    "Inception-ResNet v2, 299": (299, inception_resnet_v2),
    "NASNet mobile, 224": (224, nasnet_mobile),
    "DenseNet-121, 224": (224, densenet_121),
    "ResNet-50 v2, 224": (224, resnet_v2_50),
}


def build(name: str, grain: str = "pixels") -> dict[str, Any]:
    """A network of the list as a graph dict. Its ops run in order by `grain`, as for `Layers`."""
    rows, network = NETWORKS[name]
    net = Layers(rows, grain=grain)
    return net.classify(network(net))
