// Network: a deterministic network in virtual time between the endpoints of a World.
//
// A burst that an engine hands over is cut into its datagrams, and each meets the faults of its way: link
// down, filters, random loss, burst loss, corruption, CE marks, rate and queue, jitter, duplicates. What is
// left of a burst and arrives at one time is delivered in one call, as GRO would (`coalesce`), else one by
// one. All chance comes from the World's seed. A port may have a rate, too: then all that leaves or reaches
// its address, whoever sends it, shares one queue in each direction.
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
#include "soak/world/faults.h"
#include "soak/world/packet_view.h"

namespace mroce::soak {

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
  void stop_faults();  // no loss, no duplicates, nothing cut, filters gone; latency and rates stay
  // All filters see each datagram before chance does; it is lost if one of them wants it.
  void add_filter(Filter filter) { filters_.push_back(std::move(filter)); }
  void clear_filters() { filters_.clear(); }
  void add_spell(Spell spell) { spells_.push_back(spell); }
  void drop_between(Time from, Time until);                     // everything
  void drop_path_between(uint8_t path, Time from, Time until);  // both directions
  // The nth (from 0) datagram from now on for which `matches` holds.
  void drop_nth(uint64_t n, Filter matches);
  void cut_link(uint32_t endpoint, uint32_t port, bool down);
  // Of the network interface with this address, in both directions.
  void set_port_rate(const Gid& address, uint64_t rate_bps, uint64_t queue_bytes, uint64_t ce_above_bytes);

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
  FaultTally& tally() { return tally_; }
  const FaultTally& tally() const { return tally_; }
  // Of all datagrams that were sent, in order, with their times.
  uint64_t packet_hash() const { return hash_; }
  uint64_t final_draw() { return rng_.next(); }
  // Told of each datagram and what became of it ("": it goes its way).
  void on_fate(std::function<void(const PacketView&, const char*)> teller) { teller_ = std::move(teller); }

 private:
  struct Place {
    uint32_t endpoint = 0;
    uint32_t port = 0;
  };
  struct Queue {
    Time busy_until{};
  };
  struct Way {  // what the faults of one (from, to, path) remember
    Queue queue;
    Time bad_until{};
  };
  struct Nic {  // of one address
    uint64_t rate_bps = 0, queue_bytes = 0, ce_above_bytes = 0;
    Queue out;
    std::map<Time, Time> in;  // when a datagram enters, and when it has left
  };
  struct Arrival {
    Time at{};
    Ecn ecn = Ecn::kNotEct;
    std::vector<std::byte> bytes;
  };

  const Faults& faults_of(uint32_t from, uint32_t to, uint8_t path) const;
  const Place* route(const UdpAddress& to) const;
  void travel(PacketView& packet, const Faults& faults, Way& way, std::vector<Arrival>& arrivals);
  const char* fate_by_chance(const Faults& faults, Way& way);
  std::optional<Time> through_queues(const PacketView& packet, const Faults& faults, Way& way, Ecn& ecn);
  std::optional<Time> leaves_port(Nic* nic, size_t size, Ecn& ecn);
  std::optional<Time> enters_port(Nic* nic, size_t size, Time enters, Ecn& ecn);
  Nic* nic_of(uint32_t endpoint, uint32_t port);
  const char* fate_before_chance(const PacketView& packet, const Faults& faults);
  const char* fate_by_spell(const PacketView& packet);
  bool spells_cover(uint32_t from, uint32_t to, uint8_t path);
  void damage(const PacketView& packet, const Faults& faults, std::vector<std::byte>& bytes);
  void deliver(const Place& place, const UdpAddress& source, std::vector<Arrival> arrivals);
  void schedule(const Place& place, const UdpAddress& source, Time at, Ecn ecn, std::vector<std::byte> bytes,
                uint32_t segment_bytes);
  void note(const PacketView& packet, const char* fate) const;
  void hash_datagram(std::span<const std::byte> bytes);
  void hash_word(uint64_t word);

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
  std::map<Gid, Nic> nics_;
  std::vector<Filter> filters_;
  std::vector<Spell> spells_;
  std::vector<std::function<void(const PacketView&)>> watchers_;
  std::function<void(const PacketView&, std::vector<std::byte>&)> meddler_;
  std::function<void(const PacketView&, const char*)> teller_;
  std::vector<std::byte> flat_;  // of the burst that is being sent
  bool coalesce_ = true;
  bool trace_ = false;
  NetworkCounters counters_;
  FaultTally tally_;
  uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace mroce::soak
