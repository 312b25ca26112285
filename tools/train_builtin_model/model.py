"""The Llama architecture in plain PyTorch, small and fast to train on one CPU core."""

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Config:
    vocab_size: int = 2048
    hidden_size: int = 256
    intermediate_size: int = 512
    num_layers: int = 5
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5
    max_position: int = 2048


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        kv = c.num_kv_heads * c.head_dim
        self.norm1 = nn.Parameter(torch.ones(c.hidden_size))
        self.norm2 = nn.Parameter(torch.ones(c.hidden_size))
        self.q = nn.Parameter(torch.empty(c.num_heads * c.head_dim, c.hidden_size))
        self.k = nn.Parameter(torch.empty(kv, c.hidden_size))
        self.v = nn.Parameter(torch.empty(kv, c.hidden_size))
        self.o = nn.Parameter(torch.empty(c.hidden_size, c.num_heads * c.head_dim))
        self.gate = nn.Parameter(torch.empty(c.intermediate_size, c.hidden_size))
        self.up = nn.Parameter(torch.empty(c.intermediate_size, c.hidden_size))
        self.down = nn.Parameter(torch.empty(c.hidden_size, c.intermediate_size))

    def forward(self, x, cos, sin, dtype):  # x [B, T, E] float32
        c, (b, t, _) = self.c, x.shape
        h = F.rms_norm(x, (c.hidden_size,), self.norm1, c.norm_eps).to(dtype)
        qkv = h @ torch.cat([self.q, self.k, self.v]).to(dtype).t()
        qkv = qkv.view(b, t, -1, c.head_dim).transpose(1, 2)  # [B, Hq + 2 Hkv, T, D]
        q, k, v = qkv.split([c.num_heads, c.num_kv_heads, c.num_kv_heads], 1)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        group = c.num_heads // c.num_kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        a = a.transpose(1, 2).reshape(b, t, -1)
        x = x + a @ self.o.to(dtype).t()
        h = F.rms_norm(x, (c.hidden_size,), self.norm2, c.norm_eps).to(dtype)
        gate, up = (h @ torch.cat([self.gate, self.up]).to(dtype).t()).chunk(2, -1)
        return x + (F.silu(gate) * up) @ self.down.to(dtype).t()


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embed = nn.Parameter(torch.empty(c.vocab_size, c.hidden_size))
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_layers))
        self.norm = nn.Parameter(torch.ones(c.hidden_size))
        frequencies = c.rope_theta ** (
            -torch.arange(0, c.head_dim, 2, dtype=torch.float64) / c.head_dim
        )
        angles = torch.outer(torch.arange(c.max_position, dtype=torch.float64), frequencies)
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)
        self.reset()

    def reset(self):
        generator = torch.Generator().manual_seed(1)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                p.data.normal_(0, 0.03, generator=generator)
            if name.endswith((".o", ".down")):
                p.data.zero_()

    def forward(self, ids, dtype=torch.float32):
        """ids [B, T] -> final hidden states [B, T, E] in float32."""
        x = self.embed[ids]
        t = ids.shape[1]
        cos, sin = self.cos[:t].to(dtype), self.sin[:t].to(dtype)
        for layer in self.layers:
            x = layer(x, cos, sin, dtype)
        return F.rms_norm(x, (self.c.hidden_size,), self.norm, self.c.norm_eps)

    def loss(self, ids, targets, weights, dtype):
        """Weighted next-token loss, summed; logits only where a weight is set."""
        h = self(ids, dtype)
        at = weights.nonzero(as_tuple=True)
        logits = (h[at].to(dtype) @ self.embed.to(dtype).t()).float()
        return F.cross_entropy(logits, targets[at], reduction="sum")
