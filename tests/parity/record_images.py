"""Records what Pillow and transformers make of pictures, as the fixtures of tests/data/images: run with requirements.txt installed.

pictures/*: files of every format and mode. fixtures/pictures.json: their pixels by Pillow. fixtures/squares.json: pictures of a formula,
resized, and as the processors of CLIP, SigLIP and LLaVA leave them. fixtures/damaged.json: a bit changed in a GIF or PNG, and the sum of
the pixels that Pillow sees then, or null where it sees no picture.
"""
import io
import json
import os
import random
import struct
import warnings
import zlib

import numpy as np
from PIL import Image, ImageOps
from transformers import LlavaImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/images")


def exif(orientation, endian):
    tags = [(0x010F, 2, 4, b"abc\0")]
    if orientation is not None:
        tags.append((0x0112, 3, 1, struct.pack(endian + "HH", orientation, 0)))
    entries = b"".join(struct.pack(endian + "HHI", *tag[:3]) + tag[3] for tag in tags)
    start = b"II*\0" if endian == "<" else b"MM\0*"
    return start + struct.pack(endian + "IH", 8, len(tags)) + entries + bytes(4)


def xmp(orientation, as_element=False):
    """What programs of Adobe say of a picture; without the rest that they write."""
    value = f"<tiff:Orientation>{orientation}</tiff:Orientation>" if as_element else ""
    attribute = "" if as_element else f' tiff:Orientation="{orientation}"'
    return (f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description'
            f' xmlns:tiff="http://ns.adobe.com/tiff/1.0/"{attribute}>{value}</rdf:Description></rdf:RDF></x:xmpmeta>').encode()


