"""Random numbers that depend on a key, a name and a position alone, for many keys (splitmix64; Steele et al. 2014)."""

from __future__ import annotations

import hashlib

import numpy as np
from jaxtyping import Float, Int, UInt16, UInt64

_STEP, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def keys_of(seed: int, indices: Int[np.ndarray, " n"]) -> UInt64[np.ndarray, " n"]:
    """One key per index."""
    return _mix(indices.astype(np.uint64) * _STEP ^ _hash_name(f"scene {seed}"))


def hashed(keys: UInt64[np.ndarray, " n"], name: str, turn: int, count: int) -> UInt64[np.ndarray, "n count"]:
    """`count` numbers of 64 bits for every key; another name or turn gives other numbers."""
    start = _mix(keys ^ _hash_name(f"{name} {turn}"))
    return _mix(start[:, None] + np.arange(1, count + 1, dtype=np.uint64) * _STEP)


def shorts(keys: UInt64[np.ndarray, " n"], name: str, count: int) -> UInt16[np.ndarray, "n count"]:
    """`count` uniform numbers of 16 bits for every key."""
    words = hashed(keys, name, 0, -(-count // 4))
    return words.view(np.uint16).reshape(len(keys), -1)[:, :count]


def fractions(keys: UInt64[np.ndarray, " n"], name: str, count: int) -> Float[np.ndarray, "n count"]:
    """`count` uniform numbers in [0, 1) for every key."""
    return (hashed(keys, name, 0, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(values: UInt64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * _FIRST
        values = (values ^ (values >> np.uint64(27))) * _SECOND
    mixed: np.ndarray = values ^ (values >> np.uint64(31))
    return mixed


def _hash_name(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))
