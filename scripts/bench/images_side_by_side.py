"""Times our decoding and resizing of pictures and Pillow's in turns; see scripts/bench/images."""
import argparse
import glob
import io
import os
import statistics
import sys
import tempfile
import time
import warnings

import numpy as np
import PIL
from PIL import Image, ImageFilter

from side_by_side import Timed, process_status

MEAN, STD = np.float32([0.48145466, 0.4578275, 0.40821073]), np.float32([0.26862954, 0.26130258, 0.27577711])
SIDE = 224
TILE, PINPOINTS = 336, [[336, 672], [672, 336], [672, 672], [336, 1008], [1008, 336]]  # llava-v1.6's


def photo(width, height, seed):
    """Noise of all scales, as in pictures of nature, and some edges."""
    rng = np.random.default_rng(seed)
    total = np.zeros((height, width, 3))
    for octave in range(8):
        small = rng.normal(size=(max(height >> octave, 2), max(width >> octave, 2), 3)) * 8 + 128
        scaled = Image.fromarray(small.clip(0, 255).astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
        total += (np.asarray(scaled, dtype=float) - 128) * 1.5 ** octave * 0.25
    total[height // 3:height // 2, width // 4:width // 2] += 60
    return Image.fromarray((total + 128).clip(0, 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(0.7))


def make_sets(folder):
    """Kinds of files: their paths."""
    kinds = {"jpeg": ("jpg", {"quality": 85}), "progressive": ("jpg", {"quality": 85, "progressive": True}),
             "png": ("png", {}), "webp": ("webp", {"quality": 80}), "webp lossless": ("webp", {"lossless": True}), "gif": ("gif", {})}
    sets = {}
    for kind, (ending, options) in kinds.items():
        sets[kind + " 640x480"] = []
        for seed in range(8):
            path = os.path.join(folder, f"{kind} {seed}.{ending}")
            photo(640, 480, seed).save(path, **options)
            sets[kind + " 640x480"].append(path)
    path = os.path.join(folder, "large.jpg")
    photo(3000, 2000, 0).save(path, quality=90)
    sets["jpeg 3000x2000"] = [path]
    return sets


class Theirs:
    def __init__(self, paths, processor=None):
        self.files = [open(path, "rb").read() for path in paths]
        self.processor = processor

    def run(self, step, data):
        image = Image.open(io.BytesIO(data)).convert("RGB")
        if step == "tiles":
            return self.processor(image, return_tensors="np").pixel_values
        if step == "decode":
            return image
        width, height = image.size
        shortest = min(width, height)
        image = image.resize((SIDE * width // shortest, SIDE * height // shortest), Image.Resampling.BICUBIC)
        left, top = (image.width - SIDE) // 2, (image.height - SIDE) // 2
        image = image.crop((left, top, left + SIDE, top + SIDE))
        if step == "square":
            return image
        return ((np.asarray(image).astype(np.float32) * np.float32(1 / 255) - MEAN) / STD).transpose(2, 0, 1).copy()

    def ask(self, step):
        start = time.perf_counter()
        for data in self.files:
            last = self.run(step, data)
        seconds = time.perf_counter() - start
        last = np.asarray(last)
        return seconds, round(last.sum(dtype=np.float64))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reader", required=True, help="the program bench_images")
    parser.add_argument("--emoji", help="a folder of PNG files")
    parser.add_argument("--tiles", action="store_true", help="in place of that LLaVA-NeXT's tiles, beside transformers' LlavaNextImageProcessor")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # Pillow's, that transparency is dropped

    print(f"Pillow {PIL.__version__}; pictures/s on one core; medians of {arguments.rounds} turns each")
    with tempfile.TemporaryDirectory() as folder:
        sets = make_sets(folder)
        if arguments.emoji and not arguments.tiles:
            sets["emoji"] = sorted(glob.glob(os.path.join(arguments.emoji, "*.png")))[::20]
        processor, library, steps = None, "Pillow", ("decode", "square", "numbers")
        if arguments.tiles:
            from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

            processor = LlavaNextImageProcessorPil(size={"shortest_edge": TILE}, crop_size={"height": TILE, "width": TILE}, image_grid_pinpoints=PINPOINTS)
            library, steps = "transformers", ("tiles",)
        for name, paths in sets.items():
            ours, theirs = Timed(arguments.reader, *paths), Theirs(paths, processor)
            for step in steps:
                times = []
                for turn in range(arguments.rounds + 1):
                    mine, my_sum = ours.ask(step)
                    peer, their_sum = theirs.ask(step)
                    if abs(my_sum - their_sum) > {"numbers": 5, "tiles": 50}.get(step, 0):
                        sys.exit(f"{name}, {step}: the pixels differ: their sum is {my_sum} here and {their_sum} in {library}")
                    if turn > 0:  # the first turn warms both up
                        times.append((mine, peer))
                ratio = statistics.median(peer / mine for mine, peer in times)
                mine, peer = (statistics.median(column) for column in zip(*times))
                print(f"{name:22} {step:8} ours {len(paths) / mine:8.1f}   {library} {len(paths) / peer:8.1f}   ratio {ratio:.2f}", flush=True)
            if arguments.tiles:
                print(f"{'':22} peak memory {process_status(ours.process.pid, 'VmHWM:') >> 20} MiB and {process_status('self', 'VmHWM:') >> 20} MiB")
            ours.close()


if __name__ == "__main__":
    main()
