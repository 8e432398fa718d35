// Target: an implementation under test, as assertions see it.
//
// It has two sides. The control side creates queue pairs, posts work and looks at memory: one method for each
// command of docs/comply-control.md. The packet side sends datagrams as bytes and receives what the target
// sent. Time is whatever the target lives in: virtual for the engine in this process, real for sockets.
// Assertions only ever wait through receive(), and every wait has a bound.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/address.h"
#include "core/base/time.h"
#include "core/mroce/burst.h"

namespace mroce::comply {

using Bytes = std::vector<std::byte>;

// Thrown by targets and caught by the suite, never outside of one assertion.
struct TargetFailed : std::runtime_error {  // the target refused a command or cannot be reached
  using std::runtime_error::runtime_error;
};
// The target or the tester cannot be used at all: nobody answers, there is no socket, an answer is none. This
// says nothing about a rule, so the assertion counts as not run.
struct NotRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Unsupported : std::runtime_error {  // it does not have this command: the assertion is skipped
  using std::runtime_error::runtime_error;
};

enum class Feature : uint8_t {
  kRequester,
  kRead,
  kAtomics,
  kSrq,
  kInitiator,
  kPaths,
  kPlanes,
  kMode2,
  kRetry,
  // Of the suite, not of the protocol: nobody lists these.
  kVirtualTime,  // exact timing and waiting for seconds; only a target in virtual time
  kRateHints,    // StartOptions::rate_hints
};
std::string_view name_of(Feature feature);
std::optional<Feature> feature_named(std::string_view name);

struct Limits {  // what is not given is the target's own choice
  std::optional<uint32_t> max_paths = {};
  std::optional<uint32_t> max_payload = {};
  std::optional<uint32_t> cpsn_window = {};
  std::optional<uint32_t> max_rd_atomic = {};
  std::optional<uint32_t> max_connections = {};
  std::optional<uint32_t> key_update_packets = {};  // of one key, before the next one
  std::optional<uint32_t> key_max_packets = {};     // of one key at most
};

struct StartOptions {
  Limits limits = {};
  uint8_t mode = 0;
  Bytes psk = {};
  std::optional<uint64_t> seed = {};
  bool rate_hints = false;
};

struct Started {
  Gid address;
  uint16_t port = 0;
  uint8_t slot = 0;
  uint32_t planes = 1;
};

struct Region {
  uint32_t id = 0;
  uint64_t addr = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;
};

struct QueuePair {
  uint32_t id = 0;
  uint32_t qpn = 0;
};

struct ConnectOptions {
  Gid remote_address;
  uint32_t remote_qpn = 0;
  uint32_t sq_psn = 0x1234;
  uint32_t rq_psn = 0x4321;
  bool to_rts = true;  // else RTR
  uint8_t timeout = 14;
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 12;
  uint8_t rd_atomic = 16;
  uint32_t access = 15;
};

enum class WorkOp : uint8_t { kSend, kSendImm, kSendInv, kWrite, kWriteImm, kRead, kCompareSwap, kFetchAdd };
std::string_view name_of(WorkOp op);

struct Work {
  uint64_t wr_id = 0;
  WorkOp op = WorkOp::kSend;
  uint32_t mr = 0;
  uint32_t offset = 0;
  uint32_t length = 0;
  uint64_t remote_addr = 0;
  uint32_t rkey = 0;
  uint32_t imm = 0;
  uint64_t add = 0;
  uint64_t compare = 0;
  uint64_t swap = 0;
  bool fence = false;
  bool solicited = false;
  bool unsignaled = false;
};

struct Completion {
  uint64_t wr_id = 0;
  bool receive = false;
  std::string status;  // "SUCCESS", "RETRY_EXC_ERR" …
  std::string opcode;  // "SEND", "RECV" …
  uint32_t bytes = 0;
  std::optional<uint32_t> imm;
};

// From where the tester sends a datagram.
struct Origin {
  uint8_t plane = 0;
  uint8_t source = 0;     // which of the tester's source ports, 0 to kSources-1
  bool stranger = false;  // from an address that is in no INIT
  Ecn ecn = Ecn::kNotEct;
};
inline constexpr uint8_t kSources = 4;

struct Arrived {  // a datagram from the target
  Bytes bytes;
  Time at{};
  Ecn ecn = Ecn::kNotEct;
  UdpAddress from, to;
  uint8_t plane = 0;            // of the tester's address that it was sent to
  bool to_source_port = false;  // not to the listening port
  bool to_stranger = false;     // to the stranger's address
};

// What the tester has waited for answers of the control side so far.
struct ControlWaits {
  Nanos total{0};
  uint32_t answers = 0;
};

class Target {
 public:
  Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  virtual ~Target() = default;

  virtual std::string name() const = 0;
  virtual bool has(Feature feature) const = 0;
  bool virtual_time() const { return has(Feature::kVirtualTime); }

  // ---- control
  virtual Started start(const StartOptions& options) = 0;
  virtual void stop() = 0;
  virtual Region create_mr(uint32_t length, uint32_t access) = 0;
  virtual void destroy_mr(uint32_t mr) = 0;
  virtual Bytes read_memory(uint32_t mr, uint32_t offset, uint32_t length) = 0;
  virtual void write_memory(uint32_t mr, uint32_t offset, std::span<const std::byte> bytes) = 0;
  virtual uint32_t create_srq(uint32_t max_wr) = 0;
  virtual QueuePair create_qp(uint32_t max_send_wr, uint32_t max_recv_wr, std::optional<uint32_t> srq) = 0;
  virtual void connect_qp(uint32_t qp, const ConnectOptions& options) = 0;
  virtual void modify_qp(uint32_t qp, std::string_view state) = 0;  // "reset" or "err"
  virtual std::string query_qp(uint32_t qp) = 0;
  virtual void destroy_qp(uint32_t qp) = 0;
  virtual void post_recv(uint32_t qp, uint64_t wr_id, uint32_t mr, uint32_t offset, uint32_t length) = 0;
  virtual void post_srq_recv(uint32_t srq, uint64_t wr_id, uint32_t mr, uint32_t offset, uint32_t length) = 0;
  virtual void post_send(uint32_t qp, const Work& work) = 0;
  virtual std::vector<Completion> poll(uint32_t qp) = 0;
  virtual void link(uint32_t plane, bool up) = 0;
  virtual ControlWaits control_waits() const { return {}; }
  // No answer is waited for beyond this.
  virtual void limit_answers(Time) {}

  // ---- packets
  // The tester's own addresses: one for each plane, where it listens at tester_port().
  virtual Gid tester_address(uint32_t plane) const = 0;
  virtual Gid stranger_address() const = 0;
  virtual uint8_t tester_slot() const = 0;
  virtual uint16_t tester_port() const = 0;
  // From where a datagram of this origin is sent.
  virtual UdpAddress source_address(const Origin& origin) const = 0;
  virtual void send(std::span<const std::byte> datagram, const Origin& origin) = 0;
  // The next datagram that arrives until then; nothing if none does.
  virtual std::optional<Arrived> receive(Time until) = 0;
  virtual Time now() const = 0;
  // The same time since 1970; in virtual time, since it began.
  virtual Time unix_time(Time at) const { return at; }
};

}  // namespace mroce::comply
