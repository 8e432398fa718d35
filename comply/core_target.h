// CoreTarget: the engine of core/mroce in this process, in virtual time.
//
// The driver is the loop of core/mroce/engine.h with one queue of datagrams on their way for each direction:
// each takes kLatency, none is lost, and order is kept. What the network does beyond that, the tester does.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "comply/target.h"
#include "core/mroce/engine.h"

namespace mroce::comply {

// Memory at made-up addresses, the same in every run; each region has an allocation of its own.
class CoreMemory final : public Memory {
 public:
  uint64_t allocate(size_t bytes);
  std::span<std::byte> bytes(uint64_t addr, size_t length);

  void place(uint64_t addr, std::span<const std::byte> data) override;
  void place_tail(uint64_t addr, std::span<const std::byte> data) override { place(addr, data); }
  const std::byte* fetch(uint64_t addr, uint32_t length) override { return bytes(addr, length).data(); }
  uint64_t compare_swap(uint64_t addr, uint64_t compare, uint64_t swap) override;
  uint64_t fetch_add(uint64_t addr, uint64_t add) override;

 private:
  std::map<uint64_t, Bytes> blocks_;
  uint64_t next_ = 0x7f0000001000;
};

class CoreTarget : public Target {
 public:
  using Tweak = std::function<void(EngineConfig&)>;
  // `tweak` sees the configuration of every engine before it starts.
  explicit CoreTarget(Tweak tweak = {});
  ~CoreTarget() override;

  std::string name() const override { return "core"; }
  bool has(Feature) const override { return true; }

  Started start(const StartOptions& options) override;
  void stop() override;
  Region create_mr(uint32_t length, uint32_t access) override;
  void destroy_mr(uint32_t mr) override;
  Bytes read_memory(uint32_t mr, uint32_t offset, uint32_t length) override;
  void write_memory(uint32_t mr, uint32_t offset, std::span<const std::byte> bytes) override;
  uint32_t create_srq(uint32_t max_wr) override;
  QueuePair create_qp(uint32_t max_send_wr, uint32_t max_recv_wr, std::optional<uint32_t> srq) override;
  void connect_qp(uint32_t qp, const ConnectOptions& options) override;
  void modify_qp(uint32_t qp, std::string_view state) override;
  std::string query_qp(uint32_t qp) override;
  void destroy_qp(uint32_t qp) override;
  void post_recv(uint32_t qp, uint64_t wr_id, uint32_t mr, uint32_t offset, uint32_t length) override;
  void post_srq_recv(uint32_t srq, uint64_t wr_id, uint32_t mr, uint32_t offset, uint32_t length) override;
  void post_send(uint32_t qp, const Work& work) override;
  std::vector<Completion> poll(uint32_t qp) override;
  void link(uint32_t plane, bool up) override;

  Gid tester_address(uint32_t plane) const override;
  Gid stranger_address() const override;
  uint8_t tester_slot() const override { return 1; }
  UdpAddress source_address(const Origin& origin) const override;
  uint16_t tester_port() const override { return kBasePort + 1; }
  void send(std::span<const std::byte> datagram, const Origin& origin) override;
  std::optional<Arrived> receive(Time until) override;
  Time now() const override { return now_; }

  static constexpr Nanos kLatency = micros(10);
  static constexpr uint32_t kPlanes = 2;
  static constexpr uint16_t kBasePort = 61440;

 private:
  struct Mr {
    Region region;
    MrInfo keys;
  };
  struct Qp {
    QpHandle handle;
    CqHandle cq;
  };
  struct Inbound {
    Time at{};
    RxMeta meta;
    Bytes bytes;
  };

  Engine& engine();
  const Mr& region(uint32_t mr) const;
  const Qp& queue_pair(uint32_t qp) const;
  Sge sge(uint32_t mr, uint32_t offset, uint32_t length) const;
  void pump();
  void take(const TxBurst& burst);
  void deliver(uint32_t port, uint16_t entropy, const UdpAddress& to, Ecn ecn, Bytes bytes);

  Tweak tweak_;
  Time now_ = time_from_ns(1'000'000'000);
  uint64_t starts_ = 0;
  CoreMemory memory_;
  std::unique_ptr<Engine> engine_;
  PdHandle pd_;
  uint32_t next_id_ = 1;
  std::map<uint32_t, Mr> mrs_;
  std::map<uint32_t, Qp> qps_;
  std::map<uint32_t, SrqHandle> srqs_;
  std::deque<Inbound> to_engine_;
  std::deque<Arrived> to_tester_;
};

// What completions are called in the control protocol; also for the control server.
Completion completion_of(const Wc& wc);
std::string_view state_name(QpState state);
SendWr work_request(const Work& work);  // without its SGEs

}  // namespace mroce::comply
