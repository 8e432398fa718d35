// Stream: the tester's sending half on a queue pair of the target; and Bench, with which most assertions
// begin.
#pragma once

#include "comply/connection.h"

namespace mroce::comply {

// Bytes that differ from place to place and from seed to seed.
Bytes pattern(size_t length, uint32_t seed = 1);

struct Message {
  wire::Data data;  // of its first packet
  Bytes bytes;
};

class Stream {
 public:
  Stream(Connection& connection, QueuePair target, uint32_t own_qpn, uint32_t psn)
      : connection_(connection), target_(target), own_qpn_(own_qpn), psn_(psn) {}

  // STREAM_OPEN; waits for ACCEPT, which it answers.
  wire::StreamControl open();
  Sent send_open(const std::function<void(wire::StreamControl&)>& shape = {}, uint32_t msn = 0);
  Sent send_close(uint32_t incarnation);

  // Messages take the next MSN, and the next RQSN if they consume a receive. Nothing is sent yet.
  Message write(const Region& region, uint32_t offset, Bytes bytes);
  Message write_imm(const Region& region, uint32_t offset, Bytes bytes, uint32_t imm);
  Message message(Bytes bytes);  // SEND
  Message send_imm(Bytes bytes, uint32_t imm);
  Message send_inv(Bytes bytes, uint32_t rkey);
  Message read(const Region& region, uint32_t offset, uint32_t length);
  Message fetch_add(const Region& region, uint32_t offset, uint64_t add);
  Message compare_swap(const Region& region, uint32_t offset, uint64_t compare, uint64_t swap);

  uint32_t pieces(const Message& message) const;
  Sent send_piece(const Message& message, uint32_t piece, const SendOptions& options = {});
  // All pieces in order; the last one asks for an acknowledgement.
  Sent send(const Message& message);
  Sent send_and_wait(const Message& message);
  Sent send_void(uint32_t msn, const SendOptions& options = {});

  uint32_t own_qpn() const { return own_qpn_; }
  const QueuePair& target() const { return target_; }
  uint32_t incarnation = 1;
  uint32_t msn = 0;   // next
  uint32_t rqsn = 0;  // next

 private:
  wire::Data next(wire::DataOp op, uint32_t length);
  Connection& connection_;
  QueuePair target_;
  uint32_t own_qpn_;
  uint32_t psn_;
};

struct BenchOptions {
  StartOptions start = {};
  std::function<void(Connection&)> shape = {};  // before the handshake
  ConnectOptions connect = {};                  // remote address and QPN are filled in
  bool open_connection = true;
  bool open_stream = true;
  uint32_t receives = 0;  // posted before the stream opens: numbers 100, 101 … of kReceiveBytes each
  uint32_t access = 15;   // of the region
  bool with_srq = false;
};

// A target with a region and a queue pair that is connected to the tester, a connection, and the tester's
// half of the stream.
struct Bench {
  explicit Bench(Tester& tester, const BenchOptions& options = {});

  static constexpr uint32_t kRegionBytes = 1 << 20;
  static constexpr uint32_t kReceiveBytes = 4096;
  static constexpr uint32_t kReceivesAt = 512 << 10;  // where in the region receives begin
  static constexpr uint32_t kSqPsn = 0x1234, kRqPsn = 0x4321;

  Bytes memory(uint32_t offset, uint32_t length) const;
  void write_memory(uint32_t offset, const Bytes& bytes) const;
  uint64_t word(uint32_t offset) const;  // in the byte order of this host
  void post_recv(uint64_t wr_id, uint32_t offset = kReceivesAt, uint32_t length = kReceiveBytes) const;
  void post(const Work& work) const;
  // Work of the target on `length` bytes at `offset` of its region; remote address and key are made up.
  Work work(uint64_t wr_id, WorkOp op, uint32_t length, uint32_t offset = 0) const;
  // The next completion of the queue pair; RuleBroken if there is none in time.
  Completion completion(Nanos within = Tester::kPatience);
  Completion expect_completion(uint64_t wr_id, const std::string& status, Nanos within = Tester::kPatience);
  void expect_no_completion(Nanos within = millis(20));
  void expect_state(const std::string& state, Nanos within = Tester::kPatience);
  // A datagram of this kind from the target on this connection.
  Match of(wire::DataOp op) const;
  uint32_t own_qpn() const { return stream.own_qpn(); }

  Tester& tester;
  Target& target;
  Region region;
  uint32_t srq = 0;
  QueuePair qp;
  Connection connection;
  Stream stream;

 private:
  std::vector<Completion> waiting_;
};

}  // namespace mroce::comply
