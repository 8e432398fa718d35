// Engine: the whole transport of one endpoint (one process, or one simulated host) as a deterministic state
// machine.
//
// Four kinds of methods, as in quinn-proto: getters; on_* inputs; commands; poll_* outputs. There is no
// clock, thread, socket or random device behind it: `now` is an argument and never goes back, randomness
// comes from EngineConfig::seed, memory is reached through `Memory`. Not thread-safe: the driver holds one
// lock.
//
// The driver's loop, in this order:
//   1. on_burst() for what has arrived, on_link() for link events;
//   2. on_timeout(now) when now >= next_deadline();
//   3. poll_transmit() until it answers false, sending each burst;
//   4. poll_event() until it answers false, waking whoever waits;
//   5. sleep until a datagram, a command or next_deadline().
// Virtual payload (EngineConfig::virtual_payload, for simulation): payload has a length and no bytes. A burst
// has a slice without data in its place; what comes in is a span that is as long as the datagram but is only
// read up to the payload; Memory is told of lengths with spans that must not be read, and fetch() is not
// called; trailers are not computed and not checked. Everything else is as with bytes.
//
// Commands (post_send, post_recv, modify_qp, destroy_qp …) may make work for 3 and 4: run those afterwards.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/time.h"
#include "core/mroce/burst.h"
#include "core/mroce/config.h"
#include "core/mroce/memory.h"
#include "core/rdma/handles.h"
#include "core/rdma/types.h"
#include "core/trace/counters.h"

namespace mroce {

// What poll_event() reports.
enum class EventKind : uint8_t {
  kCompletion,        // an armed CQ got a completion (it is disarmed by that); cq_user
  kCqError,           // IBV_EVENT_CQ_ERR: a CQ overflowed; cq_user
  kQpFatal,           // IBV_EVENT_QP_FATAL: a CQ of the QP overflowed, which puts it into ERR; qp_user
  kQpRequestError,    // IBV_EVENT_QP_REQ_ERR; qp_user
  kQpAccessError,     // IBV_EVENT_QP_ACCESS_ERR; qp_user
  kCommEstablished,   // IBV_EVENT_COMM_EST: first packet arrived in RTR; qp_user
  kSqDrained,         // IBV_EVENT_SQ_DRAINED; qp_user
  kSrqLimitReached,   // IBV_EVENT_SRQ_LIMIT_REACHED; srq_user
  kQpLastWqeReached,  // IBV_EVENT_QP_LAST_WQE_REACHED: a QP with an SRQ went to ERR; qp_user
  kPortActive,        // IBV_EVENT_PORT_ACTIVE; port
  kPortError,         // IBV_EVENT_PORT_ERR; port
};

struct Event {
  EventKind kind = EventKind::kCompletion;
  uint64_t user = 0;  // the cookie given when the object was created
  uint32_t port = 0;
};

struct MrInfo {
  uint32_t lkey = 0;
  uint32_t rkey = 0;
};

struct QpInit {
  PdHandle pd;
  CqHandle send_cq;
  CqHandle recv_cq;
  SrqHandle srq;  // optional
  QpCap cap;
  bool signal_all = false;
  bool relaxed = false;  // turns the tail hold off for WRITEs that arrive on this QP
  uint64_t user = 0;
};

struct QpInfo {
  QpState state = QpState::kReset;
  QpAttr attr;
  QpCap cap;
  bool signal_all = false;
  bool sq_draining = false;
};

struct SrqInfo {
  uint32_t max_wr = 0;
  uint32_t max_sge = 0;
  uint32_t limit = 0;
};

enum class PathState : uint8_t { kNew, kActive, kSuspect, kFailed, kDegraded, kDenied };
std::string_view name_of(PathState state);

struct PathStats {
  uint8_t id = 0;
  uint8_t plane = 0;
  uint32_t port = 0;  // local port index
  Gid remote;
  uint16_t entropy = 0;
  PathState state = PathState::kNew;
  Nanos srtt{0};
  Nanos min_rtt{0};
  uint64_t cwnd_bytes = 0;
  uint64_t in_flight = 0;  // data packets; counters.sent = acked + lost + these
  PathCounters counters;
};

struct ConnectionStats {
  uint32_t local_id = 0;
  Gid local;
  UdpAddress remote;
  std::string state;
  uint32_t payload_mtu = 0;
  uint8_t security = 0;  // mode
  Time opened{};
  Time first_data{};  // first payload sent or received
  Time last_data{};
  uint64_t memory_bytes = 0;         // what this connection holds, heap included
  uint64_t peer_receive_buffer = 0;  // bytes, as the peer told us
  uint32_t streams = 0;
  ConnectionCounters counters;
  std::vector<PathStats> paths;
};

class Engine {
 public:
  Engine(EngineConfig config, Memory& memory);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // ---- getters
  // -----------------------------------------------------------------------------------------------
  const EngineConfig& config() const;
  const EngineCounters& counters() const;
  std::vector<ConnectionStats> connection_stats() const;
  // The smallest of all timers; kNever if nothing waits.
  Time next_deadline() const;
  // True when no connection is open or closing: the endpoint may go.
  bool quiescent() const;
  // Bytes of tails in custody; zero when nothing is under way.
  uint64_t held_bytes() const;

