"""Takes the pictures out of a colour font: PNG files in its CBDT table, one for each glyph."""
import sys


def glyph_of(points, characters, ligatures):
    """The glyph of an emoji, or None. A sequence is one ligature in this kind of font, of its first
    character's glyph and those that follow; `characters` is the cmap, `ligatures` {first glyph: [(those that
    follow, glyph)]}."""
    glyphs = [characters.get(point) for point in points]
    if len(glyphs) == 1:
        return glyphs[0]
    return next((glyph for rest, glyph in ligatures.get(glyphs[0], ()) if rest == glyphs[1:]), None)


def read_ligatures(font):
    ligatures = {}
    for lookup in font["GSUB"].table.LookupList.Lookup:
        for table in lookup.SubTable:
            table = getattr(table, "ExtSubTable", table)
            for first, found in getattr(table, "ligatures", {}).items():
                ligatures.setdefault(first, []).extend((one.Component, one.LigGlyph) for one in found)
    return ligatures


class EmojiFont:
    def __init__(self, path, packages):
        """`packages` is the folder that has fontTools; what of it is used is plain Python."""
        sys.path.insert(0, packages)
        try:
            from fontTools.ttLib import TTFont
        finally:
            sys.path.remove(packages)
        font = TTFont(path, lazy=True)
        self.characters = font.getBestCmap()
        self.ligatures = read_ligatures(font)
        self.bitmaps = font["CBDT"].strikeData[0]

    def picture(self, points):
        """The bytes of the PNG file as the font has them, or None."""
        bitmap = self.bitmaps.get(glyph_of(points, self.characters, self.ligatures))
        return bitmap.imageData if bitmap else None
