// COCO's annotations: one object with the lists "images" and "annotations", of which each has a caption.
#pragma once

#include "plugins/data/picture_texts/conversation.hpp"

namespace pipeline::picture_texts {

// Whether the file is COCO's, by its first record of a picture or a caption. Hooks may throw to stop.
bool is_coco(const std::string& path, const ReadHooks& hooks);

// A sample is an annotation; its picture's name is that of the picture with its "image_id". Memory is that of
// all names and captions, as these come in any order. Throws as read_conversations() does.
void read_coco(const sources::SourceFiles& source, const CaptionColumns& columns,
               messages::Collector& collector, const ReadHooks& hooks);

}  // namespace pipeline::picture_texts
