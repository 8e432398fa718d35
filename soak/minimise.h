// Makes a failing run smaller: tries one option after the other with a smaller value and keeps what still
// fails in the same way, until nothing more can be taken away (delta debugging; Zeller and Hildebrandt 2002,
// here along named options instead of lines of input).
//
// A changed option draws another run from the same seed, so a smaller run fails because its kind of fault and
// of work suffices, not because it repeats the larger one.
#pragma once

#include <functional>

#include "soak/options.h"

namespace mroce::soak {

struct Minimised {
  RunOptions options;
  uint64_t tries = 0;
};

// `fails` runs once; `may_go_on` is asked before each try.
Minimised minimise(const RunOptions& failing, const std::function<bool(const RunOptions&)>& fails,
                   const std::function<bool()>& may_go_on);

}  // namespace mroce::soak
