#include "sim/hpcc_topology.h"

#include <cmath>
#include <utility>

#include "sim/routing.h"
#include "sim/text_lines.h"
#include "sim/words.h"

namespace mroce::sim {
namespace {

constexpr uint64_t kMaxNodes = 1U << 16;
constexpr uint64_t kMaxGraphLinks = 1U << 20;
constexpr uint64_t kMaxRoutes = 1U << 26;  // switches times hosts

constexpr Unit kRates[] = {{"Tbps", 1e12}, {"Gbps", 1e9}, {"Mbps", 1e6},
                           {"Kbps", 1e3},  {"kbps", 1e3}, {"bps", 1}};
constexpr Unit kTimes[] = {{"ms", 1e9}, {"us", 1e6}, {"ns", 1e3}, {"ps", 1}, {"s", 1e12}};

class Reader {
 public:
  Reader(std::string_view file, std::string_view text) : lines_(file, text, kMaxNodes) {}

  TopologyResult read() {
    using Step = Status (Reader::*)();
    for (const Step step : {&Reader::read_counts, &Reader::read_switches, &Reader::read_links}) {
      if (auto status = (this->*step)(); !status) return tl::unexpected(status.error());
    }
    return build();
  }

 private:
  using Status = tl::expected<void, std::string>;
  struct Cable {
    uint32_t a, b;
    TopologyBuilder::Direction direction;
  };

  bool next_line() {
    const bool more = lines_.next();
    words_ = lines_.words();
    return more;
  }

  Status read_counts() {
    if (!next_line()) return lines_.error("the file is empty; it should begin with \"nodes switches links\"");
    if (words_.size() != 3) {
      return lines_.error("the first line has {} words; it should be \"nodes switches links\"",
                          words_.size());
    }
    uint64_t* const counts[] = {&nodes_, &switches_, &links_};
    for (size_t i = 0; i < 3; ++i) {
      const auto value = parse_whole(words_[i]);
      if (!value) return lines_.error("{} is not a whole number", quoted(words_[i]));
      *counts[i] = *value;
    }
    if (nodes_ > kMaxNodes) return lines_.error("{} nodes; the limit is {}", nodes_, kMaxNodes);
    if (links_ > kMaxGraphLinks) return lines_.error("{} links; the limit is {}", links_, kMaxGraphLinks);
    if (nodes_ < 3 || switches_ == 0 || switches_ > nodes_ - 2) {
      return lines_.error("{} switches among {} nodes; a switch and two hosts are the least", switches_,
                          nodes_);
    }
    if (switches_ * (nodes_ - switches_) > kMaxRoutes) {
      return lines_.error("{} switches and {} hosts are too many: their product may be {}", switches_,
                          nodes_ - switches_, kMaxRoutes);
    }
    hosts_ = static_cast<uint32_t>(nodes_ - switches_);
    return {};
  }

  Status read_switches() {
    std::vector<bool> is_switch(nodes_, false);
    for (uint64_t left = switches_; left > 0;) {
      if (!next_line()) return lines_.error("the file ends where {} more switch ids should follow", left);
      if (words_.size() > left)
        return lines_.error("{} switch ids where {} should follow", words_.size(), left);
      left -= words_.size();
      for (const std::string_view word : words_) {
        const auto id = parse_whole(word);
        if (!id || *id >= nodes_) {
          return lines_.error("{} is not the id of a node, 0 to {}", quoted(word), nodes_ - 1);
        }
        if (is_switch[*id]) return lines_.error("switch {} is named twice", *id);
        if (*id < hosts_) {
          return lines_.error("switch {} has a lower number than the last host; hosts must be 0 to {}", *id,
                              hosts_ - 1);
        }
        is_switch[*id] = true;
      }
    }
    return {};
  }

  Status read_links() {
    for (uint64_t i = 0; i < links_; ++i) {
      if (!next_line()) return lines_.error("the file ends where {} more links should follow", links_ - i);
      if (auto status = read_link(); !status) return status;
    }
    if (next_line()) return lines_.error("more lines than the {} links of the first line", links_);
    return {};
  }

  Status read_link() {
    if (words_.size() != 5) {
      return lines_.error("a link is \"node node rate delay loss\", this line has {} words", words_.size());
    }
    Cable cable{};
    for (size_t i = 0; i < 2; ++i) {
      const auto id = parse_whole(words_[i]);
      if (!id || *id >= nodes_) {
        return lines_.error("{} is not the id of a node, 0 to {}", quoted(words_[i]), nodes_ - 1);
      }
      (i == 0 ? cable.a : cable.b) = static_cast<uint32_t>(*id);
    }
    if (cable.a == cable.b) return lines_.error("node {} is linked to itself", cable.a);
    if (cable.a < hosts_ && cable.b < hosts_) {
      return lines_.error("hosts {} and {} are linked directly; a switch must be between", cable.a, cable.b);
    }
    const auto rate = parse_scaled(words_[2], kRates);
    if (!rate || *rate < 1e6 || *rate > 1e13) {
      return lines_.error("{} is no rate from 1Mbps to 10Tbps", quoted(words_[2]));
    }
    const auto delay = parse_scaled(words_[3], kTimes);
    if (!delay || *delay > 1e12) return lines_.error("{} is no delay from 0ns to 1s", quoted(words_[3]));
    const auto loss = parse_decimal(words_[4]);
    if (!loss || *loss > 1) return lines_.error("{} is no probability from 0 to 1", quoted(words_[4]));
    cable.direction = {static_cast<uint64_t>(std::llround(*rate)), std::llround(*delay), *loss, 0};
    cables_.push_back(cable);
    return {};
  }

  TopologyResult build() {
    TopologyBuilder builder(lines_.name(), hosts_, 1);
    for (uint32_t node = hosts_; node < nodes_; ++node) {
      SwitchSpec spec;
      spec.index = node;
      builder.add_switch(spec);
    }
    for (const Cable& cable : cables_) builder.connect(cable.a, cable.b, cable.direction, cable.direction);
    TopologyResult topology = builder.finish();
    if (!topology) return lines_.error("{}", topology.error());
    auto routes = shortest_routes(*topology);
    if (!routes) {
      return lines_.error("too many different sets of equal ways; the limit is {} links in all of them",
                          kMaxRouteMembers);
    }
    topology->graph = std::make_shared<GraphRoutes>(std::move(*routes));
    return topology;
  }

  TextLines lines_;
  std::span<const std::string_view> words_;
  uint64_t nodes_ = 0;
  uint64_t switches_ = 0;
  uint64_t links_ = 0;
  uint32_t hosts_ = 0;
  std::vector<Cable> cables_;
};

}  // namespace

TopologyResult parse_hpcc_topology(std::string_view file, std::string_view text) {
  Reader reader(file, text);
  return reader.read();
}

}  // namespace mroce::sim
