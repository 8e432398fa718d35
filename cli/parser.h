// What all verbs of the command line have in common: how help shows an option, that no value is empty, and
// what is said when a line cannot be understood.
//
// CLI11 puts its checks behind an option's name ("--runs UINT:INT in [1 - 100]=5"). Here the name is followed
// by what to write, and the sentence by limits and default: "--runs N  rounds (1 to 100; default 5)".
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/outcome.h"

namespace mroce::cli {

// After all verbs have been added.
void complete_parser(CLI::App& app);

// The words name a verb that there is not: which one, and the nearest one that there is.
std::optional<Failure> unknown_verb(const CLI::App& app, const std::vector<std::string>& words);

// What to say about a line that the parser has refused.
Failure refused_line(const CLI::App& app, const std::vector<std::string>& words,
                     const CLI::ParseError& error);

}  // namespace mroce::cli