  // ---- inputs
  // ------------------------------------------------------------------------------------------------ One
  // received super-packet: `bytes` holds datagrams of `segment_bytes` each, the last one may be shorter.
  void on_burst(Time now, const RxMeta& meta, std::span<const std::byte> bytes, uint32_t segment_bytes);
  // Timers whose deadline is <= now fire.
  void on_timeout(Time now);
  // A local port lost or regained its link (netlink RTM_NEWLINK in the endpoint).
  void on_link(Time now, uint32_t port, bool up);
  // The receiving socket dropped `datagrams` since the last call (SO_RXQ_OVFL).
  void on_receive_overflow(Time now, uint64_t datagrams);
  // The network refused a burst on this path (ENETUNREACH, EPERM, …); the packets count as sent and lost.
  void on_send_error(Time now, uint32_t port);

  // ---- commands: protection domains, memory regions
  // ----------------------------------------------------------
  Result<PdHandle> alloc_pd();
  Status dealloc_pd(PdHandle pd);  // kBusy while anything refers to it
  // [iova, iova+length) as peers and SGEs name it, at host address `addr`. length up to 2^63; access: see
  // types.h; remote write and atomic need local write (kInvalidArgument).
  Result<MrInfo> reg_mr(PdHandle pd, uint64_t addr, uint64_t length, uint64_t iova, uint32_t access_flags);
  Status dereg_mr(uint32_t lkey);
  // ibv_rereg_mr: any of the three may change; keys may change.
  Result<MrInfo> rereg_mr(uint32_t lkey, std::optional<PdHandle> pd,
                          std::optional<std::array<uint64_t, 3>> range, std::optional<uint32_t> access_flags);

  // ---- commands: completion queues
  // ---------------------------------------------------------------------------
  Result<CqHandle> create_cq(uint32_t capacity, uint64_t user);  // capacity 1..max_cqe
  Result<uint32_t> resize_cq(CqHandle cq, uint32_t capacity);    // kInvalidArgument if it holds more
  Status destroy_cq(CqHandle cq);                                // kBusy while a QP uses it
  // Takes up to out.size() completions in order; returns how many.
  uint32_t poll_cq(CqHandle cq, std::span<Wc> out);
  // Arms the CQ: one kCompletion event for the next completion (solicited_only: the next solicited or failed
  // one).
  Status arm_cq(CqHandle cq, bool solicited_only);
  // Drops completions of this QP (destroy_qp does it by itself).
  uint32_t cq_depth(CqHandle cq) const;

  // ---- commands: shared receive queues
  // -----------------------------------------------------------------------
  Result<SrqHandle> create_srq(PdHandle pd, uint32_t max_wr, uint32_t max_sge, uint32_t limit, uint64_t user);
  Status modify_srq(SrqHandle srq, std::optional<uint32_t> max_wr, std::optional<uint32_t> limit);
  Result<SrqInfo> query_srq(SrqHandle srq) const;
  Status destroy_srq(SrqHandle srq);  // kBusy while a QP uses it
  Status post_srq_recv(Time now, SrqHandle srq, const RecvWr& wr);

  // ---- commands: queue pairs (RC)
  // ---------------------------------------------------------------------------- Returns the QP; its number
  // is (slot << 16 | stream). `cap` is rounded up to what was allocated; see query_qp.
  Result<QpHandle> create_qp(const QpInit& init);
  uint32_t qp_num(QpHandle qp) const;  // 0 if there is none
  // The state machine of IBTA chapter 10.3 with its required and optional attributes (core/rdma/qp_state.h).
  Status modify_qp(Time now, QpHandle qp, const QpAttr& attr, uint32_t mask);
  Result<QpInfo> query_qp(QpHandle qp) const;
  // Unaccepted packets become VOID, the stream is closed, completions of this QP leave its CQs.
  Status destroy_qp(Time now, QpHandle qp);
  // Appends one work request. kQueueFull (ENOMEM), kBadState (EINVAL), kInvalidArgument. Work requests posted
  // in ERR are flushed with kWrFlushErr.
  Status post_send(Time now, QpHandle qp, const SendWr& wr);
  Status post_recv(Time now, QpHandle qp, const RecvWr& wr);

  // Begins an orderly end: closes every connection. Drive until quiescent().
  void shutdown(Time now);

  // ---- outputs
  // -----------------------------------------------------------------------------------------------
  bool poll_transmit(Time now, TxBurst& out);
  bool poll_event(Event& out);

  struct Impl;  // engine_impl.h: for the engine's own files and their unit tests

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace mroce
