// Mutations of the user's own, scored as Meier et al. do ("Language models enable zero-shot prediction of the
// effects of mutations on protein function", NeurIPS 2021, for ESM-1v). T are the residues that a variant
// changes, x the sequence:
//
//   masked             sum over T of ln p(mutant | x without T) - ln p(wild type | x without T)
//   wild-type          sum over T of ln p(mutant | x) - ln p(wild type | x), nothing masked
//   pseudo-perplexity  the sum over all residues of ln p(residue | the others), of the mutant, less that of
//                      the wild type
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include <ATen/core/Tensor.h>
#include <pipeline/numbers.hpp>

#include "plugins/data/files/data_errors.hpp"
#include "plugins/data/proteins/report_text.hpp"
#include "plugins/data/proteins/splits.hpp"
#include "plugins/data/records/table.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/figures/svg.hpp"
#include "plugins/scores/labels/labels.hpp"
#include "plugins/tasks/protein/objective.hpp"
#include "plugins/tasks/protein/variants.hpp"

namespace pipeline::tasks::protein {
namespace {

constexpr const char* kVariantFile = "variants.csv";

using Places = std::vector<size_t>;  // ascending
using Substitutions = std::vector<Substitution>;

// A forward pass over a whole sample: what it does not see, and what it is asked for.
struct Question {
  const proteins::Sample* sample;
  std::set<size_t> masked;
  Places targets;
};

// on_answer(question, target by number, ln p of the twenty amino acids, ln of what they have together of all
// tokens). Many questions in a forward pass.
void ask(const std::vector<Question>& questions, Packing packing, const Inference& inference,
         const std::function<void(size_t, size_t, const float*, double)>& on_answer) {
  const auto rows_of = [&](size_t i) { return static_cast<int64_t>(questions[i].sample->size()); };
  inference.in_passes(questions.size(), rows_of, [&](size_t begin, size_t end) {
    Packer packer(packing);
    std::vector<std::pair<size_t, size_t>> targets;  // question, and number in it
    for (size_t q = begin; q < end; ++q) {
      const Question& question = questions[q];
      proteins::Masking masking = proteins::nothing_masked(question.sample->codes);
      for (const size_t place : question.masked) masking.tokens[place] = residues::kMaskToken;
      for (const size_t place : question.targets) masking.is_target[place] = 1;
      for (size_t t = 0; t < question.targets.size(); ++t) targets.emplace_back(q, t);
      packer.add(*question.sample, all_rows(*question.sample), masking);
    }
    const pipeline::protein::Outputs outputs = inference.outputs(packer);
    const at::Tensor log_p = outputs.log_probabilities.to(at::kCPU).contiguous();
    const at::Tensor share =
        outputs.log_share.defined() ? outputs.log_share.to(at::kCPU).contiguous() : at::Tensor();
    for (size_t t = 0; t < targets.size(); ++t)
      on_answer(targets[t].first, targets[t].second,
                log_p.const_data_ptr<float>() + t * residues::kAminoAcidCount,
                share.defined() ? static_cast<double>(share.const_data_ptr<float>()[t]) : 0);
  });
}

// The places with what stands for them and their copies in other chains, which would give them away.
std::set<size_t> hidden_with(const proteins::Sample& sample, const Places& places) {
  std::set<size_t> hidden(places.begin(), places.end());
  for (size_t i = 0; i < sample.copy_of.size(); ++i)
    for (const size_t place : places)
      if (sample.copy_of[i] == sample.copy_of[place]) hidden.insert(i);
  return hidden;
}

// name: of the protein, where the table does not say it.
std::string row_of(const Variant& variant, const std::string& name, const std::string& score,
                   const std::string& problem) {
  return proteins::csv_field(variant.id.empty() ? name : variant.id) + "," +
         proteins::csv_field(variant.mutation) + "," + proteins::csv_field(variant.chain) + "," + score +
         "," + proteins::csv_field(variant.measured_text) + "," + proteins::csv_field(problem) + "\n";
}

std::vector<double> marginals(const proteins::Sample& sample, const std::vector<Substitutions>& variants,
                              bool is_masked, Packing packing, const Inference& inference) {
  const auto places_of = [](const Substitutions& variant) {
    std::set<size_t> places;
    for (const Substitution& one : variant) places.insert(one.place);
    return Places(places.begin(), places.end());
  };
  std::map<Places, size_t> number_of;  // of the question
  std::vector<Question> questions;
  if (is_masked) {
    for (const auto& variant : variants) {
      const Places places = places_of(variant);
      if (places.empty()) continue;  // the wild type
      if (!number_of.try_emplace(places, questions.size()).second) continue;
      questions.push_back({&sample, hidden_with(sample, places), places});
    }
  } else {
    std::set<size_t> all;
    for (const auto& variant : variants)
      for (const Substitution& one : variant) all.insert(one.place);
    questions.push_back({&sample, {}, Places(all.begin(), all.end())});
  }
  std::map<std::pair<size_t, size_t>, std::array<float, residues::kAminoAcidCount>>
      answers;  // question, place
  ask(questions, packing, inference, [&](size_t question, size_t target, const float* log_p, double) {
    std::copy_n(log_p, size_t{residues::kAminoAcidCount},
                answers[{question, questions[question].targets[target]}].begin());
  });
  std::vector<double> scores;
  for (const auto& variant : variants) {
    const size_t question = is_masked && !variant.empty() ? number_of.at(places_of(variant)) : 0;
    double score = 0;
    for (const Substitution& one : variant) {
      const auto& log_p = answers.at({question, one.place});
      score += static_cast<double>(log_p[one.to]) - static_cast<double>(log_p[one.from]);
    }
    scores.push_back(score);
  }
  return scores;
}

std::vector<double> pseudo_likelihoods(const proteins::Sample& sample,
                                       const std::vector<Substitutions>& variants, Packing packing,
                                       const Inference& inference) {
  const auto of = [&](const proteins::Sample& one) {
    std::vector<Question> questions;
    for (size_t place = 0; place < one.size(); ++place)
      if (one.is_known(place)) questions.push_back({&one, hidden_with(one, {place}), {place}});
    double sum = 0;
    ask(questions, packing, inference, [&](size_t question, size_t, const float* log_p, double log_share) {
      sum += static_cast<double>(log_p[one.codes[questions[question].targets[0]]]) + log_share;
    });
    return sum;
  };
  const double wild_type = of(sample);
  std::vector<double> scores;
  for (const auto& variant : variants) {
    proteins::Sample mutant = sample;
    for (const Substitution& one : variant) mutant.codes[one.place] = one.to;
    scores.push_back(variant.empty() ? 0 : of(mutant) - wild_type);
  }
  return scores;
}

class VariantScores : public Prediction {
 public:
  using Prediction::Prediction;

