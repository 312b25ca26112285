"""The quantized block types of GGUF in numpy: encode(type, weights) -> bytes, decode(type, bytes) -> float32.

Written from the layouts in the ggml project's documentation of its types; slow and plain, an oracle for the readers in
src/weights. The encoders are rough (no search for better scales): what matters is that decode() is exact.
`python tools/gguf_blocks.py` compares decode() with the `gguf` package on random blocks.
"""

import struct

import numpy as np

IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)

# name -> (ggml id, elements, bytes)
TYPES = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22),
    "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110),
    "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210), "IQ4_NL": (20, 32, 18),
    "IQ4_XS": (23, 256, 136), "BF16": (30, 1, 2),
}

# Types whose blocks are made of random bits; the `gguf` package decodes them.
GRID_TYPES = {
    "IQ1_S": (19, 256, 50), "IQ1_M": (29, 256, 56), "IQ2_XXS": (16, 256, 66), "IQ2_XS": (17, 256, 74), "IQ2_S": (22, 256, 82),
    "IQ3_XXS": (18, 256, 98), "IQ3_S": (21, 256, 110), "TQ1_0": (34, 256, 54), "TQ2_0": (35, 256, 66),
}


def random_blocks(kind, scales, rng):
    """Blocks of a type of GRID_TYPES: scales float [rows, blocks] -> uint8 [rows, bytes]."""
    size = GRID_TYPES[kind][2]
    blocks = rng.integers(0, 256, (*scales.shape, size), dtype=np.uint8)
    halves = scales.astype(np.float16)[..., None]
    if kind == "IQ1_M":  # its scale is in the high bits of four words
        words = blocks[..., 48:].view(np.uint16)
        digits = halves.view(np.uint16) >> np.array([0, 4, 8, 12], np.uint16)
        blocks[..., 48:] = (words & 0x0FFF | digits << 12).view(np.uint8)
    else:
        at = size - 2 if kind.startswith("TQ") else 0
        blocks[..., at:at + 2] = halves.view(np.uint8)
    return blocks.reshape(len(scales), -1)


def decode_random(kind, raw):
    import gguf  # part of the oracle environment
    return gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind]).astype(np.float32)


def f16(x):
    return np.array(x, "<f2")


def f16_bytes(x):
    return np.frombuffer(f16(x).tobytes(), np.uint8)


def halves(q):
    """32 nibbles: element j low, element j + 16 high."""
    return (q[:16] | q[16:] << 4).astype(np.uint8)


def divide(w, scale):
    return np.where(scale == 0, 0, w / np.where(scale == 0, 1, scale))


def signs(count, rng):
    return rng.choice([-1.0, 1.0], count)


def encode_simple(kind, w, rng):
    qmax = 31 if kind.startswith("Q5") else 15
    if kind == "Q8_0":
        d = float(f16(np.abs(w).max() / 127))
        return [f16_bytes(d), np.clip(np.rint(divide(w, d)), -128, 127).astype(np.int8).view(np.uint8)]
    if kind == "IQ4_NL":
        d = float(f16(np.abs(w).max() / 113 * signs(1, rng)[0]))
        q = np.abs(divide(w, d)[:, None] - IQ4[None]).argmin(1).astype(np.uint8)
        return [f16_bytes(d), halves(q)]
    if kind.endswith("_0"):
        half = (qmax + 1) // 2
        d = float(f16(np.abs(w).max() / half * signs(1, rng)[0]))
        q = np.clip(np.rint(divide(w, d)) + half, 0, qmax).astype(np.uint32)
        head = [f16_bytes(d)]
    else:
        m = float(f16(w.min()))
        d = float(f16((w.max() - m) / qmax))
        q = np.clip(np.rint(divide(w - m, d)), 0, qmax).astype(np.uint32)
        head = [f16_bytes(d), f16_bytes(m)]
    if qmax == 31:
        high = np.uint32((q >> 4 << np.arange(32, dtype=np.uint32)).sum())
        head.append(np.frombuffer(high.astype("<u4").tobytes(), np.uint8))
    return head + [halves(q & 15)]


