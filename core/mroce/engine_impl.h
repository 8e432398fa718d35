// Engine::Impl: the state of the engine and the steps of its state machine, one file for each kind of event:
//
//   objects.cc        PDs, MRs, CQs, SRQs
//   queue_pair.cc     create, modify, destroy, post; error and flush
//   handshake.cc      INIT, INIT_ACK, version; making a connection's planes and paths
//   accept.cc         what becomes of an INIT
//   retry.cc          RETRY: cookies instead of state
//   security.cc       mode 2: keys, sealing, opening
//   goodbye.cc        CLOSE, RESET, loss of a connection
//   streams.cc        STREAM_OPEN … CREDIT_RETURN: life cycle of a stream, credits
//   requester.cc      cutting work requests into packets, responses, completions
//   responder.cc      placing what arrives, order, tail hold, READ and atomics
//   transmit.cc       what to send next; everything that is not data
//   burst.cc          choosing a path and the packets of a burst
//   packet.cc         the bytes of a packet
//   receive.cc        datagrams in, numbering, duplicates
//   ack_send.cc       when and what to acknowledge
//   ack_receive.cc    loss recovery: gap rule, RACK, PTO
//   congestion.cc     per-path window
//   rate_hints.cc     sharing a receiving port among senders; pacing
//   path_health.cc    SUSPECT, FAILED, probing, links
//   timers.cc         deadlines
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/rng.h"
#include "core/mroce/connection.h"
#include "core/mroce/engine.h"
#include "core/mroce/queue_pair.h"
#include "core/mroce/timer_queue.h"
#include "core/rdma/completion_queue.h"
#include "core/rdma/mr_table.h"
#include "core/rdma/receive_queue.h"
#include "core/wire/codec.h"

namespace mroce {

struct Cq {
  CqHandle handle;
  CompletionQueue queue;
  uint32_t users = 0;
  bool error_told = false;
};

struct Srq {
  SrqHandle handle;
  PdHandle pd;
  SharedReceiveQueue queue;
  uint64_t user = 0;
  uint32_t users = 0;
  Ring<uint16_t> blocked;  // streams that wait for credit, first come first served
};

struct Pd {
  uint32_t users = 0;
};

// How a packet fared on arrival.
struct Verdict {
  enum class Kind : uint8_t { kAccept, kReject, kDrop };
  Kind kind = Kind::kAccept;
  wire::NakCode code = wire::NakCode::kNone;
  uint32_t arg = 0;
  static Verdict accept() { return {}; }
  static Verdict drop() { return {Kind::kDrop, wire::NakCode::kNone, 0}; }
  static Verdict reject(wire::NakCode code, uint32_t arg = 0) { return {Kind::kReject, code, arg}; }
};

// How the payload of a packet gets behind its header: as slices of the application's memory, copied, or
// encrypted.
enum class PayloadWay : uint8_t { kSlice, kStage, kSeal };

struct Engine::Impl {
  Impl(EngineConfig configuration, Memory& memory_interface);

  // ---- objects.cc
  template <class T>
  static uint64_t new_handle(uint64_t& counter) {
    return ++counter;
  }
  Cq* find(CqHandle cq) const;
  Srq* find(SrqHandle srq) const;
  QueuePair* find(QpHandle qp) const;
  Pd* find(PdHandle pd);
  void push_completion(Cq& cq, const Wc& wc, bool solicited);
  void fail_users_of_overrun_cqs(Time now);
  void emit(EventKind kind, uint64_t user, uint32_t port = 0) { events.push({kind, user, port}); }

  // ---- queue_pair.cc
  Result<QpHandle> create_qp(const QpInit& init);
  Result<uint16_t> allocate_stream();
  Status modify_qp(Time now, QueuePair& qp, const QpAttr& attr, uint32_t mask);
  Status destroy_qp(Time now, QpHandle handle);
  Status post_send(Time now, QueuePair& qp, const SendWr& wr);
  Status post_recv(Time now, QueuePair& qp, const RecvWr& wr);
  QueuePair* stream_qp(uint16_t stream) const {
    const auto& page = streams[stream >> 8];
    return page ? (*page)[stream & 0xff] : nullptr;
  }
  void set_stream_qp(uint16_t stream, QueuePair* qp);
  // The QP goes to ERR: `status` for the oldest work request (if any is outstanding), the rest is flushed.
  void enter_error(Time now, QueuePair& qp, WcStatus status);
  void flush_receives(QueuePair& qp);
  void tear_down_halves(Time now, QueuePair& qp, wire::StopReason reason);
  void check_drained(QueuePair& qp);

