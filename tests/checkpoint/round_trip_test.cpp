#include <barrier>
#include <thread>

#include "core/checkpoint/store.hpp"
#include "core/checkpoint/writer.hpp"
#include "core/safetensors/file.hpp"
#include "tests/checkpoint/expect_error.hpp"
#include "tests/checkpoint/faulty_file_system.hpp"
#include "tests/checkpoint/state.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::checkpoint {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class RoundTrip : public testing::Test {
 protected:
  tests::FilesFolder folder_;
  Store store_{{folder_.path() + "/checkpoints", 3, true}};
  std::vector<StateTensor> state_ = make_state(1);
};

uint64_t bytes_of_tensors(const std::string& checkpoint) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint)) {
    if (entry.path().extension() == ".safetensors") bytes += entry.file_size();
  }
  return bytes;
}

// Writes with one thread per rank; fails[rank] makes that rank's source throw.
std::vector<std::string> write_as(Store& store, const std::vector<StateTensor>& state, int world_size,
                                  uint64_t step, int failing_rank = -1,
                                  std::vector<Constant>* constants = nullptr) {
  std::barrier barrier(world_size);
  std::atomic<uint32_t> codes[2] = {0, 0};
  std::vector<std::string> errors(static_cast<size_t>(world_size));
  const auto rank_main = [&](int rank) {
    int round = 0;
    const Group group{rank, world_size, [&](uint32_t mine) {
                        std::atomic<uint32_t>& worst = codes[round++ % 2];
                        if (mine != 0) worst = mine;
                        barrier.arrive_and_wait();
                        const uint32_t result = worst;
                        barrier.arrive_and_wait();
                        if (rank == 0) worst = 0;
                        return result;
                      }};
    const PieceSource pieces = source(state, rank, world_size);
    try {
      const Saved saved = write(
          store, contents_of(step),
          [&](const PieceVisitor& visit) {
            if (rank == failing_rank) throw Error(PL_ERROR_NO_SPACE, "this rank fails");
            pieces(visit);
          },
          group, constants == nullptr ? nullptr : &(*constants)[static_cast<size_t>(rank)]);
      if (rank == 0 && constants == nullptr) {
        EXPECT_EQ(saved.bytes, bytes_of_tensors(saved.path));
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), PL_ERROR_NO_SPACE);  // on all ranks alike
      errors[static_cast<size_t>(rank)] = error.what();
    }
  };
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < world_size; ++rank) ranks.emplace_back(rank_main, rank);
  ranks.clear();
  return errors;
}

TEST_F(RoundTrip, KeepsContentsAndEveryByte) {
  Contents contents = contents_of(123);
  contents.metric = Metric{"rougeL", 2.5, true};
  contents.train_state_json = R"({"epoch": 3, "loss": 0.1, "seed": 18446744073709551615})";
  const Saved saved = write(store_, contents, source(state_));
  EXPECT_EQ(saved.path, store_.options().folder + "/step-00000123");

  const Checkpoint checkpoint = Checkpoint::open(saved.path);
  checkpoint.verify();
  EXPECT_TRUE(holds(checkpoint, state_));
  EXPECT_EQ(checkpoint.contents().step, 123u);
  ASSERT_TRUE(checkpoint.contents().metric);
  EXPECT_EQ(checkpoint.contents().metric->name, "rougeL");
  EXPECT_EQ(checkpoint.contents().metric->value, 2.5);
  EXPECT_TRUE(checkpoint.contents().metric->higher_is_better);
  EXPECT_EQ(checkpoint.contents().train_state_json, R"({"epoch":3,"loss":0.1,"seed":18446744073709551615})");
  EXPECT_EQ(checkpoint.contents().config_toml, contents.config_toml);
  EXPECT_EQ(checkpoint.contents().identity_json, contents.identity_json);
  EXPECT_THAT(list_folder(saved.path),
              testing::ElementsAre("manifest.json", "state-00000-of-00001.safetensors"));
}

