"""A QR code of up to 84 bytes: version 5, error correction M, mask 0 (ISO/IEC 18004).

Enough for a digest on a printed page. A text of another length has the same size, so that two
sheets lie on each other.
"""

from __future__ import annotations

from collections.abc import Iterator

SIDE, DATA, CHECKS, BLOCKS = 37, 86, 24, 2
LONGEST = DATA - 2
_FORMAT = 0b101010000010010
"""Level M with mask 0, after its own error correction and mask."""
_POLYNOMIAL = 0x11D
_FINDERS = ((3, 3), (3, SIDE - 4), (SIDE - 4, 3))
_ALIGNMENT = (SIDE - 7, SIDE - 7)

Modules = list[list[bool]]


def qr_code(text: str) -> Modules:
    """Rows of modules, True for black; without the white margin of four."""
    content = text.encode()
    if len(content) > LONGEST:
        raise ValueError(f"a QR code of version 5 holds {LONGEST} bytes, not {len(content)}")
    fixed = _fixed()
    bits = _bits(_codewords(content))
    modules = [[fixed.get((y, x), False) for x in range(SIDE)] for y in range(SIDE)]
    for y, x in _places(fixed):
        modules[y][x] = next(bits, False) ^ ((y + x) % 2 == 0)
    return modules


def _codewords(content: bytes) -> list[int]:
    """Data in blocks, then the checks of each, column by column."""
    header = 0b0100 << 8 | len(content)
    whole = header << (8 * len(content)) | int.from_bytes(content)
    data = (whole << 4).to_bytes(len(content) + 2)  # the terminator is four zeros
    data += bytes([0xEC, 0x11][k % 2] for k in range(DATA - len(data)))
    size = DATA // BLOCKS
    blocks = [data[k : k + size] for k in range(0, DATA, size)]
    checks = [_checks(block) for block in blocks]
    return [block[k] for k in range(size) for block in blocks] + [
        check[k] for k in range(CHECKS) for check in checks
    ]


def _times(a: int, b: int) -> int:
    """In the field of 256 elements."""
    product = 0
    for k in range(8):
        product ^= (a << k) * (b >> k & 1)
    for k in range(14, 7, -1):
        product ^= (_POLYNOMIAL << (k - 8)) * (product >> k & 1)
    return product


def _checks(block: bytes) -> list[int]:
    """The remainder by the generator whose roots are the first powers of two."""
    generator, root = [1], 1
    for _ in range(CHECKS):
        longer = [*generator, 0]
        generator = [c ^ _times(root, d) for c, d in zip(longer, [0, *generator], strict=True)]
        root = _times(root, 2)
    rest = [*block, *([0] * CHECKS)]
    for k in range(len(block)):
        factor = rest[k]
        for j, c in enumerate(generator):
            rest[k + j] ^= _times(factor, c)
    return rest[-CHECKS:]


def _bits(codewords: list[int]) -> Iterator[bool]:
    return (bool(word >> k & 1) for word in codewords for k in range(7, -1, -1))


def _fixed() -> dict[tuple[int, int], bool]:
    """Finders with their margin, the alignment mark, timing lines, the format twice."""
    fixed = {}
    for cy, cx in _FINDERS:
        for y in range(cy - 4, cy + 5):
            for x in range(cx - 4, cx + 5):
                if 0 <= y < SIDE and 0 <= x < SIDE:
                    fixed[y, x] = max(abs(y - cy), abs(x - cx)) not in (2, 4)
    for k in range(8, SIDE - 8):
        fixed[6, k] = fixed[k, 6] = k % 2 == 0
    cy, cx = _ALIGNMENT
    for y in range(cy - 2, cy + 3):
        for x in range(cx - 2, cx + 3):
            fixed[y, x] = max(abs(y - cy), abs(x - cx)) != 1
    down = [*range(6), 7, 8, *range(SIDE - 7, SIDE)]
    across = [*range(SIDE - 1, SIDE - 9, -1), 7, *range(5, -1, -1)]
    for k in range(15):
        bit = bool(_FORMAT >> k & 1)
        fixed[down[k], 8] = fixed[8, across[k]] = bit
    fixed[SIDE - 8, 8] = True
    return fixed


def _places(fixed: dict[tuple[int, int], bool]) -> Iterator[tuple[int, int]]:
    """Free modules, two columns at a time, upwards and downwards from the right."""
    columns = [x for x in range(SIDE - 1, 0, -2) if x > 6] + [5, 3, 1]
    for turn, right in enumerate(columns):
        rows = range(SIDE) if turn % 2 else range(SIDE - 1, -1, -1)
        for y in rows:
            yield from ((y, x) for x in (right, right - 1) if (y, x) not in fixed)