  // ---- handshake.cc
  Result<Connection*> connect(Time now, uint32_t port, const UdpAddress& remote);
  Connection* new_connection(Time now);
  void send_init(Time now, Connection& c);
  void fill_init(const Connection& c, wire::Init& init) const;
  static void fill_grant(const Connection& c, wire::Init& init);
  void fill_first(Connection& c, wire::Init& init);
  std::vector<uint32_t> plane_ports(uint32_t primary, const Gid& remote) const;
  uint32_t offered_payload(uint32_t port, const Gid& remote) const;
  bool is_local(const Gid& address) const;
  void on_init(Time now, const RxMeta& meta, wire::In datagram);
  void on_init_ack(Time now, Connection& c, wire::In body, wire::In tag);
  void accept_peer(Time now, Connection& c, const wire::Init& init);
  void make_paths(Time now, Connection& c, uint32_t count);
  void became_open(Time now, Connection& c);
  void heard_from(Time now, Connection& c);
  void send_version(const RxMeta& meta, const wire::Common& header);
  void merge_into(Connection& loser, Connection& winner);
  Connection* crossing(const Connection& c) const;
  void queue_reply(uint32_t port, const UdpAddress& to, std::vector<std::byte> bytes, size_t size);
  void reset_stale(const Connection& c, const wire::Init& init);

  // ---- accept.cc
  enum class Repetition : uint8_t { kNo, kAnswer, kIgnore };
  Repetition repeats(const Connection& c, const wire::Init& init, uint8_t mode, wire::In datagram) const;
  bool is_address_of(const Connection& c, const UdpAddress& peer) const;
  void answer_existing(const RxMeta& meta, const UdpAddress& peer, const Connection& existing,
                       const wire::Init& init, size_t bytes);
  void accept(Time now, const RxMeta& meta, const wire::Init& init, uint8_t mode, wire::In datagram);
  void begin_as_acceptor(Time now, const RxMeta& meta, const wire::Init& init, uint8_t mode,
                         wire::In datagram, Connection* c);
  Connection* called(const UdpAddress& peer, const wire::Init& init, bool& ours_wins);

  // ---- retry.cc
  wire::Cookie cookie_for(uint32_t slot, const Gid& from, const wire::Init& init);
  bool has_good_cookie(Time now, const Gid& from, const wire::Init& init);
  void send_retry(Time now, const RxMeta& meta, const UdpAddress& peer, const wire::Init& init);
  void on_retry(Time now, Connection& c, wire::In datagram);

  // ---- security.cc
  void draw(std::span<uint8_t> out);  // what others must not guess
  uint64_t draw64();
  uint8_t offered_modes() const;
  std::optional<uint8_t> choose_mode(const wire::Init& init);
  bool same_key_id(const wire::Init& init);
  std::unique_ptr<Opening> new_opening();
  static void secure(Connection& c, std::unique_ptr<Security> security);
  void fill_offer(Connection& c, wire::Init& init);
  void agree_as_acceptor(Connection& c, std::unique_ptr<Opening> opening, const crypto::Key32& shared,
                         wire::In datagram);
  std::unique_ptr<Security> agree_as_initiator(const Connection& c, const wire::Init& init, wire::In body,
                                               wire::In tag);
  static void seal_other(Connection& c, const Path& p, std::byte* start, size_t bytes);
  void seal_data(Connection& c, const Path& p, const TxPacket& packet, QueuePair* qp, wire::In header);
  std::optional<wire::In> open_datagram(Time now, Connection& c, const wire::Common& header,
                                        wire::In datagram);
  template <class Opens>
  bool open_in_phase(Time now, Connection& c, uint8_t phase, const Opens& opens);
  void maintain_keys(Time now, Connection& c);
  void update_keys(Connection& c);
  void follow_update(Time now, Connection& c);

