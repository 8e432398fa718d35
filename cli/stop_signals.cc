#include "cli/stop_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace mroce::cli {

StopSignals::StopSignals() {
  sigset_t ours;
  sigemptyset(&ours);
  sigaddset(&ours, SIGINT);
  sigaddset(&ours, SIGTERM);
  sigprocmask(SIG_BLOCK, &ours, &before_);
  fd_ = net::FileDescriptor(::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
}

StopSignals::~StopSignals() {
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> StopSignals::take() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace mroce::cli
