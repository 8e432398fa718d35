// The verbs of the command line; each adds itself to the parser and sets `exit_code` when it has run.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace mroce::cli {

// What follows "--" on the command line, kept away from the parser.
using Rest = std::vector<std::string>;

void add_run(CLI::App& app, const Rest& rest, int& exit_code);
void add_info(CLI::App& app, int& exit_code);
void add_demo(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_sim(CLI::App& app, int& exit_code);
void add_soak(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, const Rest& rest, int& exit_code);
void add_comply(CLI::App& app, int& exit_code);

}  // namespace mroce::cli
