#include "cuda_on_host.hpp"

#include <c10/util/Exception.h>
#include <setjmp.h>
#include <ucontext.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

ThreadIndex threadIdx, blockIdx, blockDim;

namespace pipeline::emulator {
namespace {

constexpr size_t kStack = size_t{64} << 10;

struct Fiber {
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStack);
  jmp_buf place;
  bool started = false, ended = false;
  std::array<float, 2> shown{};  // to the others of its warp, in this shuffle and in the one before
  unsigned shuffles = 0;
};

// A context starts a fiber, which then serves one block after another; from there on jumps are used, which
// need no call of the kernel.
ucontext_t start;
jmp_buf scheduler;
std::vector<Fiber> fibers;
const std::function<void()>* body_of_all;

void run_fiber() {
  while (true) {
    (*body_of_all)();
    fibers[threadIdx.x].ended = true;
    __syncthreads();
  }
}

void resume(Fiber& fiber) {
  if (_setjmp(scheduler) != 0) return;
  if (fiber.started) _longjmp(fiber.place, 1);
  fiber.started = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.get();
  context.uc_stack.ss_size = kStack;
  makecontext(&context, run_fiber, 0);
  swapcontext(&start, &context);
}

// Runs the threads in turn, each until it waits for the others or ends, until all have ended.
void run_block(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) fibers[i].ended = false;
  for (unsigned ended = 0; ended == 0;) {
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {
      resume(fibers[threadIdx.x]);
      ended += fibers[threadIdx.x].ended ? 1 : 0;
    }
    if (ended == 0 || ended == threads) continue;
    fibers.clear();  // some are in the middle of it
    TORCH_CHECK(false, ended, " of ", threads, " threads of block ", blockIdx.x,
                " ended while the others wait for all");
  }
}

}  // namespace

void run_blocks(unsigned blocks, unsigned threads, const std::function<void()>& body) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  if (fibers.size() < threads) fibers = std::vector<Fiber>(threads);
  body_of_all = &body;
  blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) run_block(threads);
}

}  // namespace pipeline::emulator

void __syncthreads() {
  using namespace pipeline::emulator;
  if (_setjmp(fibers[threadIdx.x].place) == 0) _longjmp(scheduler, 1);
}

void __trap() {
  std::fprintf(stderr, "emulated CUDA device: a kernel has trapped\n");
  std::abort();
}

float __shfl_xor_sync(unsigned, float value, int lanes) {
  using namespace pipeline::emulator;
  const unsigned self = threadIdx.x, turn = ++fibers[self].shuffles % 2;
  fibers[self].shown[turn] = value;
  __syncthreads();
  return fibers[self ^ static_cast<unsigned>(lanes)].shown[turn];
}
