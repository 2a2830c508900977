// A page that shows held-out questions, and their pictures, with answer and truth.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipeline::answers {

struct ShownAnswer {
  std::string id;
  std::vector<std::string> pictures;  // PNG files
  std::string question, truth, answer;
  std::string blind;  // the answer without the pictures
  bool right = false;

  std::string pack() const;
  static ShownAnswer unpack(std::string_view bytes);
};

// One HTML file, with its pictures inside and nothing from elsewhere.
std::string answer_page(const std::vector<ShownAnswer>& answers, const std::string& title);

}  // namespace pipeline::answers
