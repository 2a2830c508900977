#include "plugins/scores/answers/answer_score.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <unordered_map>
#include <vector>

namespace pipeline::answers {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

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

bool is_space(std::string_view letter) {
  static constexpr std::string_view kWide[] = {
      "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
      "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  const char c = letter[0];
  if (letter.size() == 1) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
  return std::ranges::find(kWide, letter) != std::end(kWide);
}

// The letters of UTF-8 text without spaces, and where each begins; the end at last.
struct Letters {
  std::string text;
  std::vector<size_t> starts;

  explicit Letters(std::string_view given) {
    for (size_t at = 0, end = 0; at < given.size(); at = end) {
      end = at + 1;
      while (end < given.size() && (static_cast<unsigned char>(given[end]) & 0xc0) == 0x80) ++end;
      const std::string_view letter = given.substr(at, end - at);
      if (is_space(letter)) continue;
      starts.push_back(text.size());
      text += letter;
    }
    starts.push_back(text.size());
  }
  size_t size() const { return starts.size() - 1; }
  std::string_view gram(size_t first, size_t letters) const {
    return std::string_view(text).substr(starts[first], starts[first + letters] - starts[first]);
  }
};

ChrfCounts counts_of(const Letters& truth, const Letters& text) {
  ChrfCounts counts;
  for (size_t n = 1; n <= counts.size(); ++n) {
    SharedGrams& grams = counts[n - 1];
    std::unordered_map<std::string_view, int64_t> left;
    for (size_t i = 0; i + n <= truth.size(); ++i, ++grams.wanted) ++left[truth.gram(i, n)];
    for (size_t i = 0; i + n <= text.size(); ++i, ++grams.given)
      if (const auto found = left.find(text.gram(i, n)); found != left.end() && found->second-- > 0)
        ++grams.shared;
  }
  return counts;
}

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

std::vector<std::string> words_of(std::string_view answer) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty() && word != "a" && word != "an" && word != "the") words.push_back(word);
    word.clear();
  };
  for (const char c : answer) {
    if (is_space(c))
      end_word();
    else if (!is_punctuation(c))
      word += lower(c);
  }
  end_word();
  return words;
}

AnswerScore score_answer(std::string_view truth, std::string_view answer) {
  const std::vector<std::string> wanted = words_of(truth), given = words_of(answer);
  if (wanted.empty() || given.empty()) {
    const double same = wanted.empty() && given.empty() ? 1 : 0;
    return {same, same};
  }
  std::map<std::string_view, int64_t> left;
  for (const std::string& word : wanted) ++left[word];
  int64_t shared = 0;
  for (const std::string& word : given) shared += left[word]-- > 0 ? 1 : 0;
  const double total = static_cast<double>(wanted.size() + given.size());
  return {wanted == given ? 1.0 : 0.0, 2 * static_cast<double>(shared) / total};
}

AnswerScore score_answer(std::span<const std::string> truths, std::string_view answer) {
  AnswerScore best;
  for (const std::string& truth : truths) {
    const AnswerScore score = score_answer(truth, answer);
    best = {std::max(best.exact, score.exact), std::max(best.f1, score.f1)};
  }
  return best;
}

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

ChrfCounts chrf_counts(std::span<const std::string> truths, std::string_view text) {
  const Letters given(text);
  ChrfCounts best;
  double most = -1;
  for (const std::string& truth : truths) {
    const ChrfCounts counts = counts_of(Letters(truth), given);
    if (const double score = chrf(counts); score > most) best = counts, most = score;
  }
  return best;
}

void add(ChrfCounts& sum, const ChrfCounts& more) {
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i].given += more[i].given;
    sum[i].wanted += more[i].wanted;
    sum[i].shared += more[i].shared;
  }
}

double chrf(const ChrfCounts& counts) {
  double precision = 0, recall = 0, lengths = 0;
  for (const SharedGrams& grams : counts) {
    if (grams.given == 0 || grams.wanted == 0) continue;
    precision += grams.shared / grams.given;
    recall += grams.shared / grams.wanted;
    ++lengths;
  }
  if (precision + recall == 0) return 0;
  precision /= lengths, recall /= lengths;
  constexpr double kBeta2 = 4;
  return (1 + kBeta2) * precision * recall / (kBeta2 * precision + recall);
}

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
