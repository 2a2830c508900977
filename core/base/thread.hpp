#pragma once

#include <functional>
#include <thread>

namespace pipeline {

// A thread that receives no signals: those are for the main thread. `name` has at most 15 bytes.
std::thread start_thread(const char* name, std::function<void()> work);

}  // namespace pipeline
