#include "sim/deadlock.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace mroce::sim {
namespace {

class Search {
 public:
  explicit Search(const Fabric& fabric) : fabric_(fabric), state_(fabric.topology.links.size(), kNew) {}

  std::string run() {
    for (uint32_t id = 0; id < state_.size(); ++id) {
      if (state_[id] == kNew && blocked(id) && circle_from(id)) return sentence();
    }
    return {};
  }

 private:
  enum State : uint8_t { kNew, kOpen, kDone };
  struct Step {
    uint32_t link;
    uint32_t next_port = 0;
  };

  bool blocked(uint32_t id) const {
    const Link& link = fabric_.links[id];
    if (!link.is(Link::kExplicit) || link.classes->sending != nullptr) return false;
    return (link.classes->used & ((1U << kClasses) - 1)) != 0;
  }

  bool holds_from(uint32_t id, uint16_t ingress) const {
    for (uint32_t c = 0; c < kClasses; ++c) {
      const Packet* packet = fabric_.links[id].classes->waiting[c].head;
      for (; packet != nullptr; packet = packet->next) {
        if (packet->ingress == ingress) return true;
      }
    }
    return false;
  }

  // Depth first; the path is the circle if it meets itself.
  bool circle_from(uint32_t start) {
    const Topology& topology = fabric_.topology;
    path_.assign(1, {start});
    state_[start] = kOpen;
    while (!path_.empty()) {
      Step& step = path_.back();
      const LinkSpec& spec = topology.links[step.link];
      const uint32_t ports = topology.is_host(spec.to) ? 0 : topology.switch_of(spec.to).ports;
      if (step.next_port == ports) {
        state_[step.link] = kDone;
        path_.pop_back();
        continue;
      }
      const uint32_t next = topology.first_link(spec.to) + step.next_port++;
      if (state_[next] == kDone || !blocked(next) || !holds_from(next, fabric_.links[step.link].to_port))
        continue;
      if (state_[next] == kOpen) {
        const auto same = [next](const Step& s) { return s.link == next; };
        path_.erase(path_.begin(), std::find_if(path_.begin(), path_.end(), same));
        return true;
      }
      state_[next] = kOpen;
      path_.push_back({next});
    }
    return false;
  }

  std::string sentence() const {
    std::string names;
    constexpr size_t kShown = 8;
    for (size_t i = 0; i < std::min(path_.size(), kShown); ++i) {
      names += fmt::format("{}{}", i == 0 ? "" : ", ", fabric_.topology.link_name(path_[i].link));
    }
    return fmt::format("deadlock: {} links wait for each other in a circle: {}{}", path_.size(), names,
                       path_.size() > kShown ? ", ..." : "");
  }

  const Fabric& fabric_;
  std::vector<State> state_;
  std::vector<Step> path_;
};

}  // namespace

std::string find_deadlock(const Fabric& fabric) {
  Search search(fabric);
  return search.run();
}

}  // namespace mroce::sim
