"""Inception v4 and Inception-ResNet v2 (Szegedy et al., arXiv 1602.07261), layer by layer."""

from __future__ import annotations

from builders.micro_layers import Layers, Size

Layer = tuple[int, Size]  # channels and kernel


def inception_v4(net: Layers) -> str:
    """Figures 3 to 9 there."""
    x = _stem(net)
    for _ in range(4):
        pooled = net.conv(net.pool("AVERAGE", x, 3), 96)
        b = _chain(net, x, (64, 1), (96, 3))
        x = net.concat(net.conv(x, 96), b, _chain(net, x, (64, 1), (96, 3), (96, 3)), pooled)
    a, b = net.conv(x, 384, 3, 2, valid=True), _reduced(net, x, (192, 1), (224, 3), (256, 3))
    x = net.concat(a, b, net.pool("MAX", x, 3, 2, valid=True))
    for _ in range(7):
        b = _chain(net, x, (192, 1), (224, (1, 7)), (256, (7, 1)))
        c = _chain(net, x, (192, 1), (192, (7, 1)), (224, (1, 7)), (224, (7, 1)), (256, (1, 7)))
        x = net.concat(net.conv(x, 384), b, c, net.conv(net.pool("AVERAGE", x, 3), 128))
    a, b = _reduced(net, x, (192, 1), (192, 3)), _reduced(net, x, (256, 1), (256, (1, 7)), (320, (7, 1)), (320, 3))
    x = net.concat(a, b, net.pool("MAX", x, 3, 2, valid=True))
    for _ in range(3):
        b = _both(net, net.conv(x, 384))
        c = _both(net, _chain(net, x, (384, 1), (448, (3, 1)), (512, (1, 3))))
        x = net.concat(net.conv(x, 256), b, c, net.conv(net.pool("AVERAGE", x, 3), 256))
    return x


def inception_resnet_v2(net: Layers) -> str:
    """Figures 10 to 13 and 16 to 19 there, with the stem and the widths of the authors' code.

    Residuals are scaled; converters fold that into the convolution before.
    """
    x = net.conv(net.conv(net.conv(net.x, 32, 3, 2, valid=True), 32, 3, valid=True), 64, 3)
    x = net.conv(net.pool("MAX", x, 3, 2, valid=True), 80, valid=True)
    x = net.pool("MAX", net.conv(x, 192, 3, valid=True), 3, 2, valid=True)
    b, c = _chain(net, x, (48, 1), (64, 5)), _chain(net, x, (64, 1), (96, 3), (96, 3))
    x = net.concat(net.conv(x, 96), b, c, net.conv(net.pool("AVERAGE", x, 3), 64))
    for _ in range(10):
        b, c = _chain(net, x, (32, 1), (32, 3)), _chain(net, x, (32, 1), (48, 3), (64, 3))
        x = net.add(x, net.biased(net.concat(net.conv(x, 32), b, c), 320))
    a, b = net.conv(x, 384, 3, 2, valid=True), _reduced(net, x, (256, 1), (256, 3), (384, 3))
    x = net.concat(a, b, net.pool("MAX", x, 3, 2, valid=True))
    for _ in range(20):
        b = _chain(net, x, (128, 1), (160, (1, 7)), (192, (7, 1)))
        x = net.add(x, net.biased(net.concat(net.conv(x, 192), b), 1088))
    a, b = _reduced(net, x, (256, 1), (384, 3)), _reduced(net, x, (256, 1), (288, 3))
    c = _reduced(net, x, (256, 1), (288, 3), (320, 3))
    x = net.concat(a, b, c, net.pool("MAX", x, 3, 2, valid=True))
    for _ in range(10):
        b = _chain(net, x, (192, 1), (224, (1, 3)), (256, (3, 1)))
        x = net.add(x, net.biased(net.concat(net.conv(x, 192), b), 2080))
    return net.conv(x, 1536)


def _stem(net: Layers) -> str:
    x = net.conv(net.conv(net.conv(net.x, 32, 3, 2, valid=True), 32, 3, valid=True), 64, 3)
    x = net.concat(net.pool("MAX", x, 3, 2, valid=True), net.conv(x, 96, 3, 2, valid=True))
    a = net.conv(net.conv(x, 64), 96, 3, valid=True)
    b = net.conv(_chain(net, x, (64, 1), (64, (1, 7)), (64, (7, 1))), 96, 3, valid=True)
    x = net.concat(a, b)
    return net.concat(net.conv(x, 192, 3, 2, valid=True), net.pool("MAX", x, 3, 2, valid=True))


def _chain(net: Layers, x: str, *layers: Layer) -> str:
    """Convolutions that keep rows and columns."""
    for channels, kernel in layers:
        x = net.conv(x, channels, kernel)
    return x


def _reduced(net: Layers, x: str, *layers: Layer) -> str:
    """The same, but for the last, which halves them."""
    channels, kernel = layers[-1]
    return net.conv(_chain(net, x, *layers[:-1]), channels, kernel, 2, valid=True)


def _both(net: Layers, x: str) -> str:
    """Side by side, a row of a kernel and a column."""
    return net.concat(net.conv(x, 256, (1, 3)), net.conv(x, 256, (3, 1)))
