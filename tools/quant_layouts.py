"""The quantized linear layers of safetensors checkpoints: quantize(layout, weights) -> tensors and what they mean.

Each function takes float32 weights [N, K] and returns ({suffix: tensor}, float32 [N, K]): the tensors of one module as the
scheme's own tools store them, and the weights that they stand for, computed from the codes and not from the packing.
Rounding to nearest; zero points and scales are those of plain min/max quantization.
"""

import numpy as np
import torch

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # nibble i of a word holds this column of its eight


def groups_of(k, group):
    size = k if group == -1 else group
    return size, -(-k // size)


def codes_affine(w, bits, group, symmetric, order=None):
    """q, z [N, groups] and s (float16) with w ~ (q - z) * s. `order`: the group of each input, else k // group."""
    n, k = w.shape
    size, count = groups_of(k, group)
    index = np.arange(k) // size if order is None else order
    z, s = np.zeros((n, count), np.int64), np.zeros((n, count), np.float16)
    q = np.zeros((n, k), np.int64)
    top = 2 ** bits - 1
    for g in range(count):
        part = w[:, index == g]
        if symmetric:
            s[:, g] = np.abs(part).max(1) / (2 ** (bits - 1) - 0.5)
            z[:, g] = 2 ** (bits - 1)
        else:
            low, high = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
            s[:, g] = (high - low) / top
            z[:, g] = np.clip(np.rint(-low / s[:, g]), 0, top)
        q[:, index == g] = np.clip(np.rint(part / s[:, g, None].astype(np.float32)) + z[:, g, None], 0, top)
    exact = (q - z[:, index]).astype(np.float32) * s[:, index].astype(np.float32)
    return q, z, s, exact


def pack_dense(values, bits):
    """[rows, count] -> int32 [rows, ceil(count * bits / 32)]: value i begins at bit i * bits, lowest bits first."""
    rows, count = values.shape
    words = -(-count * bits // 32)
    out = np.zeros((rows, words + 1), np.uint64)
    for i in range(count):
        at, shift = i * bits // 32, i * bits % 32
        wide = values[:, i].astype(np.uint64) << np.uint64(shift)
        out[:, at] |= wide & np.uint64(0xFFFFFFFF)
        out[:, at + 1] |= wide >> np.uint64(32)
    return torch.from_numpy(out[:, :words].astype(np.uint32).view(np.int32).copy())


def pack_padded(values, bits):
    """Packs as older files do: 32 // bits values per word, and the rest of its bits unused."""
    rows, count = values.shape
    each = 32 // bits
    values = np.pad(values, ((0, 0), (0, -count % each))).reshape(rows, -1, each).astype(np.uint64)
    words = (values << (np.arange(each, dtype=np.uint64) * np.uint64(bits))).sum(2)
    return torch.from_numpy(words.astype(np.uint32).view(np.int32).copy())


def awq(w, group):
    q, z, s, exact = codes_affine(w, 4, group, symmetric=False)

    def pack(columns):  # [a, N] -> [a, N / 8]
        parts = columns.reshape(columns.shape[0], -1, 8).astype(np.uint64)
        words = sum(parts[:, :, AWQ_ORDER[i]] << np.uint64(4 * i) for i in range(8))
        return torch.from_numpy(words.astype(np.uint32).view(np.int32).copy())

    return {"qweight": pack(q.T), "qzeros": pack(z.T), "scales": torch.from_numpy(s.T.copy())}, exact


def gptq(w, bits, group, symmetric, v2=False, act_order=False, rng=None):
    n, k = w.shape
    size, _ = groups_of(k, group)
    index = np.arange(k) // size
    if act_order:
        index = rng.permutation(index)
    if not symmetric and not v2:  # zero point 0 cannot be stored minus one
        w = w - 1e-3
    q, z, s, exact = codes_affine(w, bits, group, symmetric, index)
    if not symmetric and not v2:
        z = np.maximum(z, 1)
        exact = (q - z[:, index]).astype(np.float32) * s[:, index].astype(np.float32)
    stored = z if v2 else z - 1
    return {
        "qweight": pack_dense(q, bits).T.contiguous(),
        "qzeros": pack_dense(stored.T, bits),
        "scales": torch.from_numpy(s.T.copy()),
        "g_idx": torch.from_numpy(index.astype(np.int32)),
    }, exact


def pack_quantized(w, bits, group, symmetric, padded=False, act_order=False, rng=None, scale_dtype=torch.float16):
    n, k = w.shape
    size, _ = groups_of(k, group)
    index = np.arange(k) // size
    if act_order:
        index = rng.permutation(index)
    q, z, s, exact = codes_affine(w, bits, group, symmetric, index)
    if scale_dtype == torch.bfloat16:
        s = torch.from_numpy(s.astype(np.float32)).to(torch.bfloat16)
        exact = (q - z[:, index]).astype(np.float32) * s.float().numpy()[:, index]
    else:
        s = torch.from_numpy(s)
    pack = pack_padded if padded else pack_dense
    tensors = {"weight_packed": pack(q, bits), "weight_scale": s, "weight_shape": torch.tensor([n, k])}
    if not symmetric:
        tensors["weight_zero_point"] = pack(z.T, bits).T.contiguous()
    if act_order:
        tensors["weight_g_idx"] = torch.from_numpy(index.astype(np.int32))
    return tensors, exact


def int8(w, static=None, per_tensor=False):
    amax = np.abs(w).max(1, keepdims=True)
    if per_tensor:
        amax = amax.max(keepdims=True)
    s = (amax / 127).astype(np.float32)
    q = np.clip(np.rint(w / s), -128, 127).astype(np.int8)
    tensors = {"weight": torch.from_numpy(q), "weight_scale": torch.from_numpy(s)}
    if static:
        tensors["input_scale"] = torch.tensor([static], dtype=torch.float32)
    return tensors, q.astype(np.float32) * s


def fp8(w, blocks, scale_name="weight_scale", scale_dtype=torch.float32, scalar=()):
    """blocks: None (per tensor), "channel", or (rows, columns); edge blocks may be partial."""
    n, k = w.shape
    rows, columns = {None: (n, k), "channel": (1, k)}.get(blocks, blocks)
    shape = (-(-n // rows), -(-k // columns))
    s = np.zeros(shape, np.float32)
    for i in range(shape[0]):
        for j in range(shape[1]):
            s[i, j] = np.abs(w[i * rows:(i + 1) * rows, j * columns:(j + 1) * columns]).max() / 448
    s = torch.from_numpy(s).to(scale_dtype)
    wide = np.repeat(np.repeat(s.float().numpy(), rows, 0)[:n], columns, 1)[:, :k]
    codes = torch.from_numpy((w / wide).astype(np.float32)).clamp(-448, 448).to(torch.float8_e4m3fn)
    stored = s.reshape(scalar) if blocks is None else s
    return {"weight": codes, scale_name: stored}, codes.float().numpy() * wide


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def fp4_codes(scaled):
    """Returns the nearest e2m1 code of each number; of two equally near codes, the one with an even fraction."""
    size = np.minimum(np.abs(scaled), 6)
    distance = np.abs(size[..., None] - E2M1[:8])
    nearest = distance.argmin(-1)
    tied = np.take_along_axis(distance, np.minimum(nearest + 1, 7)[..., None], -1)[..., 0] == distance.min(-1)
    codes = nearest + (tied & (nearest % 2 == 1) & (nearest < 7))
    return (codes + 8 * (np.signbit(scaled))).astype(np.uint8)


def pack_fp4(codes):
    """Packs two codes per byte, the even column in the low nibble."""
    return torch.from_numpy(codes[:, ::2] | codes[:, 1::2] << 4)


def nvfp4(w, modelopt=False):
    """Makes one factor for the tensor and an e4m3 scale per 16 inputs. compressed-tensors stores the factor as a
    divisor."""
    n, k = w.shape
    amax = np.abs(w.reshape(n, k // 16, 16)).max(2)
    divisor = np.float32(448 * 6 / amax.max())
    factor = np.float32(amax.max() / (448 * 6)) if modelopt else np.float32(1) / divisor
    stored = torch.from_numpy((amax / 6 / factor).astype(np.float32)).clamp(0, 448).to(torch.float8_e4m3fn)
    scale = np.repeat(stored.float().numpy() * factor, 16, 1)
    codes = fp4_codes(w / np.maximum(scale, 1e-30))
    if modelopt:
        tensors = {"weight": pack_fp4(codes), "weight_scale": stored, "weight_scale_2": torch.tensor(factor),
                   "input_scale": torch.tensor(0.01)}
    else:
        tensors = {"weight_packed": pack_fp4(codes), "weight_scale": stored,
                   "weight_global_scale": torch.tensor([divisor]), "input_global_scale": torch.tensor([100.0])}
    return tensors, E2M1[codes] * scale


def mx(w, bits):
    """Makes a power of two per 32 inputs, one byte each: mxfp4 or mxfp8."""
    n, k = w.shape
    amax = np.abs(w.reshape(n, k // 32, 32)).max(2)
    exponent = np.clip(np.floor(np.log2(amax)) - (2 if bits == 4 else 8), -127, 127)
    scale = np.repeat(np.exp2(exponent).astype(np.float32), 32, 1)
    stored = torch.from_numpy((exponent + 127).astype(np.uint8))
    if bits == 4:
        codes = fp4_codes(w / scale)
        return {"weight_packed": pack_fp4(codes), "weight_scale": stored}, E2M1[codes] * scale
    codes = torch.from_numpy(w / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    return {"weight": codes, "weight_scale": stored}, codes.float().numpy() * scale


def bitnet(w, divides=False):
    """Makes codes -1, 0 and 1 in units of the mean of |w|. A byte holds four, from rows that are a quarter of the
    matrix apart. The scale is what weights are multiplied by, or divided by."""
    mean = torch.tensor([1 / np.abs(w).mean() if divides else np.abs(w).mean()]).bfloat16()
    unit = np.float32(1) / mean.float().numpy() if divides else mean.float().numpy()
    codes = np.clip(np.round(w / unit), -1, 1)
    parts = np.split((codes + 1).astype(np.uint8), 4)
    packed = sum(part << (2 * i) for i, part in enumerate(parts)).astype(np.uint8)
    return dict(weight=torch.from_numpy(packed), weight_scale=mean), (codes * unit).astype(np.float32)
