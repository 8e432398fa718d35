// The control server: this project's own endpoint as a target of `mroce comply`.
//
// One client at a time. Each `start` forks a process that opens the endpoint and serves the commands until
// the next `start`, when it is killed: so a target that is started anew is a new process in every respect,
// and what one assertion left behind dies with it. The server itself has no endpoint and no thread.
#pragma once

#include <sys/types.h>

#include "comply/json_line.h"

namespace mroce::comply {

// A client that says nothing for so long is given up if another one waits.
inline constexpr std::chrono::milliseconds kClientIdle{10'000};

// Serves clients one after the other until the process is ended.
void serve_control(net::FileDescriptor listener, std::chrono::milliseconds idle = kClientIdle);

// The server in a child process on a free port of 127.0.0.1. The child is gone when this is.
class ServerProcess {
 public:
  static tl::expected<ServerProcess, std::string> start(std::chrono::milliseconds idle = kClientIdle);
  ServerProcess(ServerProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), control_(other.control_) {}
  ServerProcess& operator=(ServerProcess&&) = delete;
  ~ServerProcess();
  const HostPort& control() const { return control_; }

 private:
  ServerProcess(pid_t pid, HostPort control) : pid_(pid), control_(control) {}
  pid_t pid_ = -1;
  HostPort control_;
};

}  // namespace mroce::comply
