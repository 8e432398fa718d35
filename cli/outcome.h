// How a verb ends: exit codes, and failures as a cause with a hint.
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace mroce::cli {

enum ExitCode : int {
  kFine = 0,         // did what was asked
  kFindings = 1,     // did it, and something is below its threshold
  kUsage = 2,        // the command line makes no sense
  kEnvironment = 3,  // the machine lacks something: a package, a library, a permission
  kInternal = 4,     // our own bug
};

struct Failure {
  ExitCode code = kInternal;
  std::string cause;  // what happened, with the name or the number that matters
  std::string hint;   // what to do about it
};

template <class T>
using Outcome = tl::expected<T, Failure>;

inline tl::unexpected<Failure> failure(ExitCode code, std::string cause, std::string hint) {
  return tl::unexpected<Failure>(Failure{code, std::move(cause), std::move(hint)});
}

// One line on standard error; returns the exit code.
int report(const Failure& failure);

}  // namespace mroce::cli
