// What an Endpoint is made of. Private to net/.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "net/endpoint.h"
#include "net/helper_thread.h"
#include "net/host_memory.h"
#include "net/key_file.h"
#include "net/link_watch.h"
#include "net/local_addresses.h"
#include "net/log.h"
#include "net/periodic.h"
#include "net/receive_sockets.h"
#include "net/wire.h"

namespace mroce::net {

// Bounds of one round, so that a lock is never held for long.
struct RoundBudget {
  uint32_t receives = 4;
  uint32_t bursts = 8;
};

struct Endpoint::Impl final : WireUser, HelperWork {
  Impl(const Settings& settings_in, EventSink& sink_in, std::mutex& mutex_in);

  // --- endpoint.cc: the steps of open(); errors are sentences ---
  tl::expected<std::optional<PresharedKeyBytes>, std::string> read_key() const;
  tl::expected<void, std::string> open_receivers();
  tl::expected<void, std::string> open_wire();

  // --- progress.cc: all but the last need the lock ---
  // What has arrived, timers, sending, events. `sockets`: which receiving sockets to look at.
  HelperRound round(Time now, uint64_t sockets, bool links, const RoundBudget& budget);
  // The round of a polling thread.
  HelperRound polling_round(Time now);
  void after_command(Time now);
  HelperRound helper_round(const WakeReason& reason) override;

  bool receive(uint64_t sockets, uint32_t budget, bool& more);
  void note_heard(size_t socket);
  bool transmit(Time now, uint32_t budget);  // true: stopped at the budget
  void deliver_events();
  void publish_deadline(Time now, bool more);
  void report_links(Time now);
  void report_refusals();
  void report_trace();
  void arrived(const RxMeta& meta, std::span<const std::byte> bytes, uint32_t segment_bytes) override;

  Time last_call() const override { return time_from_ns(last_call_ns.load(std::memory_order_relaxed)); }
  Time deadline() const override { return time_from_ns(deadline_ns.load(std::memory_order_seq_cst)); }
  Time clock() const override { return clock_now(); }

  // --- endpoint_close.cc ---
  void drive_until_quiescent();
  void close_descriptors();
  // --- stats_json.cc ---
  std::string stats_json() const;  // needs the lock
  void write_stats_file(const std::string& json) const;

  Settings settings;
  EventSink& sink;
  std::mutex& mutex;
  Log log;
  std::vector<LocalAddress> addresses;
  std::vector<GidEntry> gids;
  uint64_t seed = 0;
  Time opened{};
  HostMemory memory;
  LinkWatch links;
  std::optional<ReceiveSockets> receivers;
  std::optional<Wire> wire;
  std::unique_ptr<Engine> engine;

  Time now{};        // of the present round
  Time last_look{};  // of an application's thread at the sockets
  uint64_t rounds = 0;
  size_t heard_last = 0;        // socket of the last datagram
  uint64_t heard_in_a_row = 0;  // receives from it without another between
  uint32_t rounds_unseen = 0;   // of application threads without a look at all sockets
  bool unsent = false;          // the engine may have more to send
  uint64_t socket_overflows = 0;
  bool told_of_mode = false;   // that a peer allows no security mode that we do
  bool told_of_key = false;    // that one has another pre-shared key
  bool told_of_trace = false;  // that datagrams are missing in it

  std::atomic<int64_t> last_call_ns{0};  // or a time far ahead while a call goes on
  std::atomic<int64_t> deadline_ns{ns_of(kNever)};
  mutable std::atomic<uint32_t> waiting_callers{0};
  bool abandoned = false;
  HelperThread helper;  // it and what follows end before what they use
  Periodic stats_writer;
};

// "%p" in file names is the process id.
std::string with_process_id(const std::string& path);

}  // namespace mroce::net
