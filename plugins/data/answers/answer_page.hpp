// A page that shows held-out questions, and their pictures, with answer and truth.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipeline::answers {

struct ShownAnswer {
  std::string id, picture;  // a PNG file; empty: none
  std::string question, truth, answer;
  std::string blind;  // the answer without the picture
  bool right = false;

  std::string pack() const;
  static ShownAnswer unpack(std::string_view bytes);
};

// One HTML file, with its pictures inside and nothing from elsewhere.
std::string answer_page(const std::vector<ShownAnswer>& answers, const std::string& title);

}  // namespace pipeline::answers
