#!/usr/bin/env python3
"""What a step should take on machines that are not at hand: GPT-2 124M under ddp, from arithmetic, bytes and links.

    scripts/bench/scaling_model.py [--batch 8] [--accumulation 4] [--utilisation 0.4] [--json]

Per optimizer step and device, with P parameters, L layers, width C, sequences of T tokens, B sequences in each of A micro-batches:

    FLOPs          A B T (6 P + 12 L C T)                      forward and backward (PaLM, arXiv 2204.02311, appendix B)
    compute        FLOPs / (peak of the device x utilisation)
    bytes          2 (N - 1) / N x 2 P                         of a ring all-reduce of bf16 or fp16 gradients, sent by each device
    wire           bytes / bandwidth + 2 (N - 1) x latency x buckets
    step           compute + what of the wire does not fit into the backward pass, 2/3 of the last micro-batch's compute. The tied embedding's
                   gradient is complete last, so its share of the wire is never hidden.

A model, not a measurement: it knows nothing of stragglers, of the data, of other traffic on the links, or of kernels that run slower beside a
collective. What it assumes of each machine is printed with it.
"""
import argparse
import json

P, LAYERS, WIDTH, SEQUENCE, VOCABULARY = 124_439_808, 12, 768, 1024, 50_257
BUCKET_BYTES = 25 << 20
EMBEDDING_SHARE = VOCABULARY * WIDTH / P

# name, devices, peak (FLOP/s, 16-bit inputs), bandwidth of a ring over the slowest link (B/s), latency of a hop (s), claimed speed-up, what is assumed
MACHINES = [
    ("2 x T4, PCIe 3", 2, 65e12, 6e9, 10e-6, "1.8 to 1.9", "no peer-to-peer: through the host, 6 GB/s"),
    ("8 x RTX 2080 Ti, PCIe 3", 8, 53.8e12, 6e9, 10e-6, "7 to 8", "two switches of four, through the host, 6 GB/s"),
    ("8 x H100 SXM, NVLink", 8, 989e12, 360e9, 3e-6, "-", "nccl-tests bus bandwidth of one node, 360 GB/s"),
    ("64 x H100 SXM, 8 NICs of 400 Gb/s a node", 64, 989e12, 320e9, 12e-6, "-", "8 rails at 80%, 320 GB/s a node"),
    ("512 x H100 SXM, 8 NICs of 400 Gb/s a node", 512, 989e12, 320e9, 12e-6, "-", "as 64; tree latency: log2 of the nodes"),
]


def predict(devices, peak, bandwidth, latency, batch, accumulation, utilisation):
    flops = accumulation * batch * SEQUENCE * (6 * P + 12 * LAYERS * WIDTH * SEQUENCE)
    compute = flops / (peak * utilisation)
    sent = 2 * (devices - 1) / devices * 2 * P
    hops = 2 * (devices - 1) if devices <= 64 else 2 * devices.bit_length() * 8
    buckets = -(-2 * P // BUCKET_BYTES)
    wire = sent / bandwidth + hops * latency * buckets
    window = 2 / 3 * compute / accumulation
    late = EMBEDDING_SHARE * wire
    exposed = late + max(0.0, wire - late - window)
    step = compute + exposed
    return {"compute_ms": compute * 1e3, "wire_ms": wire * 1e3, "exposed_ms": exposed * 1e3, "step_ms": step * 1e3,
            "speed_up": devices * compute / step, "efficiency": compute / step}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=8, help="sequences of 1,024 tokens in a micro-batch")
    parser.add_argument("--accumulation", type=int, default=4, help="micro-batches per device and step")
    parser.add_argument("--utilisation", type=float, default=0.4, help="share of the peak that one device reaches alone")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for name, devices, peak, bandwidth, latency, claim, assumption in MACHINES:
        row = predict(devices, peak, bandwidth, latency, arguments.batch, arguments.accumulation, arguments.utilisation)
        rows.append({"machine": name, "devices": devices, **row, "claimed": claim, "assumed": assumption})
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"GPT-2 124M, {SEQUENCE} tokens, {arguments.batch} sequences x {arguments.accumulation} micro-batches a device, "
          f"{arguments.utilisation:.0%} of the peak; ddp, 16-bit gradients")
    print(f"{'':<44}{'compute':>9}{'wire':>9}{'exposed':>9}{'step':>9}{'times':>8}  claimed      assumed")
    for r in rows:
        print(f"{r['machine']:<44}{r['compute_ms']:>6.0f} ms{r['wire_ms']:>6.1f} ms{r['exposed_ms']:>6.1f} ms{r['step_ms']:>6.0f} ms"
              f"{r['speed_up']:>8.2f}  {r['claimed']:<12} {r['assumed']}")


if __name__ == "__main__":
    main()
