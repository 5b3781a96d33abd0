"""NASNet-A mobile, of 4 cells and 1,056 channels (Zoph et al., CVPR 2018), layer by layer."""

from __future__ import annotations

from builders.micro_layers import Layers

_CHANNELS, _CELLS = 44, 4  # of the first normal cells, and their number before and after each reduction


def nasnet_mobile(net: Layers) -> str:
    """Figure 4 there. What is read twice is rectified once, and pooled once."""
    x = net.conv(net.x, 32, 3, 2, valid=True)
    x, before = _reduction(net, x, x, _CHANNELS // 4), x
    x, before = _reduction(net, x, before, _CHANNELS // 2), x
    for times in (1, 2, 4):
        if times > 1:
            x, before = _reduction(net, x, before, _CHANNELS * times), x
        for _ in range(_CELLS):
            x, before = _normal(net, x, before, _CHANNELS * times), x
    return net.relu(x)


def _normal(net: Layers, x: str, before: str, channels: int) -> str:
    p, h = _adjusted(net, before, x, channels), net.conv(net.relu(x), channels)
    a = net.add(_separable(net, h, channels, 5), _separable(net, p, channels, 3))
    b = net.add(_separable(net, p, channels, 5), _separable(net, p, channels, 3))
    c = net.add(net.pool("AVERAGE", h, 3), p)
    d = net.add(net.pool("AVERAGE", p, 3), net.pool("AVERAGE", p, 3))
    return net.concat(p, a, b, c, d, net.add(_separable(net, h, channels, 3), h))


def _reduction(net: Layers, x: str, before: str, channels: int) -> str:
    p = before if before == x else _adjusted(net, before, x, channels)
    h = net.conv(net.relu(x), channels)
    a = net.add(_separable(net, h, channels, 5, 2), _separable(net, p, channels, 7, 2))
    b = net.add(net.pool("MAX", h, 3, 2), _separable(net, p, channels, 7, 2))
    c = net.add(net.pool("AVERAGE", h, 3, 2), _separable(net, p, channels, 5, 2))
    d = net.add(b, net.pool("AVERAGE", a, 3))
    return net.concat(b, c, d, net.add(_separable(net, a, channels, 3), net.pool("MAX", h, 3, 2)))


def _separable(net: Layers, x: str, channels: int, kernel: int, stride: int = 1) -> str:
    """Twice: what is rectified, convolved by channels, and mixed."""
    x = net.conv(net.depthwise(net.relu(x), kernel, stride, norm=0), channels)
    return net.conv(net.depthwise(x, kernel, norm=0), channels)


def _adjusted(net: Layers, before: str, x: str, channels: int) -> str:
    """The cell before the last, as large as the last: every second pixel, and those to the right below them."""
    if net.shape(before)[0] == net.shape(x)[0]:
        same = net.shape(before)[2] == channels
        return before if same else net.conv(net.relu(before), channels)
    active = net.relu(before)
    shifted = net.cut(net.pad(active, 0, 1), 1)
    halves = [
        net.conv(net.pool("AVERAGE", part, 1, 2, valid=True), channels // 2, norm=0) for part in (active, shifted)
    ]
    return net.norm(net.concat(*halves))
