// Endpoint: one Engine with its memory in a World, and handles of what was made on it that know their
// endpoint.
//
// engine() marks the endpoint, so that the World lets it send and report afterwards: call engine methods
// through it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mroce/engine.h"
#include "soak/world/memory.h"
#include "soak/world/network.h"

namespace mroce::soak {

class Endpoint;

struct Mr {
  uint64_t addr = 0;
  uint32_t length = 0;
  uint32_t lkey = 0;
  uint32_t rkey = 0;
  Sge sge(uint32_t offset, uint32_t bytes) const { return {addr + offset, bytes, lkey}; }
  Sge sge() const { return {addr, length, lkey}; }
};

struct QpOptions {
  QpCap cap{256, 256, 4, 4, 256};
  bool signal_all = false;
  bool relaxed = false;
  CqHandle send_cq;          // none: a new one
  CqHandle recv_cq;          // none: the same as the send CQ if that is new, else send_cq
  bool separate_cqs = true;  // with neither given: one for sending, one for receiving
  SrqHandle srq;
  uint64_t user = 0;
};

struct ConnectOptions {
  uint8_t timeout = 14;  // 67 ms nominal
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 12;  // 0.64 ms
  uint8_t max_rd_atomic = 16;
  uint8_t max_dest_rd_atomic = 16;
  uint32_t access = access::kAll;
  uint32_t sq_psn = 0x123456;
  uint32_t rq_psn = 0x123456;
  uint32_t local_port = 0;  // GID index
  uint32_t remote_port = 0;
};

// A queue pair as tests hold it: a small value.
struct Qp {
  Endpoint* endpoint = nullptr;
  QpHandle handle;
  uint32_t number = 0;
  CqHandle send_cq;
  CqHandle recv_cq;

  Status modify(const QpAttr& attr, uint32_t mask) const;
  Status to_init(const ConnectOptions& options = {}) const;
  Status to_rtr(const Qp& peer, const ConnectOptions& options = {}) const;
  Status to_rts(const ConnectOptions& options = {}) const;
  Status to_error() const;
  Status to_reset() const;
  QpState state() const;
  void destroy() const;

  Status post(const SendWr& wr) const;
  Status post_recv(uint64_t wr_id, std::vector<Sge> sges) const;
  // Signaled unless `flags` are given.
  Status send(uint64_t wr_id, std::vector<Sge> sges, uint32_t flags = send_flag::kSignaled) const;
  Status send_imm(uint64_t wr_id, std::vector<Sge> sges, uint32_t imm,
                  uint32_t flags = send_flag::kSignaled) const;
  Status send_inv(uint64_t wr_id, std::vector<Sge> sges, uint32_t rkey,
                  uint32_t flags = send_flag::kSignaled) const;
  Status write(uint64_t wr_id, std::vector<Sge> sges, uint64_t remote, uint32_t rkey,
               uint32_t flags = send_flag::kSignaled) const;
  Status write_imm(uint64_t wr_id, std::vector<Sge> sges, uint64_t remote, uint32_t rkey, uint32_t imm,
                   uint32_t flags = send_flag::kSignaled) const;
  Status read(uint64_t wr_id, std::vector<Sge> sges, uint64_t remote, uint32_t rkey,
              uint32_t flags = send_flag::kSignaled) const;
  Status fetch_add(uint64_t wr_id, Sge into, uint64_t remote, uint32_t rkey, uint64_t add,
                   uint32_t flags = send_flag::kSignaled) const;
  Status compare_swap(uint64_t wr_id, Sge into, uint64_t remote, uint32_t rkey, uint64_t compare,
                      uint64_t swap, uint32_t flags = send_flag::kSignaled) const;
};

struct EndpointOptions {
  std::string name;
  uint32_t planes = 1;                       // local ports: 10.0.<plane>.<host>/24
  std::optional<uint8_t> host;               // last byte of the addresses; by default a new one
  uint8_t slot = 0;                          // several endpoints may share a host
  std::function<void(EngineConfig&)> tweak;  // at each start
  // The host as a slow reader: datagrams wait in a buffer of so many bytes and are read at this rate.
  uint64_t read_rate_bps = 0;  // 0: at once
  uint64_t read_buffer_bytes = 1 << 20;
  uint32_t link_mtu = 9000;
  Nanos clock_ahead{0};  // of the World's time
};

class World;

class Endpoint final : public Receiver {
 public:
  Endpoint(World& world, EndpointOptions options, uint8_t host, uint64_t seed);

