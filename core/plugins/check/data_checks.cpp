// A batch is made of its samples' ids alone, whoever loads it, when and in which order.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <latch>
#include <span>
#include <thread>

#include "core/base/abi_values.hpp"
#include "core/base/child.hpp"
#include "core/base/error.hpp"
#include "core/plugins/check/open_task.hpp"

namespace pipeline::plugins {
namespace {

void batches_are_weighed(const CheckArgs& args) {
  OpenTask open(args);
  const std::vector<uint64_t> ids = open.some_ids();
  const auto weight_of = [&](const std::vector<uint64_t>& some) {
    const Batch batch = open.load(some);
    if (batch.info().samples != some.size())
      fail("batch_info: samples is {}, {} were loaded", batch.info().samples, some.size());
    if (!(batch.weight() >= 0) || !std::isfinite(batch.weight()))
      fail("batch_info: weight is {}", batch.weight());
    if (batch.info().tokens > batch.info().positions && batch.info().positions != 0)
      fail("batch_info: {} tokens in {} positions", batch.info().tokens, batch.info().positions);
    return batch.weight();
  };
  double sum = 0;
  for (const uint64_t id : ids) sum += weight_of({id});
  for (const auto& [some, expected] :
       {std::pair(ids, sum), std::pair(std::vector{ids[0], ids[0]}, 2 * weight_of({ids[0]}))})
    if (const double weight = weight_of(some); std::abs(weight - expected) > 1e-6 * expected)
      fail(
          "batch_info: weight of samples {} is {}, of each alone {} in sum: it must be a sum, as the loss "
          "that it divides",
          fmt::join(some, ", "), weight, expected);
}

void wrong_ids_are_refused(const CheckArgs& args) {
  OpenTask open(args);
  const uint64_t count = open.task().sample_count(PL_SPLIT_TRAIN);
  if (count == UINT64_MAX) throw Skip{"it has data without an end"};
  for (uint64_t id : {count, ~uint64_t{0}}) {
    try {
      open.load({id});
    } catch (const Error&) {
      continue;
    }
    fail("load took sample {} of {}", id, count);
  }
}

// Each thread loads samples of its own: what the threads share in memory would show.
void loads_concurrently(const CheckArgs& args) {
  constexpr int kRounds = 3;
  OpenTask open(args);
  const std::vector<uint64_t> ids = open.some_ids(PL_SPLIT_TRAIN, 4), few = open.some_ids();
  const std::vector<std::vector<uint64_t>> loaded{
      ids, {ids.rbegin(), ids.rend()}, few, {few.rbegin(), few.rend()}};
  std::vector<std::vector<Batch>> batches(loaded.size());
  std::vector<std::exception_ptr> failures(loaded.size());
  std::vector<std::thread> threads;
  std::latch start(std::ssize(loaded));
  for (size_t i = 0; i < loaded.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        start.arrive_and_wait();
        for (int round = 0; round < kRounds; ++round) batches[i].push_back(open.load(loaded[i]));
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  for (size_t i = 0; i < loaded.size(); ++i) {
    const std::vector<float> expected = open.train(open.load(loaded[i]));
    for (const Batch& batch : batches[i])
      if (!same_bits(expected, open.train(batch)))
        throw Error("batches loaded by several threads at once are not the same");
  }
}

// load() refuses an option in a field that it does not know, and in a reserved one.
void new_options_are_not_ignored(const CheckArgs& args) {
  OpenTask open(args);
  const std::vector<uint64_t> ids = open.some_ids();
  auto good = sized<pl_load_args>();
  good.purpose = PL_PURPOSE_TRAIN;
  good.ids = ids.data();
  good.count = ids.size();
  const pl_task_api& api = open.task().plugin().task();
  pl_batch* batch = nullptr;
  require_unknown_refused<pl_load_args>(
      "load took a pl_load_args that sets ", "", good,
      [&](const pl_load_args* sent) { return api.load(open.task().handle(), sent, &batch); });
  api.batch_free(open.task().handle(), batch);
}

// What a run that continues, or another rank, must find as it was.
std::string facts_of(OpenTask& open) {
  Task& task = open.task();
  std::string facts = fmt::format("data_fingerprint '{}'", task.data_fingerprint());
  for (const uint32_t split : {PL_SPLIT_TRAIN, PL_SPLIT_VAL, PL_SPLIT_TEST})
    facts += fmt::format(", {} samples in split {}", task.sample_count(split), split);
  if (!task.has_sample_costs()) return facts;
  std::vector<uint64_t> ids = open.some_ids(PL_SPLIT_TRAIN, 4);
  std::vector<double> costs(ids.size()), again(ids.size());
  task.sample_costs(PL_SPLIT_TRAIN, ids, costs);
  for (const double cost : costs)
    if (!(cost >= 0) || !std::isfinite(cost)) fail("sample_costs gave {}", cost);
  std::ranges::reverse(ids);
  task.sample_costs(PL_SPLIT_TRAIN, ids, again);
  std::ranges::reverse(again);
  if (again != costs)
    fail("sample_costs of samples are {}, and {} when they are asked for in the other order",
         fmt::join(costs, ", "), fmt::join(again, ", "));
  return facts + fmt::format(", costs {}", fmt::join(costs, ", "));
}

void data_stay_what_they_are(const CheckArgs& args) {
  const auto first_facts = [&] {
    OpenTask open(args);
    return facts_of(open);
  };
  const ChildResult elsewhere = run_in_child(args.limit, first_facts);
  OpenTask open(args);
  const std::string facts = facts_of(open);
  const auto compare = [&](const std::string& others, std::string_view when) {
    if (others != facts)
      fail("of the same data and options it says \"{}\", and {} \"{}\"", facts, when, others);
  };
  open.train(open.load(open.some_ids()));
  compare(facts_of(open), "after training");
  compare(first_facts(), "as another object");
  if (elsewhere.ok) compare(elsewhere.value, "in another process");
}

// Batches that a plugin keeps grow without end, as what it keeps of each micro-batch does.
void frees_what_it_loads(const CheckArgs& args) {
  OpenTask open(args);
  const std::vector<uint64_t> ids = open.some_ids();
  const auto in_use = [] {
    const struct mallinfo2 info = ::mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd);
  };
  // An allocator that fills its own caches takes ever less, what is lost is the same each time.
  const auto grows = [&](std::string_view what, const std::function<void()>& work) {
    constexpr size_t kTimes = 5;
    constexpr double kSeconds = 0.05, kLeastBlock = 32;  // for each time; bytes that malloc takes at least
    const auto begin = std::chrono::steady_clock::now();
    work();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const double rounds = std::clamp(std::floor(kSeconds / seconds), 3.0, 200.0);
    std::array<double, kTimes> growth{};
    for (double& grown : growth) {
      const double before = in_use();
      for (int i = 0; i < static_cast<int>(rounds); ++i) work();
      grown = (in_use() - before) / rounds;
    }
    const auto [least, most] = std::ranges::minmax(std::span(growth).subspan<2>());
    if (least >= kLeastBlock && most <= 1.1 * least)
      fail("{} leaves {:.0f} bytes behind, each time: memory grows without end", what, least);
  };
  grows("a batch that was loaded and freed", [&] { open.load(ids); });
  const Batch batch = open.load(ids);
  grows("a micro-batch that was trained", [&] { open.train(batch); });
  grows("a batch that was evaluated", [&] { open.evaluate(batch, PL_PURPOSE_VALIDATE, {}); });
}

}  // namespace

std::vector<Promise> data_promises() {
  return {{"a batch says its weight and size", batches_are_weighed},
          {"sample ids out of range are refused", wrong_ids_are_refused},
          {"batches can be loaded by several threads at once", loads_concurrently, kSame},
          {"options that it does not know are refused", new_options_are_not_ignored},
          {"data are the same for every object and process", data_stay_what_they_are},
          {"what is loaded, trained and evaluated leaves nothing behind", frees_what_it_loads, kSame}};
}

}  // namespace pipeline::plugins
