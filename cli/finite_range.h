// What CLI::Range is for decimals, but without its hole: "nan" is neither below the least nor above the most.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

namespace mroce::cli {

inline CLI::Validator finite_range(double least, double most) {
  const std::string range = fmt::format("{} to {}", least, most);
  return {[=](std::string& input) {
            double value = 0;
            if (CLI::detail::lexical_cast(input, value) && value >= least && value <= most)
              return std::string();
            return fmt::format("\"{}\" is not a number from {}", input.substr(0, 40), range);
          },
          "FLOAT in [" + range + "]"};
}

}  // namespace mroce::cli