def pack_scales_6(sc, m):
    out = np.zeros(12, np.uint32)
    for j in range(4):
        out[j] = sc[j] | sc[j + 4] >> 4 << 6
        out[j + 4] = m[j] | m[j + 4] >> 4 << 6
        out[j + 8] = (sc[j + 4] & 15) | (m[j + 4] & 15) << 4
    return out.astype(np.uint8)


def affine(w, width, scale_max, qmax):
    """Per sub-block scale and min codes over one d and dmin: q, sc, m, d, dmin."""
    blocks = w.reshape(-1, width)
    low = np.maximum(-blocks.min(1), 0)
    scale = (blocks.max(1) + low) / qmax
    d, dmin = float(f16(scale.max() / scale_max)), float(f16(low.max() / scale_max))
    sc = np.clip(np.rint(divide(scale, d)), 0, scale_max).astype(np.uint32)
    m = np.clip(np.rint(divide(low, dmin)), 0, scale_max).astype(np.uint32)
    q = np.clip(np.rint(divide(blocks + dmin * m[:, None], d * sc[:, None])), 0, qmax).astype(np.uint32).ravel()
    return q, sc, m, d, dmin


def signed(w, width, scale_max, q_low, rng):
    """Per sub-block signed scale codes over one d: q in [q_low, -q_low), sc, d."""
    blocks = w.reshape(-1, width)
    scale = np.abs(blocks).max(1) / -q_low * signs(len(blocks), rng)
    d = float(f16(np.abs(scale).max() / scale_max))
    sc = np.clip(np.rint(divide(scale, d)), -scale_max, scale_max).astype(np.int32)
    q = np.clip(np.rint(divide(blocks, d * sc[:, None])), q_low, -q_low - 1).astype(np.int32).ravel()
    return q, sc, d


def two_bits(q):
    """qs[32h + l] holds, at bits 2j, element 128h + 32j + l."""
    parts = q.reshape(2, 4, 32)
    return sum(parts[:, j] << (2 * j) for j in range(4)).astype(np.uint8).ravel()


def nibble_pairs(q):
    """qs[32c + l]: low nibble element 64c + l, high nibble element 64c + 32 + l."""
    parts = q.reshape(4, 2, 32)
    return (parts[:, 0] | parts[:, 1] << 4).astype(np.uint8).ravel()


