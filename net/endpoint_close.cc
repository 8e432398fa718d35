// The end of an endpoint: in good order, or forgotten in a forked child.
#include <poll.h>

#include <algorithm>

#include "net/endpoint_impl.h"

namespace mroce::net {
namespace {

constexpr Nanos kLingerMargin = millis(200);
constexpr Nanos kLongestWait = millis(50);
constexpr RoundBudget kClosingBudget{.receives = 16, .bursts = 64};

}  // namespace

void Endpoint::close() {
  if (impl_ == nullptr || gone_.exchange(true, std::memory_order_acq_rel)) return;
  impl_->stats_writer.stop();
  {
    const std::unique_lock lock(mutex_);
    const Time now = clock_now();
    impl_->engine->shutdown(now);
    impl_->after_command(now);
  }
  impl_->helper.stop();
  const std::unique_lock lock(mutex_);
  impl_->drive_until_quiescent();
  impl_->wire->finish_trace();
  impl_->report_trace();
  impl_->write_stats_file(impl_->stats_json());
  impl_->close_descriptors();
}

// Goodbyes are lost like any other packet: stay until the peers have answered or the engine has given up on
// them.
void Endpoint::Impl::drive_until_quiescent() {
  const Time limit = clock_now() + engine->config().close_linger + kLingerMargin;
  std::vector<pollfd> descriptors;
  for (size_t i = 0; i < receivers->count(); ++i) descriptors.push_back({receivers->fd(i), POLLIN, 0});
  const uint64_t all = receivers->count() == 64 ? ~uint64_t{0} : (uint64_t{1} << receivers->count()) - 1;
  for (;;) {
    const Time at = clock_now();
    unsent = true;
    const HelperRound result = round(at, all, false, kClosingBudget);
    if (at >= limit || (engine->quiescent() && wire->empty() && !result.more)) return;
    if (result.more) continue;
    const Nanos left = std::clamp(std::min(result.deadline, limit) - at, Nanos{0}, kLongestWait);
    const timespec timeout{0, left.count()};
    ppoll(descriptors.data(), descriptors.size(), &timeout, nullptr);
  }
}

void Endpoint::Impl::close_descriptors() {
  wire->close();
  receivers->close();
  links.close();
  helper.close();
}

void Endpoint::abandon_after_fork() {
  if (impl_ == nullptr) return;
  gone_.store(true, std::memory_order_release);
  impl_->abandoned = true;
  impl_->helper.abandon();
  impl_->stats_writer.abandon();
  // The receiving sockets and what else is fixed after open() can be closed in any case; they are what would
  // keep the slot taken. The rest only if no thread was about to change it when the process forked.
  impl_->receivers->close();
  impl_->links.close();
  if (mutex_.try_lock()) {
    impl_->wire->abandon();
    mutex_.unlock();
  }
}

}  // namespace mroce::net
