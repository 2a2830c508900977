#include "plugins/strategies/ddp/bucket_plan.hpp"

#include <algorithm>
#include <utility>

namespace pipeline::strategies {

std::vector<size_t> expected_order(const Layout& layout) {
  std::vector<size_t> order;
  for (size_t slot = 0; slot < layout.trainable_slots(); ++slot) {
    if (layout.slots()[slot].count > 0) order.push_back(slot);
  }
  std::ranges::sort(order, std::greater(), [&](size_t slot) { return layout.slots()[slot].parameter; });
  return order;
}

std::vector<Bucket> make_buckets(const Layout& layout, const BucketSizes& sizes,
                                 const std::vector<size_t>& order) {
  std::vector<Bucket> buckets;
  Bucket open;
  bool any_flat = false;
  const auto close = [&] {
    if (open.count == 0) return;
    any_flat = true;
    buckets.push_back(std::exchange(open, {}));
  };
  for (const size_t slot : order) {
    const int64_t count = layout.slots()[slot].padded;
    if (count >= std::min(sizes.in_place, sizes.most)) {
      for (int64_t begin = 0; begin < count; begin += sizes.most) {
        const int64_t piece = std::min(sizes.most, count - begin);
        buckets.push_back({{{slot, begin, piece}}, piece, true});
      }
      continue;
    }
    if (open.count + count > (any_flat ? sizes.most : sizes.first)) close();
    open.parts.push_back({slot, 0, count});
    open.count += count;
  }
  close();
  return buckets;
}

}  // namespace pipeline::strategies
