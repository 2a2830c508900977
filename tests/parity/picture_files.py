"""Pictures of many shapes, for comparisons."""
import os


def write_pictures(folder, sizes, seed=0):
    """A file of smooth noise of each (width, height), with its path."""
    import numpy
    from PIL import Image

    random, paths = numpy.random.default_rng(seed), []
    for i, (width, height) in enumerate(sizes):
        small = Image.fromarray(random.integers(0, 256, (5, 6, 3), dtype=numpy.uint8))
        paths.append(os.path.join(folder, f"{i}.png"))
        small.resize((width, height), Image.Resampling.BICUBIC).save(paths[-1])
    return paths
