// CIDEr-D: how near captions are to those that people wrote of the same pictures, and of no others (Vedantam
// et al., arXiv:1411.5726).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::answers {

struct WrittenCaption {
  std::string text;
  std::vector<std::string> truths;  // of the same picture
};

// Words in lower case without punctuation, clitics by themselves (it 's), as COCO's evaluation has them. Its
// tokenizer, Stanford's, has more rules, for abbreviations and for currencies.
std::vector<std::string> caption_words(std::string_view text);

// The score of each caption, from 0 to 10. Words are weighed by how few of these pictures have them in a true
// caption, so that a score depends on all of them, and is 0 where there is one picture alone.
std::vector<double> cider_d(std::span<const WrittenCaption> captions);

}  // namespace pipeline::answers