  // ---- goodbye.cc
  void shutdown(Time now);
  void begin_close(Time now, Connection& c, uint32_t reason);
  void on_close(Time now, Connection& c, wire::In datagram);
  void on_close_ack(Time now, Connection& c);
  void on_reset(Time now, Connection& c, wire::In datagram);
  // The peer is gone: outstanding work fails with `status`, both halves of all its streams end.
  void lose_connection(Time now, Connection& c, bool failed);
  void drain_step(Time now, Connection& c);

  // ---- streams.cc
  void open_stream(Time now, QueuePair& qp);
  void queue_control(Time now, Connection& c, ControlMessage message);
  Verdict on_stream_control(Time now, Connection& c, const wire::Data& data, const wire::StreamControl& body);
  void on_stream_open(Time now, Connection& c, uint32_t msn, const wire::StreamControl& body);
  bool means_peer(const Connection& c, const Gid& dgid) const;
  void on_stream_accept(Time now, Connection& c, QueuePair& qp, const wire::StreamControl& body);
  void on_stream_refuse(Time now, QueuePair& qp, const wire::StreamControl& body);
  void on_stream_stop(Time now, QueuePair& qp, uint32_t msn, const wire::StreamControl& body);
  void on_control_accepted(Time now, Connection& c, ControlMessage& message);
  void forget_voids(Connection& c, QueuePair& qp);
  void close_tx(Time now, QueuePair& qp);
  void close_rx(Time now, QueuePair& qp, wire::StopReason reason, wire::NakCode code);
  void drop_rx_state(QueuePair& qp);
  void unbind_receive(QueuePair& qp, uint32_t entry);
  void update_credit(Time now, QueuePair& qp, bool announce_now);
  void on_srq_pressure(Time now, QueuePair& qp);
  void serve_srq(Time now, Srq& srq);
  void on_credit(Time now, QueuePair& qp, uint32_t limit);
  void on_reclaim(Time now, QueuePair& qp);
  void mark_credit(QueuePair& qp);
  void ask_for_credit(Time now, QueuePair& qp);
  void note_rnr(Time now, QueuePair& qp);

  // ---- requester.cc
  void make_ready(Time now, QueuePair& qp);
  bool may_start(Time now, QueuePair& qp, const SendWqe& wqe);
  bool has_request(Time now, QueuePair& qp);
  uint32_t next_request_bytes(const QueuePair& qp, const Connection& c, wire::DataOp& op) const;
  TxPacket cut_request(Time now, Connection& c, QueuePair& qp);
  TxPacket cut_forget(Connection& c, QueuePair& qp);
  bool next_response_bytes(QueuePair& qp, const Connection& c, wire::DataOp& op, uint32_t& payload) const;
  TxPacket cut_response(Connection& c, QueuePair& qp);
  static wire::DataOp op_for(Opcode opcode);
  static WcStatus status_of(wire::NakCode code);
  void request_accepted(Time now, Connection& c, QueuePair& qp, uint64_t msn);
  void complete_requests(Time now, QueuePair& qp);
  void push_send_completion(QueuePair& qp, const SendWqe& wqe, WcStatus status);
  void fail_request(Time now, QueuePair& qp, uint64_t msn, WcStatus status);
  void void_requests(Time now, QueuePair& qp, uint64_t from_msn);
  void start_rewind(Time now, QueuePair& qp, uint64_t msn, Nanos hold);
  void void_packet(Connection& c, TxPacket& packet, uint16_t stream, uint64_t msn);
  void finish_rewind(Time now, QueuePair& qp);
  Verdict on_read_response(Time now, Connection& c, const wire::Data& data, wire::In payload);
  Verdict on_atomic_response(Time now, Connection& c, const wire::Data& data);
  bool scatter(std::span<const Sge> sges, PdHandle pd, uint64_t offset, wire::In payload);
  void on_nak(Time now, Connection& c, const wire::Nak& nak);

