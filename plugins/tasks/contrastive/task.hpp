// Pictures and their captions: two towers learn to bring together what belongs together.
#pragma once

#include <pipeline/torch/global_loss.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "plugins/data/picture_texts/source.hpp"
#include "plugins/models/two_towers/folder.hpp"
#include "plugins/models/two_towers/two_towers.hpp"
#include "plugins/tasks/common/language_task.hpp"
#include "plugins/tasks/contrastive/config.hpp"
#include "plugins/tasks/contrastive/text_rules.hpp"

namespace pipeline::tasks::contrastive {

struct ContrastiveBatch : two_towers::PairBatch {
  std::vector<uint64_t> ids;
  Split split = Split::kTrain;
  at::Tensor valid;  // (B, 1) float32: 0 where a picture is broken
  double pairs = 0;  // pairs whose picture is not broken

  template <class V>
  void tensors(V&& visit) {
    visit(pixels);
    visit(valid);
    texts.tensors(visit);
  }
};

using picture_texts::PictureSource;

class ContrastiveTask : public common::TokenizerTask<
                            GlobalLossTask<ContrastiveTaskConfig, two_towers::TwoTowers, ContrastiveBatch>> {
 public:
  using TokenizerTask::TokenizerTask;

  void prepare() override { open_files(); }
  void open_data() override;
  std::shared_ptr<two_towers::TwoTowers> build_model() override;

  uint64_t sample_count(Split split) const override { return sources_[static_cast<size_t>(split)].size(); }
  std::string data_fingerprint() override;
  ContrastiveBatch make_batch(const LoadRequest& request) const override;
  BatchInfo batch_info(const ContrastiveBatch& batch) const override {
    return common::info_of(batch.texts, batch.pairs, batch.ids.size());
  }

  void import_model(const std::filesystem::path& folder) override;
  void export_model(const std::filesystem::path& folder) override;

  int64_t output_width() const override { return two_towers::pair_columns(config().projection_dim); }
  at::Tensor outputs(const ContrastiveBatch& batch) override;
  at::Tensor global_loss(const at::Tensor& outputs) override { return loss_.all(outputs); }
  void begin_rows(const at::Tensor& outputs) override { loss_.begin(outputs); }
  RowLoss row_loss(const at::Tensor& outputs, int64_t first, int64_t count) override {
    return loss_.part(outputs, first, count);
  }

  void evaluate(const ContrastiveBatch& batch, EvaluationSink& sink) override;
  std::vector<Metric> metrics() override;
  void report(const Report& report, const ReportSink& sink) override;
  double flops(const ContrastiveBatch& batch) override { return model().flops(batch); }

 private:
  void open_files();
  std::vector<int64_t> tokens_of(const messages::Conversation& pair) const;
  two_towers::TextEnds text_ends() const;
  template <class Get>
  decltype(auto) with(Split split, uint64_t id, uint64_t epoch, Get&& get) const {
    return sources_[static_cast<size_t>(split)].with(epoch, id, std::forward<Get>(get));
  }

  TextRules rules_;  // of SigLIP
  picture_texts::Splits sources_;
  std::shared_ptr<std::atomic<bool>> told_of_cut_ = std::make_shared<std::atomic<bool>>(false);
  bool is_open_ = false;
  two_towers::PairLoss loss_{config().is_clip() ? two_towers::PairLoss::Kind::kSoftmax
                                                : two_towers::PairLoss::Kind::kSigmoid};
};

}  // namespace pipeline::tasks::contrastive
