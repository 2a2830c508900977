#include "plugins/scores/answers/vqa_accuracy.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <unordered_map>

namespace pipeline::answers {
namespace {

constexpr std::string_view kPunctuation = ";/[]\"{}()=+\\_-><@`,?!";

// Words that are also found with one of their apostrophes left out.
constexpr const char* kContractions =
    "ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't "
    "he'd he'd've he's how'd how'll how's isn't it'd it'd've it'll ma'am mightn't mightn't've might've "
    "mustn't must've needn't not've o'clock oughtn't 'ow's'at shan't she'd've should've shouldn't "
    "shouldn't've somebody'd've somebody'll somebody's someone'd someone'd've someone'll someone's "
    "something'd something'd've something'll that's there'd there'd've there're there's they'd they'd've "
    "they'll they're they've 'twas wasn't we'd've we've weren't what'll what're what's what've when's "
    "where'd where's where've who'd who'd've who'll who's who've why'll why're why's won't would've "
    "wouldn't wouldn't've y'all y'all'll y'all'd've you'd you'd've you'll you're you've";

const std::unordered_map<std::string, std::string>& contractions() {
  static const auto all = [] {
    std::unordered_map<std::string, std::string> map{{"somebody'd", "somebodyd"}};  // the evaluation's
    std::istringstream words(kContractions);
    for (std::string word; words >> word;)
      for (size_t at = 0; (at = word.find('\'', at)) != std::string::npos; ++at)
        map.emplace(std::string(word).erase(at, 1), word);
    return map;
  }();
  return all;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool has_comma_in_number(std::string_view text) {
  for (size_t i = 1; i + 1 < text.size(); ++i)
    if (text[i] == ',' && is_digit(text[i - 1]) && is_digit(text[i + 1])) return true;
  return false;
}

// A mark that stands next to a space goes, as do all marks of a text with 1,000 in it; others become spaces.
std::string without_punctuation(const std::string& text) {
  std::string result = text;
  const bool has_number = has_comma_in_number(text);
  for (const char mark : kPunctuation) {
    const bool is_beside_space = text.find(std::string{mark, ' '}) != std::string::npos ||
                                 text.find(std::string{' ', mark}) != std::string::npos;
    if (has_number || is_beside_space)
      std::erase(result, mark);
    else
      std::replace(result.begin(), result.end(), mark, ' ');
  }
  std::string kept;
  for (size_t i = 0; i < result.size(); ++i)
    if (result[i] != '.' || (i + 1 < result.size() && is_digit(result[i + 1]))) kept += result[i];
  return kept;
}

std::string digits_of(const std::string& word) {
  static constexpr std::array<const char*, 11> kNumbers{"zero", "one",   "two",   "three", "four", "five",
                                                        "six",  "seven", "eight", "nine",  "ten"};
  if (word == "none") return "0";
  const auto found = std::find(kNumbers.begin(), kNumbers.end(), word);
  return found == kNumbers.end() ? word : std::to_string(found - kNumbers.begin());
}

}  // namespace

std::string vqa_form(std::string_view answer) {
  std::string text(answer);
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  const size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
  text = begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
  text = without_punctuation(text);
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  std::istringstream words(text);
  std::string result;
  for (std::string word; words >> word;) {
    word = digits_of(word);
    if (word == "a" || word == "an" || word == "the") continue;
    if (const auto found = contractions().find(word); found != contractions().end()) word = found->second;
    result += (result.empty() ? "" : " ") + word;
  }
  return result;
}

double vqa_accuracy(std::span<const std::string> truths, std::string_view answer) {
  const std::string given = vqa_form(answer);
  const auto all = static_cast<double>(truths.size());
  const auto same = static_cast<double>(
      std::ranges::count_if(truths, [&](const std::string& truth) { return vqa_form(truth) == given; }));
  if (same == 0) return 0;
  const auto credit = [](double people) { return std::min(people / 3, 1.0); };
  return (same * credit(same - 1) + (all - same) * credit(same)) / all;
}

}  // namespace pipeline::answers
