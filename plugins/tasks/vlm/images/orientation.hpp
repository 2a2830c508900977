#pragma once

#include "plugins/tasks/vlm/images/formats.hpp"

namespace pipeline::vlm {

// The orientation (1 to 8) that EXIF data state; 1 where they state none or are damaged, since the picture
// itself is all right then.
int exif_orientation(Bytes exif);

// The picture as it is to be looked at.
Image upright(Image image, int orientation);

}  // namespace pipeline::vlm
