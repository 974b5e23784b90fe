"""A rule so easy, on scenes so small, that it is learnt in seconds: whether a box is there."""

from __future__ import annotations

from dataclasses import replace

from snellen.textbox.networks.training import Attack, Course
from snellen.textbox.scenes.reasoning import Reasoning
from snellen.textbox.scenes.things import box

TINY = Reasoning.of("box", name="tiny", things=(box("dot", 2), box("box", 7)), side=18)
QUICK = Course(batch=64, warm=512, watch=512, most=6000, attempts=2)
AGAINST = replace(QUICK, ramp=1500, rate=2e-3, most=4000, attack=Attack(iterations=4, step=0.15))
