// WebDataset's form: tar archives in which the files of a sample stand side by side and differ in what
// follows the first dot of their names: 000.jpg and 000.txt. Source: github.com/webdataset/webdataset.
#pragma once

#include <filesystem>
#include <vector>

#include "plugins/data/text_pairs/input.hpp"
#include "plugins/tasks/vlm/data/conversation.hpp"

namespace pipeline::vlm {

// A *.tar file, or a folder of such.
bool is_sharded(const std::filesystem::path& path);
// The file itself, or the folder's *.tar files. Throws DataError if it has none.
std::vector<std::filesystem::path> shards_of(const std::filesystem::path& path);
// With a hash of their names, sizes and times: they are too large to be read for it.
text_pairs::SourceFile look_at_shards(const std::filesystem::path& path);

// A sample is a picture and its caption (*.txt, *.caption, or in *.json under the caption's column) or its
// conversation (*.json with turns, see message_records.hpp). Its id is the name before the dot, and its
// picture's name is the archive's, a slash and the file's. Throws as read_conversations() does.
void read_shards(const std::filesystem::path& path, const CaptionColumns& columns,
                 const messages::Collector& collector, const ReadHooks& hooks);

}  // namespace pipeline::vlm
