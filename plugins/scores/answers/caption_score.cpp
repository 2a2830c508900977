#include "plugins/scores/answers/caption_score.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

namespace pipeline::answers {
namespace {

constexpr size_t kLongest = 4;  // words of an n-gram
constexpr double kSigma = 6;    // of the penalty for another length

using Grams = std::map<std::string, double>;  // how often each is there, or what it weighs

// N-grams by their number of words.
std::array<Grams, kLongest> grams_of(std::string_view text) {
  const std::vector<std::string> words = caption_words(text);
  std::array<Grams, kLongest> grams;
  for (size_t first = 0; first < words.size(); ++first) {
    std::string gram;
    for (size_t n = 0; n < kLongest && first + n < words.size(); ++n) {
      gram += words[first + n] + ' ';
      ++grams[n][gram];
    }
  }
  return grams;
}

struct Weighed {
  std::array<Grams, kLongest> grams;
  std::array<double, kLongest> norm{};
  double length = 0;  // in pairs of words, as coco-caption counts
};

// Weights of n-grams, by which share of the pictures has one in a true caption.
class Weights {
 public:
  explicit Weights(std::span<const WrittenCaption> captions)
      : log_pictures_(std::log(static_cast<double>(captions.size()))) {
    for (const WrittenCaption& caption : captions) {
      std::set<std::string> seen;
      for (const std::string& truth : caption.truths)
        for (const Grams& grams : grams_of(truth))
          for (const auto& [gram, count] : grams) seen.insert(gram);
      for (const std::string& gram : seen) ++pictures_with_[gram];
    }
  }

  Weighed of(std::string_view text) const {
    Weighed result{.grams = grams_of(text)};
    for (const auto& [gram, count] : result.grams[1]) result.length += count;
    for (size_t n = 0; n < kLongest; ++n) {
      for (auto& [gram, weight] : result.grams[n]) {
        const auto found = pictures_with_.find(gram);
        weight *= log_pictures_ - (found == pictures_with_.end() ? 0 : std::log(found->second));
        result.norm[n] += weight * weight;
      }
      result.norm[n] = std::sqrt(result.norm[n]);
    }
    return result;
  }

 private:
  double log_pictures_;
  Grams pictures_with_;
};

double similarity(const Weighed& text, const Weighed& truth) {
  double sum = 0;
  for (size_t n = 0; n < kLongest; ++n) {
    if (text.norm[n] == 0 || truth.norm[n] == 0) continue;
    double product = 0;
    for (const auto& [gram, weight] : text.grams[n])
      if (const auto found = truth.grams[n].find(gram); found != truth.grams[n].end())
        product += std::min(weight, found->second) * found->second;  // more often than there is no better
    sum += product / (text.norm[n] * truth.norm[n]);
  }
  const double apart = text.length - truth.length;
  return sum / kLongest * std::exp(-apart * apart / (2 * kSigma * kSigma));
}

}  // namespace

std::vector<std::string> caption_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    // n't goes with its n.
    size_t clitic = word.size() > 3 && word.ends_with("n't") ? word.size() - 3 : std::string::npos;
    for (const char* end : {"'s", "'re", "'ve", "'ll", "'d", "'m"})
      if (word.ends_with(end) && word.size() > std::string_view(end).size())
        clitic = word.size() - std::string_view(end).size();
    std::string rest = clitic == std::string::npos ? "" : word.substr(clitic);
    word.resize(std::min(clitic, word.size()));
    std::erase(word, '\'');
    if (!word.empty()) words.push_back(word);
    if (!rest.empty()) words.push_back(std::move(rest));
    word.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_letter =
        (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || static_cast<unsigned char>(c) >= 0x80;
    if (c >= 'A' && c <= 'Z')
      word += static_cast<char>(c + 32);
    else if (is_letter || c == '\'')
      word += c;
    else if ((c == '-' || c == '.' || c == ',') && i > 0 && i + 1 < text.size() && text[i - 1] != ' ' &&
             std::isalnum(static_cast<unsigned char>(text[i + 1])) &&
             (c == '-' || (text[i + 1] >= '0' && text[i + 1] <= '9')))
      word += c;  // t-shirt, 1.5
    else
      end_word();
  }
  end_word();
  return words;
}

std::vector<double> cider_d(std::span<const WrittenCaption> captions) {
  const Weights weights(captions);
  std::vector<double> scores;
  for (const WrittenCaption& caption : captions) {
    const Weighed text = weights.of(caption.text);
    double sum = 0;
    for (const std::string& truth : caption.truths) sum += similarity(text, weights.of(truth));
    scores.push_back(caption.truths.empty() ? 0 : 10 * sum / static_cast<double>(caption.truths.size()));
  }
  return scores;
}

}  // namespace pipeline::answers