def encode_super(kind, w, rng):
    if kind == "Q2_K":
        q, sc, m, d, dmin = affine(w, 16, 15, 3)
        return [(sc | m << 4).astype(np.uint8), two_bits(q), f16_bytes(d), f16_bytes(dmin)]
    if kind == "Q3_K":
        q, sc, d = signed(w, 16, 31, -4, rng)
        q, sc = (q + 4).astype(np.uint32), (sc + 32).astype(np.uint32)
        high = (q >> 2).reshape(8, 32)
        hmask = sum(high[i] << i for i in range(8)).astype(np.uint8)
        scales = np.zeros(12, np.uint32)
        for i in range(16):
            scales[i % 8] |= (sc[i] & 15) << (0 if i < 8 else 4)
            scales[8 + i % 4] |= sc[i] >> 4 << (2 * (i // 4))
        return [hmask, two_bits(q & 3), scales.astype(np.uint8), f16_bytes(d)]
    if kind == "Q4_K":
        q, sc, m, d, dmin = affine(w, 32, 63, 15)
        return [f16_bytes(d), f16_bytes(dmin), pack_scales_6(sc, m), nibble_pairs(q)]
    if kind == "Q5_K":
        q, sc, m, d, dmin = affine(w, 32, 63, 31)
        high = (q >> 4).reshape(8, 32)
        qh = sum(high[i] << i for i in range(8)).astype(np.uint8)
        return [f16_bytes(d), f16_bytes(dmin), pack_scales_6(sc, m), qh, nibble_pairs(q & 15)]
    if kind == "Q6_K":
        q, sc, d = signed(w, 16, 127, -32, rng)
        q = (q + 32).astype(np.uint32).reshape(2, 4, 32)
        ql = np.stack([(q[:, k] & 15) | (q[:, k + 2] & 15) << 4 for k in range(2)], 1)
        qh = sum(q[:, k] >> 4 << (2 * k) for k in range(4))
        return [ql.astype(np.uint8).ravel(), qh.astype(np.uint8).ravel(), sc.astype(np.int8).view(np.uint8),
                f16_bytes(d)]
    assert kind == "IQ4_XS"
    blocks = w.reshape(8, 32)
    scale = np.abs(blocks).max(1) / 113 * signs(8, rng)
    d = float(f16(np.abs(scale).max() / 31))
    ls = (np.clip(np.rint(divide(scale, d)), -32, 31) + 32).astype(np.uint32)
    x = divide(blocks, (d * (ls.astype(np.float32) - 32))[:, None])
    q = np.abs(x[:, :, None] - IQ4).argmin(2).astype(np.uint8)
    high = np.uint32(sum((ls[s] >> 4) << (2 * s) for s in range(8)))
    low = np.array([(ls[2 * i] & 15) | (ls[2 * i + 1] & 15) << 4 for i in range(4)], np.uint8)
    return [f16_bytes(d), np.frombuffer(high.astype("<u2").tobytes(), np.uint8), low,
            np.concatenate([halves(q[s]) for s in range(8)])]


def encode(kind, weights, rng):
    """weights [rows, K] -> uint8 [rows, K / elements * bytes]."""
    _, elements, size = TYPES[kind]
    if elements == 1:
        dtype = {"F32": "<f4", "F16": "<f2"}.get(kind)
        if dtype:
            return np.ascontiguousarray(weights.astype(dtype)).view(np.uint8).reshape(weights.shape[0], -1)
        bits = (np.ascontiguousarray(weights, np.float32).view(np.uint32) >> 16).astype("<u2")
        return bits.view(np.uint8).reshape(weights.shape[0], -1)
    one = encode_simple if elements == 32 else encode_super
    rows = [np.concatenate([np.concatenate(one(kind, block, rng)) for block in row.reshape(-1, elements)])
            for row in weights.astype(np.float32)]
    out = np.stack(rows)
    assert out.shape[1] == weights.shape[1] // elements * size
    return out


def scale_min_6(s, j):
    if j < 4:
        return s[j] & 63, s[j + 4] & 63
    return (s[j + 4] & 15) + 16 * (s[j - 4] >> 6), (s[j + 4] >> 4) + 16 * (s[j] >> 6)


def decode_block(kind, raw):
    """One block: every product and difference rounded to float32, in the order of the layout's formula."""
    b = [int(x) for x in raw]
    half = lambda at: np.float32(np.frombuffer(bytes(b[at:at + 2]), "<f2")[0])
    f = np.float32
    nibble = lambda at, e: b[at + e % 16] >> (4 * (e // 16)) & 15
    if kind == "Q4_0":
        return [half(0) * f(nibble(2, e) - 8) for e in range(32)]
    if kind == "Q4_1":
        return [half(0) * f(nibble(4, e)) + half(2) for e in range(32)]
    if kind in ("Q5_0", "Q5_1"):
        at = 2 if kind == "Q5_0" else 4
        high = int.from_bytes(bytes(b[at:at + 4]), "little")
        q = [nibble(at + 4, e) + 16 * (high >> e & 1) for e in range(32)]
        return [half(0) * f(x - 16) if at == 2 else half(0) * f(x) + half(2) for x in q]
    if kind == "Q8_0":
        return [half(0) * f(x - 256 * (x > 127)) for x in b[2:]]
    if kind == "IQ4_NL":
        return [half(0) * IQ4[nibble(2, e)] for e in range(32)]
    out = []
    for e in range(256):
        h, j, l = e // 128, e % 128 // 32, e % 32
        if kind == "Q2_K":
            q = b[16 + 32 * h + l] >> (2 * j) & 3
            s = b[e // 16]
            out.append(half(80) * f(s & 15) * f(q) - half(82) * f(s >> 4))
        elif kind == "Q3_K":
            q = (b[32 + 32 * h + l] >> (2 * j) & 3) + 4 * (b[e % 32] >> (e // 32) & 1)
            i, s = e // 16, b[96:108]
            sc = (s[i] & 15 if i < 8 else s[i - 8] >> 4) + 16 * (s[8 + i % 4] >> (2 * (i // 4)) & 3)
            out.append(half(108) * f(sc - 32) * f(q - 4))
        elif kind in ("Q4_K", "Q5_K"):
            s = e // 32
            sc, m = scale_min_6(b[4:16], s)
            at = 16 if kind == "Q4_K" else 48
            q = b[at + 32 * (e // 64) + l] >> (4 * (s % 2)) & 15
            if kind == "Q5_K":
                q += 16 * (b[16 + l] >> s & 1)
            out.append(half(0) * f(sc) * f(q) - half(2) * f(m))
        elif kind == "Q6_K":
            low = b[64 * h + 32 * (j % 2) + l] >> (4 * (j // 2)) & 15
            q = low + 16 * (b[128 + 32 * h + l] >> (2 * j) & 3)
            sc = b[192 + e // 16]
            out.append(half(208) * f(sc - 256 * (sc > 127)) * f(q - 32))
        else:
            s = e // 32
            ls = (b[4 + s // 2] >> (4 * (s % 2)) & 15) + 16 * ((b[2] + 256 * b[3]) >> (2 * s) & 3)
            out.append(half(0) * f(ls - 32) * IQ4[nibble(8 + 16 * s, l)])
    return out


def decode(kind, raw):
    """uint8 [rows, bytes] -> float32 [rows, K]."""
    _, elements, size = TYPES[kind]
    if kind == "F32":
        return np.ascontiguousarray(raw).view("<f4")
    if kind == "F16":
        return np.ascontiguousarray(raw).view("<f2").astype(np.float32)
    if kind == "BF16":
        return (np.ascontiguousarray(raw).view("<u2").astype(np.uint32) << 16).view(np.float32)
    return np.array([[x for block in row.reshape(-1, size) for x in decode_block(kind, block)] for row in raw],
                    np.float32)


def write_gguf(path, meta, tensors):
    """tensors: name -> (type, float32 vector or uint8 [..., rows, bytes])."""
    def text(value):
        raw = value.encode()
        return struct.pack("<Q", len(raw)) + raw

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta))
    for key, value in meta.items():
        head += text(key)
        if isinstance(value, str):
            head += struct.pack("<I", 8) + text(value)
        elif isinstance(value, bool):
            head += struct.pack("<I?", 7, value)
        elif isinstance(value, float):
            head += struct.pack("<If", 6, value)
        elif isinstance(value, list) and isinstance(value[0], float):
            head += struct.pack("<IIQ", 9, 6, len(value)) + struct.pack(f"<{len(value)}f", *value)
        elif isinstance(value, list) and isinstance(value[0], str):
            head += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        elif isinstance(value, list):  # of bools or of unsigned integers
            bools = isinstance(value[0], bool)
            head += struct.pack("<IIQ", 9, 7 if bools else 4, len(value))
            head += struct.pack(f"<{len(value)}{'?' if bools else 'I'}", *value)
        else:
            head += struct.pack("<II", 4, value)
    data = b""
    for name, (kind, value) in tensors.items():
        number, elements, size = (TYPES | GRID_TYPES)[kind]
        raw = np.ascontiguousarray(value).tobytes()
        rows = list(reversed(value.shape[:-1]))
        shape = [len(value)] if value.ndim == 1 else [value.shape[-1] // size * elements, *rows]
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape)
        head += struct.pack("<IQ", number, len(data))
        data += raw + b"\0" * (-len(raw) % 32)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


def main():
    import gguf  # the ggml project's package, as a second opinion
    rng = np.random.default_rng(5)
    for kind, (_, elements, size) in TYPES.items():
        if elements == 1:
            continue
        raw = rng.integers(0, 256, (3, 2 * size), dtype=np.uint8)
        ours = encode(kind, rng.standard_normal((3, 2 * elements)), rng)
        quant = getattr(gguf.GGMLQuantizationType, kind)
        for name, data in (("random", raw), ("encoded", ours)):
            with np.errstate(all="ignore"):
                a, b = decode(kind, data), gguf.quants.dequantize(data, quant)
            same = np.array_equal(a.view(np.uint32), b.astype(np.float32).view(np.uint32)) or \
                np.array_equal(a, b, equal_nan=True)
            print(f"{kind:7} {name:8} {'equal' if same else 'DIFFERS'}")


if __name__ == "__main__":
    main()