  Engine& engine();            // the endpoint must run
  const Engine& look() const;  // getters only: does not mark
  bool running() const { return engine_ != nullptr; }
  // Grows whenever its engine may have changed: while it stays, completions and events stay, too.
  uint64_t activity() const { return activity_; }
  WorldMemory& memory() { return memory_; }
  const WorldMemory& memory() const { return memory_; }
  const std::string& name() const { return options_.name; }
  uint32_t index() const { return index_; }
  uint32_t ports() const { return options_.planes; }
  Gid gid(uint32_t port = 0) const;
  Time now() const;  // by its own clock
  Rng& rng() { return rng_; }

  // The process dies: no farewell, what is on the way to it is lost. Its memory stays for the tests to look
  // at.
  void crash();
  // A new process with a new endpoint id on the same addresses.
  void restart();
  // Reads, sends and fires nothing for this long (a process that does not get the CPU).
  void freeze(Nanos duration);
  // Its clock goes on from a later time, as after a suspended machine.
  void jump_clock(Nanos forward);
  void set_read_rate(uint64_t bps) { options_.read_rate_bps = bps; }
  // Both ends of the cable: the network loses everything; the engine is told if `tell`.
  void set_link(uint32_t port, bool up, bool tell = true);

  // ---- objects; each of these must succeed
  PdHandle pd();  // made at first use
  Mr make_mr(size_t bytes, uint32_t access_flags = access::kAll);
  CqHandle make_cq(uint32_t capacity = 4096, uint64_t user = 0);
  SrqHandle make_srq(uint32_t max_wr = 256, uint32_t max_sge = 4, uint32_t limit = 0, uint64_t user = 0);
  Status post_srq_recv(SrqHandle srq, uint64_t wr_id, std::vector<Sge> sges);
  Qp make_qp(const QpOptions& options = {});

  // ---- what happened
  std::optional<Wc> poll(CqHandle cq);
  std::vector<Wc> poll_all(CqHandle cq);
  const std::vector<mroce::Event>& events() const { return events_; }
  // Removes the oldest event of this kind (and cookie); false if there is none.
  bool take_event(EventKind kind, std::optional<uint64_t> user = std::nullopt);
  // The one connection to `peer`; nullopt if there is none (ended ones count only if none is open).
  std::optional<ConnectionStats> connection_to(const Endpoint& peer) const;

  void receive(const RxMeta& meta, std::vector<std::byte> bytes, uint32_t segment_bytes) override;

 private:
  friend class World;
  void start();
  void collect_events();
  void arrive(const RxMeta& meta, std::vector<std::byte> bytes, uint32_t segment_bytes);
  bool pump();  // timers, sending, events; true if anything was done
  bool frozen() const;
  Time deadline() const;
  void thaw();

  World& world_;
  EndpointOptions options_;
  uint8_t host_;
  Rng rng_;
  uint32_t index_ = 0;
  WorldMemory memory_;
  std::unique_ptr<Engine> engine_;
  PdHandle pd_;
  uint64_t incarnation_ = 0;
  bool dirty_ = false;
  uint64_t activity_ = 0;
  Nanos clock_ahead_{0};
  std::vector<mroce::Event> events_;
  std::vector<bool> links_up_;  // as its engines are told
  Time frozen_until_{};
  struct Waiting {
    RxMeta meta;
    std::vector<std::byte> bytes;
    uint32_t segment_bytes;
  };
  std::vector<Waiting> inbox_;  // while frozen
  Time reader_busy_until_{};
  uint64_t overflowed_ = 0;
};

}  // namespace mroce::soak
