// Traces in Chrome's trace event format, which Perfetto and chrome://tracing open: what was done when, and on
// which thread. One file per rank, all on one clock, and one of all ranks together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace pipeline::observe {

// Categories of events that the core makes; those of operations and kernels are Kineto's.
namespace category {
inline constexpr std::string_view kPhase = "phase";            // of a step, on the phases' own track
inline constexpr std::string_view kStep = "step";              // a whole one
inline constexpr std::string_view kWait = "wait";              // for a collective
inline constexpr std::string_view kCollective = "collective";  // moves bytes, or waits for another rank's
inline constexpr std::string_view kInFlight = "in flight";     // between its call and the end of its wait
}  // namespace category

// Tracks that are no threads. Above any thread's number; collectives that are in flight at the same time need
// a track each, from kInFlightTrack on.
inline constexpr int64_t kPhaseTrack = 10'000'000, kCollectiveTrack = 10'000'001, kInFlightTrack = 10'000'002,
                         kDeviceTracks = 20'000'000;

struct TraceEvent {
  std::string name, category;
  int64_t track = 0;                // a thread's number, or one of the above
  int64_t begin = 0, duration = 0;  // nanoseconds, the former since 1970
  char kind = 'X';        // the format's "ph": X has a duration, M names a track, s and f are arrows
  int64_t waiter = 0;     // the thread that was kept waiting; 0: none
  std::string more = {};  // further members, as JSON without braces: "\"args\":{\"bytes\":12}"
};

// Appends what Kineto recorded of `process`, without its marks of the recording itself. Streams of devices
// become tracks. Throws Error.
void read_kineto(const std::filesystem::path& file, pid_t process, std::vector<TraceEvent>& events);

// One rank's part of a trace.
struct TraceOfRank {
  int32_t rank = 0, ranks = 1;
  std::string host;
  int64_t origin = 0;  // the time that the file's times count from
  const std::vector<TraceEvent>& events;
};

// Writes a whole file or none, as merge_traces() does. Both throw Error.
void write_trace(const std::filesystem::path& path, const TraceOfRank& trace);
// `ranks`: files that write_trace() made with the same origin.
void merge_traces(const std::vector<std::filesystem::path>& ranks, const std::filesystem::path& path);

// What a trace says in a few lines: the costliest operations, and how much communication was hidden.

// All events of one name; those of collectives count by operation.
struct TraceCost {
  std::string name;
  uint64_t calls = 0;
  int64_t self = 0;  // nanoseconds, without what was called from within
};

struct TraceSummary {
  std::vector<TraceCost> costs;  // the costliest first
  bool has_operations = false;   // false: the costs are those of phases
  int64_t communication = 0;     // nanoseconds in which at least one collective ran
  int64_t hidden = 0;            // nanoseconds of these in which something was computed
  bool at_most = false;          // the backend does not say when they ran: from call to wait
};

// `main_thread`: the one that trains. For a device, computing and communication are those of its kernels.
TraceSummary summarize(const std::vector<TraceEvent>& events, int64_t main_thread);

}  // namespace pipeline::observe
