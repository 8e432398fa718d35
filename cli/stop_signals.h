// While it lives, Ctrl-C (SIGINT) and SIGTERM end nothing but can be polled for, so that a verb can stop its
// children and tell what it has. Children inherit that they are blocked.
#pragma once

#include <csignal>
#include <optional>

#include "net/sockets.h"

namespace mroce::cli {

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // a second one that came meanwhile takes effect
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int fd() const { return fd_.get(); }  // readable once one has come
  std::optional<int> take();            // the one that has come

 private:
  sigset_t before_{};
  net::FileDescriptor fd_;
};

}  // namespace mroce::cli