  // ---- responder.cc
  Verdict on_request(Time now, Connection& c, const wire::Common& header, const wire::Data& data,
                     wire::In payload);
  Verdict take_request(Time now, Connection& c, QueuePair& qp, const wire::Common& header,
                       const wire::Data& data, wire::In payload);
  Verdict place_write(QueuePair& qp, uint64_t msn, RxMessage& m, const wire::Data& data, wire::In payload);
  Verdict place_send(QueuePair& qp, uint64_t msn, RxMessage& m, const wire::Data& data, wire::In payload);
  bool bind_receive(Time now, QueuePair& qp, uint32_t rqsn);
  uint64_t receive_bytes(QueuePair& qp, uint32_t rqsn) const;
  uint64_t next_receive(const QueuePair& qp) const;
  std::span<const Sge> receive_sges(QueuePair& qp, uint32_t rqsn) const;
  void on_void(Connection& c, const wire::Data& data);
  void advance(Time now, QueuePair& qp);
  bool receive_is_next(const QueuePair& qp, const RxMessage& m) const;
  bool finish_message(QueuePair& qp, uint64_t msn, RxMessage& m);
  bool release_tail(QueuePair& qp, RxMessage& m);
  bool hold_tail(QueuePair& qp, RxMessage& m, uint32_t offset, wire::In payload);
  void drop_tail(RxMessage& m);
  bool execute_read(QueuePair& qp, const RxMessage& m);
  bool execute_atomic(QueuePair& qp, const RxMessage& m);
  void queue_response(QueuePair& qp, Response response);
  void complete_receive(QueuePair& qp, const RxMessage& m, WcStatus status);
  Verdict fail_message(QueuePair& qp, uint64_t msn, wire::NakCode code, WcStatus receive_status);
  void end_failed_stream(Time now, QueuePair& qp, bool peer_closed = false);
  void response_accepted(Time now, QueuePair& qp, uint64_t number);

  // ---- transmit.cc
  bool poll_transmit(Time now, TxBurst& out);
  void want_tx(Connection& c);
  void reap();
  bool build_limits_probe(Time now, Connection& c, TxBurst& out);
  bool build_data_burst(Time now, Connection& c, TxBurst& out);
  Path* choose_path(Time now, Connection& c);
  uint32_t path_room(const Path& p, double most) const;
  uint32_t burst_limit(const Connection& c) const;
  bool next_packet(Time now, Connection& c, Path& p, uint32_t max_bytes, uint64_t& cpsn);
  bool next_new(Time now, Connection& c, uint32_t max_bytes, uint64_t& cpsn);
  bool pop_waiting(Connection& c, Ring<uint64_t>& queue, uint32_t max_bytes, uint64_t& cpsn);
  uint32_t wire_bytes(const Connection& c, const TxPacket& packet) const;
  wire::DataOp op_of(const Connection& c, const TxPacket& packet) const;
  void prune_ready(Time now, Connection& c);
  bool more_to_send(Time now, Connection& c);
  void encode_packet(Time now, Connection& c, Path& p, uint64_t cpsn, bool ask);
  bool readable(QueuePair& qp, const TxPacket& packet);
  uint64_t keep_equal_sizes(Connection& c, uint32_t& first);
  bool prepare_packet(Time now, Connection& c, uint64_t cpsn);
  void fill_request(const TxPacket& packet, QueuePair& qp, wire::Common& h, wire::Data& d);
  void fill_response(const TxPacket& packet, QueuePair& qp, wire::Data& d);
  QueuePair* fill_packet(Connection& c, const TxPacket& packet, wire::Common& h, wire::Data& d);
  uint32_t gather(Connection& c, const TxPacket& packet, QueuePair* qp, PayloadWay way, uint32_t crc);
  uint32_t gather_request(const TxPacket& packet, QueuePair& qp, PayloadWay way, uint32_t crc);
  uint32_t gather_response(const TxPacket& packet, QueuePair& qp, PayloadWay way, uint32_t crc);
  uint32_t add_payload(const std::byte* data, uint32_t bytes, PayloadWay way, uint32_t crc);
  void note_sent(Time now, Connection& c, Path& p, uint64_t cpsn, uint32_t bytes);
  bool build_control(Time now, Connection& c, TxBurst& out);
  bool tail_loss_probe(Time now, Connection& c, TxBurst& out);
  static void send_through(TxBurst& out, const Path& p, Ecn ecn);
  void single(TxBurst& out, Connection& c, Path& p, size_t bytes);
  wire::Common common(Time now, const Connection& c, Path& p, wire::Type type) const;
  std::byte* scratch_space(size_t bytes);
  void add_scratch(size_t bytes);
  void add_slice(const std::byte* data, size_t bytes);
  Path* any_path(Connection& c);

