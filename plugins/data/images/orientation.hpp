#pragma once

#include "plugins/data/images/formats.hpp"

namespace pipeline::images {

// The orientation that EXIF data state, or, where these have none, XMP data: as Pillow's exif_transpose has
// it.
Orientation stated_orientation(Bytes exif, Bytes xmp);

// The picture as it is to be looked at.
Image upright(Image image, int orientation);

}  // namespace pipeline::images
