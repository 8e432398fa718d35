// Runs of the distribution's perftest programs between two processes over 127.0.0.1, with our verbs library.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/device.h"
#include "cli/outcome.h"

namespace mroce::cli {

enum class Measures : uint8_t {
  kGoodput,
  kRate,
  kLatency
};  // Gbit/s, million operations a second, us (median)

struct PerftestProgram {
  std::string name;                    // "ib_write_bw"
  std::vector<std::string> arguments;  // without device, port and number of iterations
  Measures measures = Measures::kGoodput;
  uint32_t first_iterations = 1000;  // of the run that finds out how many fill the wanted time
};

struct PerftestResult {
  double value = 0;
  double seconds = 0;            // of the client, start-up included
  uint64_t offered = 0;          // datagrams of both sides that came to the impairment layer
  uint64_t dropped = 0;          // of these
  uint64_t retransmissions = 0;  // packets that both sides sent again
};

// What all runs share: where the library is, which GID index 127.0.0.1 has.
struct PerftestPlace {
  std::string library_path;
  std::string device;
  size_t gid_index = 0;
};
Outcome<PerftestPlace> perftest_place();

Outcome<PerftestResult> run_perftest(const PerftestPlace& place, const PerftestProgram& program,
                                     uint32_t iterations, const std::vector<Override>& overrides,
                                     std::chrono::seconds limit);

// The figure in the program's output; 0 if there is none. Apart, so that it is tested without running
// anything.
double figure_in(const std::string& output, Measures measures);

}  // namespace mroce::cli
