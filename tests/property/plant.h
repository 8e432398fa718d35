// Bugs that are planted outside the engine, between it and the oracle, to see that the oracle catches what it
// is for. Each looks to the oracle exactly as if the engine had done it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/property/model.h"

namespace mroce::test {

enum class Bug : uint8_t {
  kNone,
  kLostCompletion,    // a completion never comes
  kDoubleCompletion,  // one comes twice
  kWrongOrder,        // two completions of a queue pair change places
  kDoubleAtomic,      // an atomic executes twice
  kStaleOverwrite,    // a packet of a WRITE is placed again after its completion
  kSilentOverwrite,   // the same, in a way that only the contents tell
  kEarlyTail,         // the last packet of a WRITE is placed before one of the others
  kLostPlacement,     // a packet is acknowledged but not placed
  kWrongByte,         // one byte of a payload changes
  kWrongReceive,      // the bytes of a receive completion are not the message's
};

struct Plant {
  Bug bug = Bug::kNone;
  uint32_t skip = 0;  // opportunities to let pass
  bool done = false;

  bool now(Bug wanted) {
    if (bug != wanted || done) return false;
    if (skip > 0) {
      --skip;
      return false;
    }
    done = true;
    return true;
  }

  // Puts itself between the engine and the memory; call after the oracle's hooks are in place.
  void watch(Endpoint& endpoint);
  // What the application polls from one CQ.
  void change_completions(std::vector<Wc>& completions);
  // A work request of this flow has just completed well.
  void after_success(Flow& flow, const Op& op);

 private:
  struct Kept {
    Placement placement;
    std::vector<std::byte> data;
  };
  std::optional<Kept> kept_;  // a body packet that waits for the tail
  std::optional<Wc> held_back_;
  bool busy_ = false;
};

}  // namespace mroce::test
