// Network: a deterministic network in virtual time between the endpoints of a World.
//
// A burst that an engine hands over is cut into its datagrams, and each meets the faults of its way: link
// down, filters, random loss, burst loss, corruption, CE marks, rate and queue, jitter, duplicates. What is
// left of a burst and arrives at one time is delivered in one call, as GRO would (`coalesce`), else one by
// one. All chance comes from the World's seed.
//
// Faults are looked up from the most special to the most general: (from, to, path), (from, to), all. A value
// that is returned by reference may be changed at any time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "core/base/rng.h"
#include "core/mroce/burst.h"
#include "soak/world/event_queue.h"
#include "soak/world/packet_view.h"

namespace mroce::soak {

struct Faults {
  Nanos latency = micros(10);
  Nanos jitter{0};     // uniform, on top, for each datagram of its own: reorders
  double reorder = 0;  // share of datagrams that is delayed by reorder_delay on top
  Nanos reorder_delay = micros(100);
  double loss = 0;        // share that is lost, each of its own
  double burst_loss = 0;  // probability that a datagram begins a time in which everything is lost
  Nanos burst_length = micros(200);
  double duplicate = 0;
  Nanos duplicate_after = micros(50);
  double late_duplicate = 0;
  Nanos late_duplicate_after = seconds(3600);
  double corrupt = 0;              // share that gets one byte changed
  double ce = 0;                   // share that is marked, if it is ECN-capable
  uint64_t rate_bps = 0;           // 0: as fast as it comes
  uint64_t queue_bytes = 1 << 20;  // in front of the rate; what does not fit is lost
  uint64_t ce_above_bytes = 0;     // marks when the queue is longer; 0: never
  bool cut = false;                // loses everything
};

// Where things arrive: implemented by the World's endpoints.
class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual void receive(const RxMeta& meta, std::vector<std::byte> bytes, uint32_t segment_bytes) = 0;
};

struct NetworkCounters {
  uint64_t sent = 0, delivered = 0, lost = 0, filtered = 0, corrupted = 0, duplicated = 0, overflowed = 0,
           unroutable = 0, marked = 0;
  uint64_t sent_bytes = 0;
};

class Network {
 public:
  // True: this datagram is lost.
  using Filter = std::function<bool(const PacketView&)>;

  Network(uint64_t seed, const Time& now, EventQueue& events);

  // ---- wiring (by World)
  uint32_t attach(Receiver& receiver);  // returns the endpoint's index
  void add_address(uint32_t endpoint, uint32_t port, const Gid& address, uint16_t udp_port, uint8_t slot);
  void send(uint32_t from, const Gid& source, uint8_t slot, const TxBurst& burst);

  // ---- faults
  Faults& faults() { return all_; }
  Faults& faults(uint32_t from, uint32_t to);                // starts as a copy of faults()
  Faults& faults(uint32_t from, uint32_t to, uint8_t path);  // starts as a copy of faults(from, to)
  void forget_special_faults();                              // only faults() is left
  void stop_faults();  // no loss, no duplicates, nothing cut, filters gone; latency and rates stay
  // All filters see each datagram before chance does; it is lost if one of them wants it.
  void add_filter(Filter filter) { filters_.push_back(std::move(filter)); }
  void clear_filters() { filters_.clear(); }
  void drop_between(Time from, Time until);                     // everything
  void drop_path_between(uint8_t path, Time from, Time until);  // both directions
  // The nth (from 0) datagram from now on for which `matches` holds.
  void drop_nth(uint64_t n, Filter matches);
  void cut_link(uint32_t endpoint, uint32_t port, bool down);

  // ---- looking and meddling
  void on_sent(std::function<void(const PacketView&)> watcher) { watchers_.push_back(std::move(watcher)); }
  // May change the bytes of a datagram (see resign()) after the filters.
  void set_meddler(std::function<void(const PacketView&, std::vector<std::byte>&)> meddler) {
    meddler_ = std::move(meddler);
  }
  // Delivers `bytes` as if `from` had sent them, past all faults.
  void inject(uint32_t from, uint32_t to, std::vector<std::byte> bytes, Nanos after, uint32_t to_port = 0);
  static void resign(std::span<std::byte> datagram);  // makes the trailer right again

  void set_coalesce(bool on) { coalesce_ = on; }
  const NetworkCounters& counters() const { return counters_; }
  uint64_t packet_hash() const {
    return hash_;
  }  // of all datagrams that were sent, in order, with their times

 private:
  struct Place {
    uint32_t endpoint = 0;
    uint32_t port = 0;
  };
  struct Way {  // what the faults of one (from, to, path) remember
    Time busy_until{};
    Time bad_until{};
  };
  struct Arrival {
    Time at{};
    Ecn ecn = Ecn::kNotEct;
    std::vector<std::byte> bytes;
  };

  const Faults& faults_of(uint32_t from, uint32_t to, uint8_t path) const;
  const Place* route(const UdpAddress& to) const;
  void travel(PacketView& packet, const Faults& faults, Way& way, std::vector<Arrival>& arrivals);
  std::optional<Time> through_queue(const PacketView& packet, const Faults& faults, Way& way, Ecn& ecn);
  const char* fate_before_chance(const PacketView& packet, const Faults& faults);
  void deliver(const Place& place, const UdpAddress& source, std::vector<Arrival> arrivals);
  void schedule(const Place& place, const UdpAddress& source, Time at, Ecn ecn, std::vector<std::byte> bytes,
                uint32_t segment_bytes);
  void note(const PacketView& packet, const char* fate) const;
  void hash_bytes(std::span<const std::byte> bytes);

  Rng rng_;
  const Time& now_;
  EventQueue& events_;
  std::vector<Receiver*> receivers_;
  std::map<UdpAddress, Place> places_;
  std::vector<std::vector<UdpAddress>> addresses_;  // [endpoint][port], listening
  std::set<std::pair<uint32_t, uint32_t>> down_;
  Faults all_;
  std::map<std::pair<uint32_t, uint32_t>, Faults> by_pair_;
  std::map<std::tuple<uint32_t, uint32_t, uint8_t>, Faults> by_path_;
  std::map<std::tuple<uint32_t, uint32_t, uint8_t>, Way> ways_;
  std::vector<Filter> filters_;
  std::vector<std::function<void(const PacketView&)>> watchers_;
  std::function<void(const PacketView&, std::vector<std::byte>&)> meddler_;
  bool coalesce_ = true;
  bool trace_ = false;
  NetworkCounters counters_;
  uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace mroce::soak