  void predict(const ProteinBatch& batch, const Inference& inference, const PredictionSink& sink) override {
    for (const uint64_t id : batch.ids) {
      const uint64_t samples = dataset_.size(batch.split);
      if (!variants().has_names() && samples > 1)
        setting_.errors("predict.mutations", concat("has no column \"", setting_.config.data.id_column,
                                                    "\" (task.data.id_column), and there are ", samples,
                                                    " proteins: it must say of which one each mutation is"));
      std::string rows = id == 0 ? "id,mutation,chain,score,measured,problem\n" : "";
      rows += rows_of(batch.split, id, inference);
      if (id + 1 == samples) rows += rows_of_others(batch.split);  // behind all others
      sink.append(id, kVariantFile, rows);
    }
  }
  // Says what has no score, and how the scores rank beside what was measured.
  void finish(Split split, const std::filesystem::path& folder, const Inference& /*inference*/,
              const PredictionSink& sink) override {
    struct Protein {
      std::vector<double> scores, measured;
    };
    std::map<std::string, Protein> proteins;
    uint64_t rows = 0, without = 0;
    std::string first_problem;
    files::with_data_errors([&] {
      records::RecordReport report;
      records::read_table((folder / kVariantFile).string(), sources::Format::kCsv,
                          {{.name = "id"}, {.name = "score"}, {.name = "measured"}, {.name = "problem"}},
                          [&](records::Row&& row) {
                            ++rows;
                            const std::optional<double> score = number_in(*row.fields[1]);
                            if (!score) {
                              if (without++ == 0) first_problem = *row.fields[3];
                            } else if (const auto measured = number_in(*row.fields[2])) {
                              const std::string_view accession =
                                  proteins::accession_of(*row.fields[0]);  // whichever of its names is there
                              Protein& protein =
                                  proteins[accession.empty() ? *row.fields[0] : std::string(accession)];
                              protein.scores.push_back(*score);
                              protein.measured.push_back(*measured);
                            }
                          },
                          report);
    });
    setting_.context.info("mutations  ", rows - without, " scored (", options().scoring, "), in ",
                          kVariantFile);
    if (without > 0)
      setting_.context.warn(without, " of ", rows,
                            " mutations have no score, and their problem beside them: ", first_problem,
                            proposed_offset(split));
    if (options().measured_column.empty()) return;
    std::string table = "id,mutations,spearman\n";
    double sum = 0;
    size_t counted_proteins = 0;
    for (const auto& [name, protein] : proteins) {
      const auto rank = labels::spearman(protein.scores, protein.measured);
      table += proteins::csv_field(name) + "," + std::to_string(protein.scores.size()) + "," +
               (rank ? figures::decimal(*rank, 4) : "") + "\n";
      if (!rank) {
        setting_.context.warn("spearman   ", name, ": none, of ",
                              proteins::counted(protein.scores.size(), "mutation"),
                              ": there must be two at least, with different scores and measurements");
        continue;
      }
      sum += *rank;
      if (++counted_proteins <= proteins::kNamesShown)
        setting_.context.info("spearman   ", name, "  ", figures::decimal(*rank), " over ",
                              protein.scores.size(), " mutations");
    }
    if (counted_proteins > 1)
      setting_.context.info("spearman   mean ", figures::decimal(sum / static_cast<double>(counted_proteins)),
                            " of ", counted_proteins, " proteins");
    sink.file(0, "spearman.csv", table);
  }

