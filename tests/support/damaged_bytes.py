"""A file's bytes, damaged at random places: what disks, cuts of power and other programs leave."""

import random
import struct

WORDS = (0, 1, 2, -1, -2, 4, 5, 127, 999, 1000, 2**16, 2**24, 2**31 - 1, -(2**31))


def damaged(data: bytes, dice: random.Random) -> bytes:
    """Change bytes and words, cut, repeat, remove or insert; at least one byte is left."""
    changed = bytearray(data)
    for _ in range(dice.choice([1, 1, 2, 5])):
        at = dice.randrange(len(changed) + 1)
        at &= dice.choice([-1, -4])
        n_bytes = dice.choice([1, 4, 20, 4096])
        match dice.randrange(6):
            case 0:
                changed[at : at + 1] = dice.randbytes(1)
            case 1:
                changed[at : at + 4] = struct.pack("<i", dice.choice(WORDS))
            case 2:
                del changed[at : at + n_bytes]
            case 3:
                changed[at:at] = dice.randbytes(n_bytes)
            case 4:
                changed[at:at] = changed[at : at + n_bytes]
            case 5:
                del changed[at:]
        changed = changed or bytearray(b"\0")
    return bytes(changed)
