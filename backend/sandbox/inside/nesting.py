"""Measures the nesting of JSON text without parsing it, in linear time."""

from __future__ import annotations

_PIECE_BYTES = 64 * 1024
_OPENS, _CLOSES = b"[{", b"]}"
# The running sum of these signed bytes is the depth.
_AS_STEPS = bytes.maketrans(_OPENS + _CLOSES, b"\x01\x01\xff\xff")
_OTHERS = bytes(set(range(256)) - set(_OPENS + _CLOSES))


def deeper_than(text: bytes, levels: int) -> bool:
    """Returns whether arrays and objects are nested more than `levels` deep in JSON text, which may be malformed."""
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    import re
    from itertools import accumulate

    # Without escaped characters every quote begins or ends a string; one that is not closed reaches to the end.
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = re.sub(rb'"[^"]*+"?+', b"", unescaped).translate(_AS_STEPS, _OTHERS)
    depth = 0
    # In pieces, because one call over all of it would block other threads.
    for start in range(0, len(brackets), _PIECE_BYTES):
        depths = list(accumulate(memoryview(brackets)[start : start + _PIECE_BYTES].cast("b"), initial=depth))
        if max(depths) > levels:
            return True
        depth = depths[-1]
    return False