def smooth(width, height, channels):
    """A picture that survives lossy compression: gradients, and an edge."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    return ((x * 11 + y * 17 * (c + 1) + c * 90 + (x > width // 2) * 70) % 230 + 10).astype(np.uint8)


def patterned(width, height):
    """The same formula as in resize_test.cpp."""
    y, x, c = np.mgrid[0:height, 0:width, 0:3]
    return ((x * 37 + y * 101 + c * 59 + x * y % 7 * 31) % 256).astype(np.uint8)


def saved(image, **options):
    out = io.BytesIO()
    image.save(out, **options)
    return out.getvalue()


# PNG: written here, since Pillow writes neither interlaced ones nor all depths.
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(color, bits, interlaced=False, width=9, height=8, highest=None, extra=()):
    y, x, c = np.mgrid[0:height, 0:width, 0:CHANNELS[color]]
    values = (x * 29 + y * 53 + c * 101 + x * y) * (257 if bits == 16 else 1) % ((highest or (1 << bits) - 1) + 1)
    lines = b""
    for left, top, across, down in ADAM7 if interlaced else [(0, 0, 1, 1)]:
        for row in values[top::down, left::across]:
            row = row.reshape(-1)
            if not row.size:
                continue
            packed = "".join(f"{value:0{bits}b}" for value in row)
            packed += "0" * (-len(packed) % 8)
            lines += b"\0" + int(packed, 2).to_bytes(len(packed) // 8, "big")
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunk(*e) for e in extra) +
            chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b""))


def palette(colors):
    return b"PLTE", bytes(v for i in range(colors) for v in (i * 16 % 256, 255 - i * 9 % 256, i * 71 % 256))


def pngs():
    for bits in (1, 2, 4, 8, 16):
        yield f"grey{bits}.png", png(0, bits)
    yield "grey2-clear.png", png(0, 2, extra=[(b"tRNS", struct.pack(">H", 2))])
    yield "grey8-interlaced.png", png(0, 8, interlaced=True)
    for bits in (8, 16):
        yield f"colour{bits}.png", png(2, bits)
        yield f"greyalpha{bits}.png", png(4, bits)
        yield f"alpha{bits}.png", png(6, bits)
    yield "colour8-clear.png", png(2, 8, extra=[(b"tRNS", struct.pack(">HHH", 82, 183, 28))])
    yield "alpha8-interlaced.png", png(6, 8, interlaced=True)
    for bits in (1, 2, 4, 8):
        yield f"palette{bits}.png", png(3, bits, highest=min((1 << bits) - 1, 99), extra=[palette(min(1 << bits, 100))])
    yield "palette4-clear.png", png(3, 4, extra=[palette(16), (b"tRNS", bytes(range(0, 255, 25)))])
    yield "palette4-small.png", png(3, 4, extra=[palette(9)])  # with colours beyond it
    yield "palette2-interlaced.png", png(3, 2, interlaced=True, extra=[palette(4), (b"tRNS", b"\xff\x00")])
    for orientation in range(1, 9):
        endian = "<>"[orientation % 2]
        yield f"turned{orientation}.png", png(2, 8, width=5, height=3, extra=[(b"eXIf", exif(orientation, endian))])
    for compressed in (0, 1):
        text = b"XML:com.adobe.xmp\0" + bytes([compressed, 0, 0, 0]) + (zlib.compress(xmp(6)) if compressed else xmp(6))
        yield f"xmp{compressed}.png", png(2, 8, width=5, height=3, extra=[(b"iTXt", text)])
    yield "gamma.png", png(2, 8, width=5, height=3, extra=[(b"gAMA", struct.pack(">I", 100000)), (b"tEXt", b"Title\0x")])


def jpegs():
    colour, grey = Image.fromarray(smooth(18, 10, 3)), Image.fromarray(smooth(18, 10, 1)[..., 0])
    inks = Image.frombytes("CMYK", (18, 10), smooth(18, 10, 4).tobytes())
    options = {"format": "JPEG", "quality": 85, "optimize": True}
    for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
        yield f"colour{name}.jpg", saved(colour, **options, subsampling=subsampling)
    yield "progressive.jpg", saved(colour, **options, progressive=True, subsampling=2)
    yield "restarts.jpg", saved(colour, **options, restart_marker_blocks=1)
    yield "rgb.jpg", saved(colour, **options, keep_rgb=True)
    yield "grey.jpg", saved(grey, **options)
    yield "grey-progressive.jpg", saved(grey, **options, progressive=True)
    cmyk = saved(inks, **options)
    yield "cmyk.jpg", cmyk
    adobe = cmyk.index(b"Adobe")
    assert cmyk[adobe + 11] == 0
    yield "ycck.jpg", cmyk[:adobe + 11] + b"\2" + cmyk[adobe + 12:]  # the numbers of cmyk.jpg, said to be YCCK
    yield "turned6.jpg", saved(colour, **options, exif=b"Exif\0\0" + exif(6, ">"))
    yield "xmp.jpg", saved(colour, **options, xmp=xmp(8))
    yield "xmp-after-exif.jpg", saved(colour, **options, exif=b"Exif\0\0" + exif(3, "<"), xmp=xmp(6))
    yield "xmp-beside-exif.jpg", saved(colour, **options, exif=b"Exif\0\0" + exif(None, "<"), xmp=xmp(6))
    yield "turned3.jpg", saved(grey, **options, exif=b"Exif\0\0" + exif(3, "<"))


def webps():
    colour = Image.fromarray(smooth(17, 11, 3))
    alpha = Image.fromarray(smooth(17, 11, 4))
    yield "lossy.webp", saved(colour, format="WEBP", quality=80)
    yield "lossless.webp", saved(colour, format="WEBP", lossless=True)
    yield "lossy-alpha.webp", saved(alpha, format="WEBP", quality=80, exact=True)
    yield "lossless-alpha.webp", saved(alpha, format="WEBP", lossless=True, exact=True)
    yield "xmp.webp", saved(colour, format="WEBP", lossless=True, xmp=xmp(5, as_element=True))
    yield "turned8.webp", saved(colour, format="WEBP", lossless=True, exif=exif(8, "<"))
    animation = saved(alpha, format="WEBP", lossless=True, exact=True, save_all=True, append_images=[colour.convert("RGBA")])
    yield "animation.webp", animation
    # The animation with its canvas enlarged, and its first frame moved right and down.
    at = animation.index(b"VP8X") + 12
    wider = animation[:at] + (23).to_bytes(3, "little") + (15).to_bytes(3, "little") + animation[at + 6:]
    at = wider.index(b"ANMF") + 8
    yield "animation-small.webp", wider[:at] + (2).to_bytes(3, "little") + (1).to_bytes(3, "little") + wider[at + 6:]


def gifs():
    values = (smooth(15, 10, 1)[..., 0] // 17).astype(np.uint8)
    image = Image.frombytes("P", (15, 10), values.tobytes())
    image.putpalette(palette(16)[1])
    options = {"format": "GIF", "optimize": False}
    plain = saved(image, **options, interlace=0)
    yield "plain.gif", plain
    yield "interlaced.gif", saved(image, **options, interlace=1)
    clear = saved(image, **options, interlace=0, transparency=7)
    yield "clear.gif", clear
    other = image.copy()
    other.putpalette(palette(12)[1][::-1])
    yield "animation.gif", saved(image, **options, save_all=True, append_images=[other], transparency=3)

    def at(data, screen, corner):
        data = data[:6] + struct.pack("<HH", *screen) + data[10:]
        start = 13 + 3 * 16
        start = data.index(b",", start)
        return data[:start + 1] + struct.pack("<HH", *corner) + data[start + 5:]
    yield "small-frame.gif", at(plain, (21, 14), (4, 3))
    yield "small-frame-clear.gif", at(clear, (21, 14), (4, 3))
    yield "large-frame.gif", at(plain, (9, 8), (2, 1))
    # The colours with the frame instead of the screen; and none at all, which makes them grey.
    table, rest = plain[13:13 + 48], plain[13 + 48:]
    assert plain[10] & 0x87 == 0x83 and rest[0] == 0x2C and rest[9] == 0
    screen = plain[:10] + bytes([plain[10] & 0x70]) + plain[11:13]
    yield "local-palette.gif", screen + rest[:9] + b"\x83" + table + rest[10:]
    yield "no-palette.gif", screen + rest
    yield "small-palette.gif", plain[:10] + bytes([plain[10] & ~1]) + plain[11:13] + table[:24] + rest


def pixels(image):
    return {"width": image.width, "height": image.height, "pixels": image.tobytes().hex()}


def record_pictures():
    folder = os.path.join(FOLDER, "pictures")
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        os.remove(os.path.join(folder, name))
    records = []
    for name, data in (*jpegs(), *pngs(), *webps(), *gifs()):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
        if name == "grey2-clear.png":  # Pillow scales the pixels to 8 bits, but not the transparent grey
            image.info["transparency"] *= 85
        record = {"name": name, **pixels(image.convert("RGB"))}
        if image.has_transparency_data:
            under = Image.new("RGB", image.size, (255, 255, 255))
            rgba = image.convert("RGBA")
            under.paste(rgba, mask=rgba.getchannel("A"))
            record["over_white"] = under.tobytes().hex()
        records.append(record)
    return records


def record_damaged():
    chance, records = random.Random(1), []
    for name, data in (*pngs(), *gifs()):
        for _ in range(12):
            at, bit = chance.randrange(len(data)), chance.randrange(8)
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            try:
                image = Image.open(io.BytesIO(bytes(changed)))
                image.load()
                seen = zlib.crc32(ImageOps.exif_transpose(image).convert("RGB").tobytes())
            except Exception:
                seen = None
            records.append({"name": name, "at": at, "bit": bit, "seen": seen})
    return records


def record_squares():
    resized = []
    for size, to in (((40, 30), (16, 12)), ((7, 5), (20, 13)), ((1, 9), (4, 4)), ((9, 1), (5, 7)), ((1, 1), (3, 2)),
                     ((33, 17), (33, 5)), ((17, 33), (5, 33)), ((12, 11), (12, 11)), ((200, 3), (7, 7)),
                     ((640, 480), (9, 7)), ((31, 29), (30, 30)), ((5, 64), (64, 5)), ((20, 90), (13, 40)), ((50, 40), (1, 1))):
        for how in (Image.Resampling.BICUBIC, Image.Resampling.BILINEAR, Image.Resampling.LANCZOS):
            image = Image.fromarray(patterned(*size)).resize(to, how)
            resized.append({"from": size, "filter": how.name.lower(), **pixels(image)})
    plain = {"do_rescale": False, "do_normalize": False, "return_tensors": "np"}
    squares = []
    for size in ((40, 30), (7, 9), (1, 5), (64, 3), (15, 70)):
        image = Image.fromarray(patterned(*size))
        for fit, edge, side in (("crop", 12, 12), ("crop", 16, 11), ("crop", 5, 12), ("pad", 12, 12), ("stretch", 12, 12)):
            crop = {"size": {"shortest_edge": edge}, "crop_size": {"height": side, "width": side}}
            square = {"crop": lambda: CLIPImageProcessorPil(**crop), "pad": lambda: LlavaImageProcessorPil(do_pad=True, **crop),
                      "stretch": lambda: SiglipImageProcessorPil(size={"height": side, "width": side},
                                                                 resample=Image.Resampling.BICUBIC)}[fit]()
            made = square(image, **plain)["pixel_values"][0].astype(np.uint8).transpose(1, 2, 0)
            squares.append({"from": size, "fit": fit, "shortest_edge": edge, **pixels(Image.fromarray(made))})
    tiles = []
    for size in ((40, 30), (7, 9), (1, 5), (64, 3), (15, 70), (5, 5), (23, 11)):
        for grids in ([[1, 2], [2, 1], [2, 2]], [[3, 1], [1, 3], [1, 1]]):
            pinpoints = [[rows * 4, columns * 4] for rows, columns in grids]
            next_ = LlavaNextImageProcessorPil(size={"shortest_edge": 4}, crop_size={"height": 4, "width": 4}, image_grid_pinpoints=pinpoints)
            made = next_(Image.fromarray(patterned(*size)), **plain)["pixel_values"][0].astype(np.uint8).transpose(0, 2, 3, 1)
            tiles.append({"from": size, "grids": grids, "squares": [square.tobytes().hex() for square in made]})
    split = []
    for size in ((40, 30), (7, 9), (1, 5), (64, 3), (15, 70), (5, 5), (23, 11), (4, 4)):
        for edge, splits in ((12, True), (9, True), (4, True), (10, False)):
            cutter = Idefics3ImageProcessorPil(size={"longest_edge": edge}, max_image_size={"longest_edge": 4}, do_image_splitting=splits)
            made = cutter(Image.fromarray(patterned(*size)), **plain)["pixel_values"][0].astype(np.uint8).transpose(0, 2, 3, 1)
            split.append({"from": size, "longest_edge": edge, "split": splits, "squares": [square.tobytes().hex() for square in made]})
    side = {"size": {"shortest_edge": 4}, "crop_size": {"height": 4, "width": 4}, "return_tensors": "np"}
    numbers = CLIPImageProcessorPil()(Image.fromarray(patterned(9, 7)), **side)["pixel_values"][0]
    return {"resized": resized, "squares": squares, "tiles": tiles, "split": split, "normalized": [float(v) for v in numbers.reshape(-1)]}


def main():
    warnings.simplefilter("ignore")
    os.makedirs(os.path.join(FOLDER, "fixtures"), exist_ok=True)
    for name, records in (("pictures", record_pictures()), ("damaged", record_damaged()), ("squares", record_squares())):
        with open(os.path.join(FOLDER, "fixtures", name + ".json"), "w", encoding="ascii") as file:
            json.dump(records, file, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    main()