 private:
  const Variants& variants() {
    if (variants_) return *variants_;
    const ProteinConfig& config = setting_.config;
    const Context& context = setting_.context;
    files::with_data_errors([&] {
      variants_.emplace(options().mutations,
                        VariantColumns{.id = config.data.id_column,
                                       .mutation = options().mutation_column,
                                       .measured = options().measured_column},
                        records::quotes_named(config.data.quotes), proteins::cache_folder(config, context),
                        proteins::data_hooks("reading mutations", context));
    });
    if (variants_->not_numbers() > 0)
      context.warn(options().mutations.string(), ": left out of the correlation, as no numbers: ",
                   proteins::counted(variants_->not_numbers(), "value"), " of ", options().measured_column,
                   ", the first ", variants_->first_not_number());
    return *variants_;
  }
  std::vector<const Variant*> variants_of(Split split, uint64_t id) {
    const std::vector<std::string> chains = dataset_.chain_names(split, id);
    return variants().of(dataset_.name(split, id), chains.size() == 1 ? chains.front() : "");
  }
  std::string rows_of(Split split, uint64_t id, const Inference& inference) {
    const std::vector<const Variant*> wanted = variants_of(split, id);
    if (wanted.empty()) return "";
    const std::string name = dataset_.name(split, id);
    const proteins::Sample sample = dataset_.sample(split, id);
    const std::vector<std::string> chains = dataset_.chain_names(split, id);
    const auto offset = static_cast<int32_t>(options().mutation_offset);
    std::vector<Substitutions> usable;
    std::vector<std::string> problems;
    for (const Variant* variant : wanted) try {
        usable.push_back(substitutions_of(*variant, sample, chains, offset));
        problems.emplace_back();
      } catch (const files::DataError& error) {
        problems.emplace_back(error.what());
      }
    const Packing packing = packing_of(setting_.config);
    const std::vector<double> scores =
        options().scoring == "pseudo-perplexity"
            ? pseudo_likelihoods(sample, usable, packing, inference)
            : marginals(sample, usable, options().scoring == "masked", packing, inference);
    require_numbers(std::span(scores), name, concat("score (", kVariantFile, ")"));
    std::string rows;
    for (size_t i = 0, next = 0; i < wanted.size(); ++i)
      rows +=
          row_of(*wanted[i], name, problems[i].empty() ? proteins::exactly(scores[next++]) : "", problems[i]);
    return rows;
  }
  std::string rows_of_others(Split split) {
    std::set<uint64_t> known;
    const uint64_t samples = dataset_.size(split);
    for (uint64_t id = 0; id < samples; ++id)
      for (const Variant* variant : variants_of(split, id)) known.insert(variant->row);
    const std::string name = dataset_.name(split, samples - 1);
    std::string rows;
    for (const Variant& variant : variants().all())
      if (!known.contains(variant.row))
        rows += row_of(variant, name, "",
                       "no protein or chain of this name is predicted: it is another, or was left out");
    return rows;
  }
  // Proposes an offset for the first protein whose mutations are all numbered otherwise than its residues.
  std::string proposed_offset(Split split) {
    for (uint64_t id = 0; id < dataset_.size(split); ++id) {
      setting_.context.throw_if_cancelled();
      const std::vector<const Variant*> wanted = variants_of(split, id);
      if (wanted.empty()) continue;
      const auto offset = fitting_offset(wanted, dataset_.sample(split, id), dataset_.chain_names(split, id));
      if (offset && *offset != options().mutation_offset)
        return concat("; with ", *offset, " added to their numbers those of ", dataset_.name(split, id),
                      " all fit it: if they are numbered so, set task.predict.mutation_offset = ", *offset);
    }
    return "";
  }

  std::optional<Variants> variants_;  // once they are asked for
};

}  // namespace

std::unique_ptr<Prediction> variant_scores(const Setting& setting, const proteins::Dataset& dataset) {
  return std::make_unique<VariantScores>(setting, dataset);
}

}  // namespace pipeline::tasks::protein