  // ---- receive.cc
  void on_burst(Time now, const RxMeta& meta, wire::In bytes, uint32_t segment_bytes);
  void on_datagram(Time now, const RxMeta& meta, wire::In datagram, Connection*& cached);
  void on_maybe_sealed(Time now, const RxMeta& meta, const wire::Common& header, wire::In datagram,
                       Connection*& cached);
  Connection* find_connection(const wire::Common& header, Connection* cached);
  static uint64_t expand_data_pseq(const Connection& c, const wire::Common& header);
  void on_control_datagram(Time now, Connection& c, const wire::Common& header, wire::In body);
  void on_data(Time now, Connection& c, const RxMeta& meta, const wire::Common& header, wire::In datagram);
  void acknowledge_burst(Time now, Connection& c);
  Verdict deliver(Time now, Connection& c, const wire::Common& header, const wire::Data& data,
                  wire::In payload);

  // ---- ack_send.cc
  void schedule_ack(Connection& c, Time at);
  bool build_ack(Time now, Connection& c, TxBurst& out);
  void note_overflow(Time now, uint64_t datagrams);
  uint8_t current_penalty(Time now);

  // ---- ack_receive.cc
  void on_ack(Time now, Connection& c, const wire::Ack& ack);
  uint32_t on_block(Time now, Connection& c, Path& p, const wire::PathBlock& block, bool& progress);
  void on_cack(Time now, Connection& c, uint64_t cack, bool& progress);
  void accept_cpsn(Time now, Connection& c, uint64_t cpsn);
  void advance_tx(Connection& c);
  void release(Connection& c, Path& p, SentPacket& s, SentPacket::State state);
  void lose(Time now, Connection& c, Path& p, uint64_t pseq);
  void detect_gaps(Time now, Connection& c, Path& p);
  bool detect_overdue(Time now, Connection& c, Path& p);
  void look_for_overdue(Time now, Connection& c);
  Time rack_deadline(const Connection& c, const Path& p) const;
  void trim_sent(Connection& c, Path& p);
  Nanos pto(const Connection& c) const;
  void on_pto(Time now, Connection& c);

  // ---- congestion.cc
  void cc_on_acked(Connection& c, Path& p, uint32_t packets);
  void cc_on_ce(Time now, Path& p, uint32_t ce, uint32_t rx);
  void cc_on_lost(Path& p);
  void cc_on_spurious(Path& p);
  void cc_round_end(Time now, Connection& c, Path& p);
  double cc_max(const Connection& c) const;

  // ---- rate_hints.cc
  void note_demand(Time now, Connection& c, uint32_t port, uint64_t cpsn, uint64_t backlog, uint32_t bytes,
                   bool marked);
  void set_active(Time now, Connection& c, uint32_t port, bool active);
  void leave_ports(Connection& c);
  void count_stream(Connection& c, int change);
  double port_capacity(uint32_t port) const;
  double start_share(uint32_t port) const;
  void tell_idle_senders();
  void allocate(Time now, uint32_t port);
  uint16_t hint_for(Time now, Connection& c, const RxPath& path);
  void on_hint(Connection& c, const Path& p, uint16_t code);
  uint64_t hinted_flight(const Connection& c, const PlaneHint& hint) const;
  bool hint_allows(Time now, Connection& c, uint32_t plane, Time& later);
  void note_paced(Time now, Connection& c, uint32_t plane, uint32_t bytes);
  uint64_t backlog_of(const Connection& c, const QueuePair& qp) const;

