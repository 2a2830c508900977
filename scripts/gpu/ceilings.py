"""What the device can do at best: a copy, a large product, and the very products of GPT-2's training step. Prints one JSON line.

Products and attention in TFLOP/s on random data, copies in TB/s counting bytes read and written; each the best of three rounds of ten.
"""

import json

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

ROWS, WIDTH, VOCABULARY = 16384, 768, 50257


def seconds(work, repeat=10):
    best = float("inf")
    for _ in range(3):
        work()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(repeat):
            work()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) / 1000 / repeat)
    return best


def product(m, n, k, leading=None):
    """(m, k) x (k, n) in bf16; `leading`: elements from row to row of the result."""
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16).t()
    c = torch.empty(m, leading or n, device="cuda", dtype=torch.bfloat16)[:, :n]
    return 2e-12 * m * n * k / seconds(lambda: torch.mm(a, b, out=c))


def attention(backend):
    """Causal, forward and backward, on views of packed queries, keys and values; TFLOP/s, half of the square counted."""
    sequences, tokens, heads = ROWS // 1024, 1024, WIDTH // 64
    qkv = torch.randn(sequences, tokens, 3, heads, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    dout = torch.randn(sequences, heads, tokens, 64, device="cuda", dtype=torch.bfloat16)

    def work():
        with sdpa_kernel(backend):
            out = torch.nn.functional.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4), is_causal=True)
        torch.autograd.grad(out, qkv, dout)

    return 1e-12 * 7 * ROWS * tokens * WIDTH / seconds(work)


def main():
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    x = torch.empty(2**30, device="cuda", dtype=torch.uint8)
    y = torch.empty_like(x)
    figures = {"copy": 2e-12 * x.numel() / seconds(lambda: y.copy_(x)), "8192 cubed": product(8192, 8192, 8192)}
    del x, y
    for name, n, k in (("qkv", 3 * WIDTH, WIDTH), ("projection", WIDTH, WIDTH), ("up", 4 * WIDTH, WIDTH), ("down", WIDTH, 4 * WIDTH)):
        figures[name] = product(ROWS, n, k)
        figures[f"d{name}"] = product(k, n, ROWS)  # the weight's gradient
    figures["head"] = product(8192, VOCABULARY, WIDTH)
    figures["head padded"] = product(8192, VOCABULARY, WIDTH, leading=50304)
    figures["head 50304"] = product(8192, 50304, WIDTH)
    for name, backend in (("flash attention", SDPBackend.FLASH_ATTENTION), ("cudnn attention", SDPBackend.CUDNN_ATTENTION)):
        try:
            figures[name] = attention(backend)
        except RuntimeError as error:
            print(f"{name}: {error}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
