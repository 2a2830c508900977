"""Hugging Face transformers + Accelerate as the peer of llava_side_by_side.py: dynamic padding to the longest, fused AdamW."""

import argparse
import json
import struct
import zlib
from pathlib import Path

import numpy

IGNORED = -100
MEAN = numpy.array([0.48145466, 0.4578275, 0.40821073], dtype=numpy.float32)  # CLIP's
DEVIATION = numpy.array([0.26862954, 0.26130258, 0.27577711], dtype=numpy.float32)


def write_png(path, side, seed):
    """Smooth noise, as a PNG whose rows have no filter: reading it costs next to nothing."""
    coarse = numpy.random.default_rng(seed).random((8, 8, 3))
    pixels = (numpy.kron(coarse, numpy.ones((side // 8 + 1, side // 8 + 1, 1)))[:side, :side] * 255).astype(numpy.uint8)
    rows = numpy.concatenate([numpy.zeros((side, 1), numpy.uint8), pixels.reshape(side, -1)], 1).tobytes()

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def read_png(path, side):
    """Of write_png(): (3, side, side) as CLIP's processor gives it."""
    data = Path(path).read_bytes()
    at = data.index(b"IDAT")
    size = struct.unpack(">I", data[at - 4 : at])[0]
    rows = numpy.frombuffer(zlib.decompress(data[at + 4 : at + 4 + size]), numpy.uint8).reshape(side, 1 + 3 * side)
    pixels = rows[:, 1:].reshape(side, side, 3).astype(numpy.float32) / 255
    return ((pixels - MEAN) / DEVIATION).transpose(2, 0, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="with model, peer.json and the pictures")
    parser.add_argument("--stage", required=True, choices=["pretrain", "sft"])
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()

    import torch
    from accelerate import Accelerator
    from peer_loop import answer_requests, fused_adamw
    from transformers import LlavaForConditionalGeneration

    torch.set_num_threads(arguments.threads)
    accelerator = Accelerator(cpu=True)
    model = LlavaForConditionalGeneration.from_pretrained(arguments.folder / "model")
    image_token = model.config.image_token_index
    side = model.config.vision_config.image_size
    patches = (side // model.config.vision_config.patch_size) ** 2
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("multi_modal_projector" in name or (arguments.stage == "sft" and "vision_tower" not in name))
    def collate(samples):
        """End of text, a picture's patches, the question and the answer, which alone has a loss; padded to the longest of the batch."""
        longest = max(len(s["before"]) + patches + len(s["prompt"]) + len(s["answer"]) for s in samples)
        ids, mask, labels = [], [], []
        for s in samples:
            prompt = s["before"] + [image_token] * patches + s["prompt"]
            padding = longest - len(prompt) - len(s["answer"])
            ids.append(prompt + s["answer"] + [0] * padding)
            mask.append([1] * (longest - padding) + [0] * padding)
            labels.append([IGNORED] * len(prompt) + s["answer"] + [IGNORED] * padding)
        pixels = numpy.stack([read_png(arguments.folder / s["image"], side) for s in samples])
        return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask), "labels": torch.tensor(labels),
                "pixel_values": torch.from_numpy(pixels)}

    samples = json.loads((arguments.folder / "peer.json").read_text())
    loader = torch.utils.data.DataLoader(samples, batch_size=arguments.batch, shuffle=False, drop_last=True, collate_fn=collate)
    answer_requests(accelerator, model, fused_adamw(model.parameters()), loader)


if __name__ == "__main__":
    main()
