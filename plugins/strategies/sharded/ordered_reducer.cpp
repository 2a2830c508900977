#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>

#include "plugins/strategies/sharded/reducer.hpp"

namespace pipeline::strategies {
namespace {

void add_to(at::Tensor& into, at::Tensor&& right) { into.add_(right); }

// For reproducible mode: sums along the tree over micro-batches, at the end of a micro-batch, when nothing
// can come any more. Holds one micro-batch's gradients whole, and nodes of the tree.
class OrderedReducer : public Reducer {
 public:
  OrderedReducer(const ReducerArgs& args, uint64_t micro_batches)
      : args_(args),
        total_micro_batches_(micro_batches),
        sum_(args.layout, true),
        exchange_(args.layout, args.partition, args.ranks, at::kFloat,
                  [this](size_t, const std::vector<at::Tensor>& parts) {
                    received_.emplace_back();
                    for (const at::Tensor& part : parts) received_.back().push_back(part.clone());
                  }) {
    for (size_t bucket = 0; bucket < args_.partition.trainable_buckets(); ++bucket) {
      trees_.emplace_back(add_to);
    }
  }

  void begin(uint64_t micro_batches) override {
    block_ = args_.every_micro_batch ? 1 : micro_batches;
    round_ = 0;
    exchange_.drop();
    for (SumTree<at::Tensor>& tree : trees_) tree.clear();
    start_round();
  }

  void add(size_t slot, const at::Tensor& gradient, bool owned) override { sum_.add(slot, gradient, owned); }

  void end_micro_batch(bool /*empty*/) override {
    sum_.end_micro_batch();
    if (++seen_ < block_) return;
    reduce_round();
    ++round_;
    start_round();
  }

  void finish() override {
    for (size_t bucket = 0; bucket < trees_.size(); ++bucket) {
      args_.shard.gradient(bucket) = trees_[bucket].finish();
    }
  }

  void memory(const MemoryVisitor& visit) const override {
    const uint64_t whole = static_cast<uint64_t>(args_.layout->trainable_length()) * sizeof(float);
    if (whole == 0) return;
    const auto ranks = static_cast<uint64_t>(args_.groups.all().size());
    const uint64_t blocks = args_.every_micro_batch ? 1 : (total_micro_batches_ + ranks - 1) / ranks;
    visit("gradients before they are sent", tree_copies(blocks) * whole);
    if (const uint64_t copies = tree_copies(total_micro_batches_); copies > 1) {
      visit("gradients of the sum tree", (copies - 1) * whole / static_cast<uint64_t>(args_.ranks.size()));
    }
    visit("buckets in flight", exchange_.bytes());
    if (const auto groups = static_cast<uint64_t>(args_.groups.groups()); groups > 1) {
      const uint64_t part =
          static_cast<uint64_t>(args_.partition.longest()) / static_cast<uint64_t>(args_.ranks.size());
      visit("sums of groups", 2 * groups * part * sizeof(float));
    }
  }

 private:
  using Nodes = std::vector<SumTree<at::Tensor>::Entry>;

  // Round by round, each rank of the run has a block of leaves: with every_micro_batch micro-batch m is in
  // round m / W on rank m mod W, otherwise there is one round.
  uint64_t first_leaf(int64_t rank) const {
    return (round_ * static_cast<uint64_t>(args_.groups.all().size()) + static_cast<uint64_t>(rank)) * block_;
  }

  void start_round() {
    seen_ = 0;
    sum_.restart(first_leaf(args_.groups.all().rank()));
  }

  void reduce_round() {
    const std::vector<GradientSum::Node> mine = sum_.take_nodes();
    const GradientSum::Gradients none(args_.layout->trainable_slots());
    const int64_t group = args_.groups.between().rank();
    std::vector<std::vector<SumTree<char>::Entry>> nodes;  // by rank of this group
    size_t most = 0;
    for (int64_t rank = 0; rank < args_.ranks.size(); ++rank) {
      nodes.push_back(nodes_of(first_leaf(args_.groups.rank_of(group, rank)), block_));
      most = std::max(most, nodes.back().size());
    }
    for (size_t bucket = 0; bucket < trees_.size(); ++bucket) {
      received_.clear();
      for (size_t i = 0; i < most; ++i) exchange_.start(bucket, i < mine.size() ? mine[i].node : none);
      exchange_.finish();
      SumTree<at::Tensor> of_group(add_to);
      for (size_t rank = 0; rank < nodes.size(); ++rank) {
        for (size_t i = 0; i < nodes[rank].size(); ++i) {
          of_group.push_node({nodes[rank][i].level, nodes[rank][i].index, received_[i][rank]});
        }
      }
      for (auto& entry : nodes_of_groups(bucket, of_group.take_nodes()))
        trees_[bucket].push_node(std::move(entry));
    }
    received_.clear();
  }

  // What the groups have of a round: their blocks follow each other, and all ranks know which nodes each has.
  Nodes nodes_of_groups(size_t bucket, Nodes mine) {
    const RankGroup& between = args_.groups.between();
    if (between.size() == 1) return mine;
    const uint64_t leaves = static_cast<uint64_t>(args_.ranks.size()) * block_;
    std::vector<std::vector<SumTree<char>::Entry>> nodes;  // by group
    size_t most = 0;
    for (int64_t group = 0; group < between.size(); ++group) {
      nodes.push_back(nodes_of(first_leaf(args_.groups.rank_of(group, 0)), leaves));
      most = std::max(most, nodes.back().size());
    }
    Nodes all;
    const int64_t length = args_.partition.part_length(bucket);
    const at::Tensor values = at::empty({between.size(), static_cast<int64_t>(most), length},
                                        at::TensorOptions().dtype(at::kFloat).device(between.device()));
    for (size_t i = 0; i < mine.size(); ++i)
      values[between.rank()][static_cast<int64_t>(i)].copy_(mine[i].node);
    RankGroup::Pending pending;
    between.all_gather(values.view({-1}), pending, concat("sums of gradients ", bucket));
    between.wait(pending);
    for (int64_t group = 0; group < between.size(); ++group) {
      const auto& known = nodes[static_cast<size_t>(group)];
      for (size_t i = 0; i < known.size(); ++i)
        all.push_back({known[i].level, known[i].index, values[group][static_cast<int64_t>(i)].clone()});
    }
    return all;
  }

  ReducerArgs args_;
  uint64_t total_micro_batches_;
  GradientSum sum_;  // of a round: a block of the tree's leaves on each rank
  Exchange exchange_;
  std::vector<std::vector<at::Tensor>> received_;  // by node of the round, then by rank
  std::vector<SumTree<at::Tensor>> trees_;         // by bucket, of this rank's part
  uint64_t block_ = 1;                             // micro-batches of a round on each rank
  uint64_t round_ = 0;
  uint64_t seen_ = 0;  // micro-batches of the round
};

}  // namespace

std::unique_ptr<Reducer> ordered_reducer(const ReducerArgs& args, uint64_t micro_batches) {
  return std::make_unique<OrderedReducer>(args, micro_batches);
}

}  // namespace pipeline::strategies
