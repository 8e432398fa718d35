// World: endpoints and a network in one virtual time. Nothing in it reads a clock; a seed determines
// everything.
//
//   World world(seed);
//   Endpoint& a = world.add_endpoint({.name = "a"});
//   Endpoint& b = world.add_endpoint({.name = "b"});
//   Qp qa = a.make_qp(), qb = b.make_qp();
//   connect(qa, qb);
//   qa.write(1, {ma.sge(0, 8192)}, mb.addr, mb.rkey);
//   const auto wc = world.wait_for(a, qa.send_cq);
//
// MROCE_TEST_TRACE=1 prints a line for every datagram that is sent, and what became of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "soak/world/endpoint.h"
#include "soak/world/event_queue.h"
#include "soak/world/network.h"

namespace mroce::soak {

class World {
 public:
  explicit World(uint64_t seed);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Endpoint& add_endpoint(EndpointOptions options = {});
  Endpoint& endpoint(size_t index) { return *endpoints_[index]; }
  size_t endpoints() const { return endpoints_.size(); }
  Network& network() { return network_; }
  const Network& network() const { return network_; }
  Time now() const { return now_; }
  Rng& rng() { return rng_; }

  void at(Time when, std::function<void()> action) { events_.at(when, std::move(action)); }
  void after(Nanos delay, std::function<void()> action) { at(now_ + delay, std::move(action)); }

  // Runs until `condition` holds, at most `limit` of virtual time; true if it holds. It is asked after every
  // step.
  bool run_until(const std::function<bool()>& condition, Nanos limit = seconds(10));
  void run_for(Nanos duration);
  // The next completion of this CQ; nullopt after `limit`.
  std::optional<Wc> wait_for(Endpoint& endpoint, CqHandle cq, Nanos limit = seconds(10));
  // Waits for `count` completions; fewer after `limit`.
  std::vector<Wc> wait_for(Endpoint& endpoint, CqHandle cq, size_t count, Nanos limit = seconds(10));
  // Lets every engine send and report what it has to, without time passing.
  void pump();

 private:
  bool step(Time limit);  // to the next thing that happens; false if that is after `limit`

  Time now_ = time_from_ns(1000000000);  // not 0, which means "not yet" in some places
  Rng rng_;
  EventQueue events_;
  Network network_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  uint8_t next_host_ = 1;
  uint64_t steps_at_now_ = 0;
};

// Takes both queue pairs to RTS, each with the other as its peer. Every step must succeed.
void connect(const Qp& a, const Qp& b, const ConnectOptions& options = {});
// The same for one of them; its peer need not be ready.
void connect_one(const Qp& qp, const Qp& peer, const ConnectOptions& options = {});

}  // namespace mroce::soak