TEST_F(RoundTrip, OneProcessWritesAPlainFileOfFullTensors) {
  const Saved saved = write(store_, contents_of(1), source(state_));
  const auto file = safetensors::File::open(saved.path + "/state-00000-of-00001.safetensors");
  for (const StateTensor& tensor : state_) {
    const safetensors::TensorView& view = file.at(tensor_label(tensor.kind, tensor.parameter));
    EXPECT_EQ(view.shape, tensor.shape);
    EXPECT_TRUE(std::ranges::equal(view.data, tensor.bytes)) << view.name;
    if (!view.data.empty()) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data.data()) % (tensor.dtype.bits / 8), 0u) << view.name;
    }
  }
}

TEST_F(RoundTrip, AnyWorldSizeReadsAnyWorldSizesFiles) {
  for (const int world_size : {1, 2, 3, 5}) {
    const auto step = static_cast<uint64_t>(world_size);
    for (const std::string& error : write_as(store_, state_, world_size, step)) EXPECT_EQ(error, "");
    const Checkpoint checkpoint = Checkpoint::open(store_.path_of(step));
    checkpoint.verify();
    EXPECT_TRUE(holds(checkpoint, state_)) << world_size;
    const StateTensor& tensor = state_[0];
    for (uint64_t offset = 0; offset < tensor.count(); offset += 11) {
      const uint64_t count = std::min<uint64_t>(37, tensor.count() - offset);
      const auto first = tensor.bytes.begin() + static_cast<std::ptrdiff_t>(offset * 4);
      EXPECT_EQ(read_back(checkpoint, tensor, offset, count),
                std::vector(first, first + static_cast<std::ptrdiff_t>(count * 4)));
    }
  }
}

TEST_F(RoundTrip, ARankThatFailsLeavesNothingBehindOnAnyRank) {
  write(store_, contents_of(1), source(state_));
  for (const int failing : {0, 2}) {
    const std::vector<std::string> errors = write_as(store_, make_state(9), 3, 2, failing);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_THAT(errors[static_cast<size_t>(rank)],
                  rank == failing ? std::string("this rank fails")
                                  : store_.path_of(2) +
                                        ": not written: another rank could not write its part, see its log");
    }
    EXPECT_THAT(list_folder(store_.options().folder), testing::ElementsAre("step-00000001"));
  }
}

TEST_F(RoundTrip, ReplacesACheckpointOfTheSameStep) {
  write(store_, contents_of(7), source(state_));
  const std::vector<StateTensor> other = make_state(77);
  write(store_, contents_of(7), source(other));
  EXPECT_TRUE(holds(Checkpoint::open(store_.path_of(7)), other));
  EXPECT_THAT(list_folder(store_.options().folder), testing::ElementsAre("step-00000007"));
}

TEST_F(RoundTrip, RequestsThatDoNotFitAreErrors) {
  write(store_, contents_of(1), source(state_));
  const Checkpoint checkpoint = Checkpoint::open(store_.path_of(1));
  std::vector<std::byte> buffer(4096);
  const std::string path = store_.path_of(1);

  EXPECT_ERROR(
      checkpoint.read(request_for(make_tensor("exp_avg", "ln.bias", {7}, kFloat32, 0), 0, 7), buffer.data()),
      PL_ERROR_CONFIG, path + ": tensor exp_avg/ln.bias: is not in this checkpoint");
  EXPECT_ERROR(
      checkpoint.read(request_for(make_tensor("value", "ln.bias", {8}, kFloat32, 0), 0, 7), buffer.data()),
      PL_ERROR_CONFIG, path + ": tensor value/ln.bias: is F32 [7], this run needs F32 [8]");
  EXPECT_ERROR(
      checkpoint.read(request_for(make_tensor("value", "ln.bias", {7}, kBfloat16, 0), 0, 7), buffer.data()),
      PL_ERROR_CONFIG, path + ": tensor value/ln.bias: is F32 [7], this run needs BF16 [7]");
  EXPECT_ERROR(checkpoint.read(request_for(state_[1], 3, 5), buffer.data()), PL_ERROR_FAILED,
               path + ": tensor value/ln.bias: 5 elements from 3 on asked for, it has 7");
}

