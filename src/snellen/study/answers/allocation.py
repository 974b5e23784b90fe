"""Which group the next participant is put into.

Groups are filled in blocks: a block holds every group once, in an order drawn from the protocol's seed. The next participant
gets a group with the fewest participants who count, and of several such groups the first in the order of the block that is
being filled. Participants who have finished or are active count. Those who withdrew, were erased, or answered nothing for
`abandoned` minutes do not count; who continues after that counts again.

So without drop-out these are permuted blocks, of which every prefix is balanced to one participant, and with drop-out
the groups of those who finish stay balanced. Real and simulated participants fill blocks of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from snellen.study.protocol import Protocol
from snellen.types import Rng


def next_group(protocol: Protocol, counting: Mapping[int, int], *, simulated: bool) -> int:
    """The group of the next participant, where so many of each group count already."""
    groups = range(len(protocol.groups))
    block = min(counting.get(group, 0) for group in groups)
    draw = Rng(protocol.seed, ()).shared(f"study/{'simulated' if simulated else 'real'}/block {block}")
    return next(int(group) for group in draw.permutation(len(groups)) if counting.get(int(group), 0) == block)
