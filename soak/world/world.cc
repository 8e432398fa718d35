#include "soak/world/world.h"

#include <algorithm>

#include "core/base/assert.h"

namespace mroce::soak {

namespace {
constexpr uint64_t kMaxStepsAtOnce = 1000000;  // without time passing: more is an endless loop
}

World::World(uint64_t seed) : rng_(seed), network_(rng_.next(), now_, events_) {}

Endpoint& World::add_endpoint(EndpointOptions options) {
  const uint8_t host = options.host.value_or(next_host_);
  if (!options.host) ++next_host_;
  if (options.name.empty()) options.name = std::string(1, static_cast<char>('a' + endpoints_.size()));
  endpoints_.push_back(std::make_unique<Endpoint>(*this, std::move(options), host, rng_.next()));
  return *endpoints_.back();
}

void World::pump() {
  for (const auto& endpoint : endpoints_) endpoint->pump();
}

bool World::step(Time limit) {
  pump();
  Time next = events_.next();
  for (const auto& endpoint : endpoints_) next = std::min(next, endpoint->deadline());
  if (next > limit) return false;
  if (next > now_) {
    now_ = next;
    steps_at_now_ = 0;
  }
  MROCE_ASSERT(++steps_at_now_ < kMaxStepsAtOnce);
  while (events_.next() <= now_) events_.run_one();
  pump();
  return true;
}

bool World::run_until(const std::function<bool()>& condition, Nanos limit) {
  const Time end = now_ + limit;
  pump();
  while (!condition()) {
    if (!step(end)) {
      now_ = end;
      steps_at_now_ = 0;
      return condition();
    }
  }
  return true;
}

void World::run_for(Nanos duration) {
  run_until([] { return false; }, duration);
}

std::optional<Wc> World::wait_for(Endpoint& endpoint, CqHandle cq, Nanos limit) {
  std::optional<Wc> wc;
  run_until(
      [&] {
        wc = endpoint.poll(cq);
        return wc.has_value();
      },
      limit);
  return wc;
}

std::vector<Wc> World::wait_for(Endpoint& endpoint, CqHandle cq, size_t count, Nanos limit) {
  std::vector<Wc> result;
  run_until(
      [&] {
        while (result.size() < count) {
          const auto wc = endpoint.poll(cq);
          if (!wc) break;
          result.push_back(*wc);
        }
        return result.size() == count;
      },
      limit);
  return result;
}

void connect_one(const Qp& qp, const Qp& peer, const ConnectOptions& options) {
  MROCE_ASSERT(qp.to_init(options).has_value());
  MROCE_ASSERT(qp.to_rtr(peer, options).has_value());
  MROCE_ASSERT(qp.to_rts(options).has_value());
}

void connect(const Qp& a, const Qp& b, const ConnectOptions& options) {
  ConnectOptions reverse = options;
  std::swap(reverse.local_port, reverse.remote_port);
  std::swap(reverse.sq_psn, reverse.rq_psn);
  connect_one(a, b, options);
  connect_one(b, a, reverse);
}

}  // namespace mroce::soak