TEST_F(RoundTrip, StrictCheckListsEverythingAtOnce) {
  write(store_, contents_of(1), source(state_));
  const Checkpoint checkpoint = Checkpoint::open(store_.path_of(1));
  const std::vector<Wanted> all{
      {"wte.weight", {50, 7}}, {"ln.bias", {7}}, {"half", {3, 5}}, {"none", {0, 4}}};
  checkpoint.check(all);
  const std::vector<Wanted> other{{"wte.weight", {7, 50}}, {"ln.bias", {7}}, {"head", {2}}, {"none", {0, 4}}};
  EXPECT_ERROR(checkpoint.check(other), PL_ERROR_CONFIG,
               store_.path_of(1) +
                   ": does not fit the model:\n"
                   "  missing: head [2]\n"
                   "  unexpected: half [3, 5]\n"
                   "  mis-shaped: wte.weight is [50, 7], the model has [7, 50]");
}

TEST_F(RoundTrip, PiecesThatContradictThemselvesAreRefused) {
  const auto write_pieces = [&](const std::vector<pl_piece>& pieces) {
    write(store_, contents_of(1), [&](const PieceVisitor& visit) {
      for (const pl_piece& piece : pieces) visit(piece);
    });
  };
  pl_piece whole = request_for(state_[1], 0, 7);
  whole.data = state_[1].bytes.data();
  EXPECT_ERROR(write_pieces({whole, whole}), PL_ERROR_FAILED,
               "state-00000-of-00001.safetensors: tensor \"value/ln.bias\": declared twice");
  pl_piece beyond = whole;
  beyond.offset = 1;
  EXPECT_ERROR(write_pieces({beyond}), PL_ERROR_FAILED,
               "checkpoint piece value/ln.bias: 7 elements from 1 on, but the tensor has 7");
  pl_piece part = whole;
  part.count = 3;
  EXPECT_ERROR(write_pieces({part}), PL_ERROR_CORRUPT,
               HasSubstr("manifest.json: tensor value/ln.bias: elements from 3 on are in no file"));
  pl_piece strange = whole;
  strange.dtype.bits = 24;
  EXPECT_ERROR(write_pieces({strange}), PL_ERROR_UNSUPPORTED,
               StartsWith("checkpoint piece value/ln.bias: dtype code 2 with 24 bits and 1 lanes"));
  pl_piece empty = whole;
  empty.data = nullptr;
  EXPECT_ERROR(write_pieces({empty}), PL_ERROR_FAILED, "checkpoint piece value/ln.bias: has no data");
  EXPECT_TRUE(list_folder(store_.options().folder).empty());
}

// "half" and "wte.weight" are frozen: their values are in a file that the next checkpoint has, too.
class Constants : public RoundTrip {
 protected:
  static constexpr const char* kFile = "constant-00000-of-00001.safetensors";
  uint64_t names_of(uint64_t step) const {
    return std::filesystem::hard_link_count(store_.path_of(step) + "/" + kFile);
  }
  void expect_whole(uint64_t step, const std::vector<StateTensor>& state) const {
    const Checkpoint checkpoint = Checkpoint::open(store_.path_of(step));
    checkpoint.verify();
    for (const StateTensor& tensor : state) {
      std::vector<std::byte> bytes(tensor.bytes.size());
      checkpoint.read(request_for(tensor, 0, tensor.count()), bytes.data());
      EXPECT_EQ(bytes, tensor.bytes) << tensor.parameter;
    }
  }
  // Of another step: what is not frozen has changed.
  std::vector<StateTensor> later(uint32_t seed) const {
    std::vector<StateTensor> state = make_state(seed);
    state[0] = state_[0], state[2] = state_[2];
    std::erase_if(state, [](const StateTensor& t) { return t.kind == "exp_avg"; });
    return state;
  }
  Constant constant_{{"half", "wte.weight"}};
};

TEST_F(Constants, AreOnDiskOnce) {
  const Saved first = write(store_, contents_of(1), source(later(1)), {}, &constant_);
  const Saved second = write(store_, contents_of(2), source(later(2)), {}, &constant_);
  EXPECT_EQ(names_of(2), 2);
  EXPECT_LT(second.bytes, first.bytes);
  expect_whole(1, later(1));
  expect_whole(2, later(2));
  std::filesystem::remove_all(store_.path_of(1));  // the other is whole by itself
  expect_whole(2, later(2));
  // Another process goes on from it; the one after that finds that somebody has cut the file off.
  Constant again{{"half", "wte.weight"}};
  again.continue_from(Checkpoint::open(store_.path_of(2)), {});
  write(store_, contents_of(3), source(later(3)), {}, &again);
  EXPECT_EQ(names_of(3), 2);
  std::filesystem::resize_file(store_.path_of(3) + "/" + kFile, 100);
  write(store_, contents_of(4), source(later(4)), {}, &again);
  EXPECT_EQ(names_of(4), 1);
  expect_whole(4, later(4));
}