  // ---- path_health.cc
  void set_path_state(Time now, Connection& c, Path& p, PathState state);
  void fail_path(Time now, Connection& c, Path& p);
  void recover_path(Time now, Connection& c, Path& p);
  void drain_path(Time now, Connection& c, Path& p);
  void share_retransmissions(Connection& c, Path& p);
  void note_alive(Time now, Connection& c, Path& p);
  void take_another_way(Path& p);
  void leave_degraded(Time now, Connection& c, Path& p);
  std::optional<double> usual_loss(const Connection& c) const;
  static double usual_cwnd(const Connection& c);
  void judge_loss(Time now, Connection& c, Path& p);
  void on_silent_expiry(Time now, Connection& c, Path& p, uint32_t overdue, Time newest_sent);
  bool build_probe(Time now, Connection& c, Path& p, TxBurst& out);
  void on_probe(Time now, Connection& c, const wire::Common& header, const wire::Probe& probe);
  void on_probe_ack(Time now, Connection& c, const wire::ProbeAck& ack);
  bool has_other_plane(const Connection& c, const Path& p) const;
  void on_link(Time now, uint32_t port, bool up);
  void on_port_status(Time now, Connection& c, const wire::PortStatus& status);
  uint16_t new_entropy() { return static_cast<uint16_t>(rng.below(kEntropies)); }

  // ---- timers.cc
  Time deadline(Connection& c) const;
  static Time path_due(const Path& p, Time rack);
  Time paths_due(Connection& c) const;
  Time deadline(const QueuePair& qp) const;
  void reschedule(Connection& c);
  void reschedule(QueuePair& qp);
  void on_timeout(Time now);
  void fire(Time now, Connection& c);
  void fire(Time now, QueuePair& qp);
  void probe_limits(Time now, Connection& c);
  void shed_memory(Connection& c);
  Nanos stream_budget(const QueuePair& qp) const;
  void outlive_peer(Time now, QueuePair& qp);
  void note_outstanding(Time now, Connection& c);

  // ---- stats.cc
  ConnectionStats stats_of(const Connection& c) const;

  // ---- state
  EngineConfig config;
  Memory& memory;
  Rng rng;
  EngineCounters counters;
  MrTable mrs;
  std::unordered_map<uint64_t, Pd> pds;
  std::unordered_map<uint64_t, std::unique_ptr<Cq>> cqs;
  std::unordered_map<uint64_t, std::unique_ptr<Srq>> srqs;
  std::unordered_map<uint64_t, std::unique_ptr<QueuePair>> qps;
  std::vector<CqHandle> overrun_cqs;  // whose users are still to be failed
  std::array<std::unique_ptr<std::array<QueuePair*, 256>>, 256> streams;
  std::unordered_map<uint16_t, uint32_t> busy_streams;  // numbers whose CLOSE or STOP is not accepted yet
  uint16_t next_stream = 16;
  uint64_t handle_counter = 0;
  std::vector<std::unique_ptr<Connection>> connections;  // by index; holes are null
  std::unordered_map<uint32_t, Connection*> by_id;
  std::map<UdpAddress, Connection*> by_address;  // where commands find a connection, open or opening
  std::vector<ConnectionStats> finished;         // of closed connections, bounded
  std::vector<uint32_t> closed;                  // connections to free at the next entry
  Ring<uint32_t> tx_queue;                       // connections that may have something to send
  Ring<Event> events;
  TimerQueue timers;
  uint64_t held_bytes = 0;
  std::vector<PortShare> shares;  // by port
  uint32_t possible_senders = 0;  // connections with a stream towards us
  uint8_t penalty = 0;
  Time penalty_changed{};
  bool shutting_down = false;
  struct Reply {
    uint32_t port;
    UdpAddress to;
    std::vector<std::byte> bytes;
  };
  Ring<Reply> replies;              // VERSION, RETRY and "existing" answers, bounded
  std::array<uint8_t, 8> key_id{};  // of config.preshared_key
  std::optional<crypto::Key32> cookie_secret;

  // Scratch of the burst that was polled last
  std::vector<std::byte> scratch;
  size_t scratch_used = 0;
  std::vector<Slice> slices;
  std::vector<uint64_t> chosen;
  std::vector<std::byte> reply_bytes;
  crypto::Aead* sealing = nullptr;  // of the DATA packet that is being encrypted
  std::vector<std::byte> opened;    // the DATA packet that was decrypted last
};

}  // namespace mroce
