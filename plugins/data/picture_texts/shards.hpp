// WebDataset's form: tar archives in which the files of a sample stand side by side and differ in what
// follows the first dot of their names: 000.jpg and 000.txt. Source: github.com/webdataset/webdataset.
#pragma once

#include "plugins/data/picture_texts/conversation.hpp"

namespace pipeline::picture_texts {

// A sample is a picture, or several with numbers as WebDataset's users give them (000.0.jpg, 000.1.jpg), in
// whose order they are, and its caption (*.txt, *.caption, or in *.json under the caption's column) or its
// conversation (*.json with turns, see message_records.hpp). Its id is the name before the dot, and its
// picture's name is the archive's, a slash and the file's. Throws as read_conversations() does.
void read_shards(const sources::SourceFiles& source, const CaptionColumns& columns,
                 messages::Collector& collector, const ReadHooks& hooks);

// Reads a folder's files as read_shards() reads an archive's: cat.jpg and cat.txt, told apart by their last
// dot. The picture's name is the file's.
void read_pictures_with_texts(const sources::SourceFiles& source, const CaptionColumns& columns,
                              messages::Collector& collector, const ReadHooks& hooks);

}  // namespace pipeline::picture_texts
