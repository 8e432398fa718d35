// Bugs that are planted outside the engine, between it and the oracle, to see that the oracle catches what it
// is for. Each looks to the oracle exactly as if the engine had done it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "soak/model.h"

namespace mroce::soak {

enum class Bug : uint8_t {
  kNone,
  kLostCompletion,    // a completion never comes
  kDoubleCompletion,  // one comes twice
  kWrongOrder,        // two completions of a queue pair change places
  kDoubleAtomic,      // an atomic executes twice
  kStaleOverwrite,    // a packet of a WRITE is placed again after its completion
  kSilentOverwrite,   // the same, in a way that only the contents tell
  kLostBody,          // a packet of a WRITE is lost although it was acknowledged, but not its last
  kLostPlacement,     // the same for any payload
  kWrongByte,         // one byte of a payload changes
  kWrongReceive,      // the length in the completion of a receive is wrong
  kLostNotification,  // an armed CQ does not tell
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
  void add_region(const Endpoint& endpoint, const Mr& region) {
    regions_.emplace_back(&endpoint.memory(), region);
  }
  // What the application polls from one CQ.
  void change_completions(std::vector<Wc>& completions);
  // A work request of this flow has just completed well.
  void after_success(Flow& flow, const Op& op);

 private:
  bool swallow(WorldMemory& memory, const Placement& placement, std::span<const std::byte> data);
  void overwrite_silently(Flow& flow, const Op& op);

  std::vector<std::pair<const WorldMemory*, Mr>> regions_;  // that WRITEs go to
  std::optional<Wc> held_back_;
  bool busy_ = false;
};

}  // namespace mroce::soak
