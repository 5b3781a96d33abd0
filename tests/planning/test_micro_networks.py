"""Networks as TFLite Micro runs them: their layers are those published, and overlap lowers their peaks."""

from __future__ import annotations

import pytest

import memplan
from builders.micro_layers import Layers
from builders.micro_networks import NETWORKS, build

PLACE = ("input", "intermediate", "output", "workspace")
PEAKS = {  # plain, by rows, by pixels
    "MobileNet v1 0.25, 96": (55_296, 37_256, 36_888),
    "MobileNet v1 0.25, 128": (98_304, 66_056, 65_560),
    "MobileNet v1 1.0, 224": (1_204_224, 806_432, 802_912),
    "MobileNet v2 0.35, 96": (138_240, 111_752, 110_648),
}
PUBLISHED = {  # parameters, how many of these are of the norm of a channel, and the last rows and channels
    "MobileNet v1 0.25, 96": (475_544, 4, 3, 256),
    "MobileNet v1 1.0, 224": (4_253_864, 4, 7, 1024),
    "MobileNet v2 0.35, 96": (1_691_208, 4, 3, 1280),
    "MobileNet v2 1.0, 224": (3_538_984, 4, 7, 1280),
    "Inception v4, 299": (42_679_816, 2, 8, 1536),
    "Inception-ResNet v2, 299": (55_873_736, 3, 8, 1536),
    "NASNet mobile, 224": (5_326_716, 4, 7, 1056),
    "DenseNet-121, 224": (8_062_504, 4, 7, 1024),
    "ResNet-50 v2, 224": (25_613_800, 4, 7, 2048),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_layers_have_as_many_parameters_as_published(name: str) -> None:
    """Those of Keras; of Inception v4, those that are trained in timm's."""
    parameters, per_channel, rows, channels = PUBLISHED[name]
    size, network = NETWORKS[name]
    net = Layers(size)
    last = network(net)
    assert net.shape(last) == (rows, rows, channels)
    net.classify(last)
    assert net.weights + per_channel * net.normalised == parameters


@pytest.mark.parametrize("name", PEAKS)
def test_overlap_lowers_peaks(name: str) -> None:
    for grain, peak in zip(("whole", "rows", "pixels"), PEAKS[name], strict=True):
        plan = memplan.plan(build(name, grain), place=PLACE)
        assert (plan.peak, plan.optimal) == (peak, True)
