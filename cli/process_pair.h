// Two processes of our own that measure something between them, each pinned to a core.
//
// The parent opens no endpoint and has no thread, so a fork is safe. The two talk over a channel (one JSON
// value a line) to exchange what RDMA applications exchange out of band, and each hands one JSON value back
// to the parent.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "cli/outcome.h"

namespace mroce::cli {

// Why a role cannot go on. Thrown and caught inside one child process only; run_pair() answers it as a value.
struct RoleFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Channel {
 public:
  explicit Channel(int fd) : fd_(fd) {}
  void send(const nlohmann::json& value);
  nlohmann::json receive();  // throws RoleFailed when the other side has gone

 private:
  int fd_;
  std::string unread_;
};

using Role = std::function<nlohmann::json(Channel& other)>;

struct PairResult {
  nlohmann::json first;
  nlohmann::json second;
};

// Runs `first` on core 0 and `second` on core 1 of those that this process may use (both on one, if there is
// only one).
Outcome<PairResult> run_pair(const Role& first, const Role& second, std::chrono::seconds limit);

// The cores that this process may use.
std::vector<int> usable_cores();

}  // namespace mroce::cli