TEST_F(Constants, AreNotAskedForAgain) {
  std::vector<StateTensor> others = later(2);
  std::erase_if(others,
                [](const StateTensor& t) { return t.parameter == "half" || t.parameter == "wte.weight"; });
  EXPECT_FALSE(constant_.is_in_place());
  write(store_, contents_of(1), source(later(1)), {}, &constant_);
  EXPECT_TRUE(constant_.is_in_place());
  write(store_, contents_of(2), source(others), {}, &constant_);
  expect_whole(2, later(2));
  // Another process does not know yet whether it is like its own.
  Constant again{{"half", "wte.weight"}};
  again.continue_from(Checkpoint::open(store_.path_of(2)), {});
  EXPECT_FALSE(again.is_in_place());
  // Somebody has cut it off.
  std::filesystem::resize_file(store_.path_of(2) + "/" + kFile, 100);
  EXPECT_FALSE(constant_.is_in_place());
}

TEST_F(Constants, AreWrittenWhereTheyAreOthersOrCannotBeShared) {
  FaultyFileSystem files;
  files.can_link = false;
  Store store(store_.options(), files);
  write(store, contents_of(1), source(later(1)), {}, &constant_);
  EXPECT_FALSE(constant_.is_in_place());
  write(store, contents_of(2), source(later(2)), {}, &constant_);
  EXPECT_EQ(names_of(2), 1);
  expect_whole(2, later(2));
  files.can_link = true;
  Constant fewer{{"half"}};
  fewer.continue_from(Checkpoint::open(store_.path_of(2)), {});
  write(store, contents_of(3), source(later(3)), {}, &fewer);
  EXPECT_EQ(names_of(3), 1);
  expect_whole(3, later(3));
  // What is gone cannot be linked; a full disk is one for what must be written alone.
  std::filesystem::remove_all(store_.path_of(3));
  write(store, contents_of(4), source(later(4)), {}, &fewer);
  expect_whole(4, later(4));
}

// A checkpoint that is not finished has written another file than the one before it has.
TEST_F(Constants, AreWholeAfterAnyFailure) {
  write(store_, contents_of(1), source(later(1)), {}, &constant_);
  uint64_t failures = 0;
  for (bool failed = true; failed; failures += failed) {
    FaultyFileSystem files;
    Store store(store_.options(), files);
    Constant fewer{{"half"}};
    fewer.continue_from(Checkpoint::open(store_.path_of(1)), {});
    files.fail_at = failures;
    try {
      write(store, contents_of(2), source(later(2)), {}, &fewer);
      failed = false;
    } catch (const Error&) {
    }
    files.fail_at = std::numeric_limits<uint64_t>::max();
    write(store, contents_of(3), source(later(3)), {}, &fewer);
    expect_whole(3, later(3));
    for (const uint64_t step : {2, 3}) std::filesystem::remove_all(store_.path_of(step));
  }
  EXPECT_GT(failures, 10u);
}

TEST_F(Constants, AreEachRanksOwn) {
  for (const uint64_t step : {1, 2}) {
    std::vector<Constant> constants(2, Constant({"half", "wte.weight"}));
    if (step == 2)
      for (int rank = 0; rank < 2; ++rank)
        constants[static_cast<size_t>(rank)].continue_from(Checkpoint::open(store_.path_of(1)),
                                                           {rank, 2, nullptr});
    EXPECT_THAT(write_as(store_, later(static_cast<uint32_t>(step)), 2, step, -1, &constants),
                testing::Each(""));
    expect_whole(step, later(static_cast<uint32_t>(step)));
  }
  for (const char* file : {"constant-00000-of-00002.safetensors", "constant-00001-of-00002.safetensors"})
    EXPECT_EQ(std::filesystem::hard_link_count(store_.path_of(2) + "/" + file), 2);
}

}  // namespace
}  // namespace pipeline::checkpoint
