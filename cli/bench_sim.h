// mroce bench sim: what the simulator costs.
#pragma once

#include <CLI/CLI.hpp>

namespace mroce::cli {

void add_bench_sim(CLI::App& bench, int& exit_code);

}  // namespace mroce::cli
