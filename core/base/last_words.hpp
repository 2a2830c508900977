// What a process says of itself where nothing can be thrown any more, or while it hangs.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <string_view>

namespace pipeline {

// What is being done, as "training, step 12". [any-thread]
void note_phase(std::string_view phase, uint64_t step);
std::string phase_now();  // empty: nothing was noted

// While it lives, a process that runs out of memory has some left to say so, and one that ends by an
// exception that nobody catches says where, in a sentence that begins with `prefix`.
class LastWords {
 public:
  explicit LastWords(std::string_view prefix);
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

 private:
  const std::new_handler before_;
  const std::terminate_handler terminate_before_;
};

// How Python's stacks are had from any thread, also while one is in a call that keeps the interpreter's lock:
// `signal` has the interpreter write them into `file`. 0: there is no Python.
void set_python_stacks(int signal, int file);

// The threads of this process and whether they run, and Python's stacks: lines for people. [any-thread]
std::string stacks_now();

}  // namespace pipeline
