"""A rule so easy, on scenes so small, that it is learnt in seconds: whether a box is there."""

from __future__ import annotations

from dataclasses import replace

from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.training import Attack, TrainingPlan
from snellen.textbox.scenes.objects import box

TINY = NetworkSpec.of("box", name="tiny", objects=(box("dot", 2), box("box", 7)), side=18)
QUICK = TrainingPlan(batch=64, warm=512, watch=512, most=6000, attempts=2)
AGAINST = replace(QUICK, ramp=1500, rate=2e-3, most=4000, attack=Attack(iterations=4, step=0.15))
