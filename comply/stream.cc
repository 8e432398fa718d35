#include "comply/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace mroce::comply {

using wire::DataOp;

Bytes pattern(size_t length, uint32_t seed) {
  Bytes out(length);
  uint32_t x = seed * 2654435761U + 12345;
  for (std::byte& byte : out) {
    x = x * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(x >> 24);
  }
  return out;
}

// ---- stream

Sent Stream::send_open(const std::function<void(wire::StreamControl&)>& shape, uint32_t first_msn) {
  wire::StreamControl control;
  control.src_qpn = own_qpn_;
  control.dst_qpn = target_.qpn;
  control.sq_psn = psn_;
  control.incarnation = incarnation;
  if (shape) shape(control);
  return connection_.send_control(DataOp::kStreamOpen, target_.qpn, control, first_msn,
                                  {.flags = wire::flag::kAckRequest});
}

wire::StreamControl Stream::open() {
  send_open({}, msn);
  rqsn = 0;
  Tester& tester = connection_.tester();
  const Packet& answer = tester.expect(
      [this](const Packet& p) {
        return connection_.mine(p) && p.is(DataOp::kStreamAccept) && p.control &&
               p.control->incarnation == incarnation && p.control->dst_qpn == own_qpn_;
      },
      "STREAM_ACCEPT");
  return *answer.control;
}

Sent Stream::send_close(uint32_t which) {
  wire::StreamControl control;
  control.src_qpn = own_qpn_;
  control.dst_qpn = target_.qpn;
  control.incarnation = which;
  return connection_.send_control(DataOp::kStreamClose, target_.qpn, control, 0,
                                  {.flags = wire::flag::kAckRequest});
}

wire::Data Stream::next(DataOp op, uint32_t length) {
  wire::Data data;
  data.op = op;
  data.stream = static_cast<uint16_t>(target_.qpn);
  data.msn = msn++;
  data.length = length;
  return data;
}

Message Stream::write(const Region& region, uint32_t offset, Bytes bytes) {
  wire::Data data = next(DataOp::kWrite, static_cast<uint32_t>(bytes.size()));
  data.va = region.addr + offset;
  data.rkey = region.rkey;
  return {data, std::move(bytes)};
}

Message Stream::write_imm(const Region& region, uint32_t offset, Bytes bytes, uint32_t imm) {
  Message out = write(region, offset, std::move(bytes));
  out.data.op = DataOp::kWriteImm;
  out.data.imm = imm;
  out.data.rqsn = rqsn++;
  return out;
}

Message Stream::message(Bytes bytes) {
  wire::Data data = next(DataOp::kSend, static_cast<uint32_t>(bytes.size()));
  data.rqsn = rqsn++;
  return {data, std::move(bytes)};
}

Message Stream::send_imm(Bytes bytes, uint32_t imm) {
  Message out = message(std::move(bytes));
  out.data.op = DataOp::kSendImm;
  out.data.imm = imm;
  return out;
}

Message Stream::send_inv(Bytes bytes, uint32_t rkey) {
  Message out = send_imm(std::move(bytes), rkey);
  out.data.op = DataOp::kSendInv;
  return out;
}

Message Stream::read(const Region& region, uint32_t offset, uint32_t length) {
  wire::Data data = next(DataOp::kReadReq, length);
  data.va = region.addr + offset;
  data.rkey = region.rkey;
  data.rdslot = 0xabc00000U + data.msn;
  return {data, {}};
}

Message Stream::fetch_add(const Region& region, uint32_t offset, uint64_t add) {
  Message out = read(region, offset, 8);
  out.data.op = DataOp::kFetchAdd;
  out.data.operand = add;
  return out;
}

Message Stream::compare_swap(const Region& region, uint32_t offset, uint64_t compare, uint64_t swap) {
  Message out = fetch_add(region, offset, swap);
  out.data.op = DataOp::kCompareSwap;
  out.data.compare = compare;
  return out;
}

uint32_t Stream::pieces(const Message& message) const {
  const uint32_t mtu = connection_.mtu();
  return std::max<uint32_t>(1, (static_cast<uint32_t>(message.bytes.size()) + mtu - 1) / mtu);
}

Sent Stream::send_piece(const Message& message, uint32_t piece, const SendOptions& options) {
  wire::Data data = message.data;
  const size_t from = size_t{piece} * connection_.mtu();
  const size_t to = std::min(message.bytes.size(), from + connection_.mtu());
  data.offset = static_cast<uint32_t>(from);
  SendOptions with = options;
  if (piece + 1 == pieces(message)) with.flags |= wire::flag::kLast;
  return connection_.send_data(data,
                               Bytes(message.bytes.begin() + static_cast<ptrdiff_t>(from),
                                     message.bytes.begin() + static_cast<ptrdiff_t>(to)),
                               with);
}

Sent Stream::send(const Message& message) {
  const uint32_t count = pieces(message);
  for (uint32_t i = 0; i + 1 < count; ++i) send_piece(message, i);
  return send_piece(message, count - 1, {.flags = wire::flag::kAckRequest});
}

Sent Stream::send_and_wait(const Message& message) {
  const Sent sent = send(message);
  connection_.expect_accepted(sent);
  return sent;
}

Sent Stream::send_void(uint32_t which, const SendOptions& options) {
  wire::Data data;
  data.op = DataOp::kVoid;
  data.stream = static_cast<uint16_t>(target_.qpn);
  data.msn = which;
  return connection_.send_data(data, {}, options);
}

// ---- bench

namespace {
constexpr uint32_t kOwnStream = 0x123;
}

Bench::Bench(Tester& t, const BenchOptions& options)
    : tester(t),
      target(t.target()),
      region((t.start(options.start), t.target().create_mr(kRegionBytes, options.access))),
      srq(options.with_srq ? t.target().create_srq(64) : 0),
      qp(t.target().create_qp(256, 64, options.with_srq ? std::optional(srq) : std::nullopt)),
      connection(t),
      stream(connection, qp, uint32_t{t.target().tester_slot()} << 16 | kOwnStream, kRqPsn) {
  ConnectOptions connect = options.connect;
  if (connect.remote_address.is_zero()) connect.remote_address = target.tester_address(0);
  if (connect.remote_qpn == 0) connect.remote_qpn = own_qpn();
  connect.sq_psn = kSqPsn;
  connect.rq_psn = kRqPsn;
  target.connect_qp(qp.id, connect);
  for (uint32_t i = 0; i < options.receives; ++i) post_recv(100 + i, kReceivesAt + i * kReceiveBytes);
  if (options.shape) options.shape(connection);
  if (!options.open_connection) return;
  connection.open();
  if (options.open_stream) {
    stream.open();
  } else {
    connection.send_ack();  // before the tester has shown itself nobody has to send it anything (§10.4)
  }
}

Bytes Bench::memory(uint32_t offset, uint32_t length) const {
  return target.read_memory(region.id, offset, length);
}
void Bench::write_memory(uint32_t offset, const Bytes& bytes) const {
  target.write_memory(region.id, offset, bytes);
}

uint64_t Bench::word(uint32_t offset) const {
  const Bytes bytes = memory(offset, 8);
  uint64_t out = 0;
  if (bytes.size() == 8) std::memcpy(&out, bytes.data(), 8);
  return out;
}

void Bench::post_recv(uint64_t wr_id, uint32_t offset, uint32_t length) const {
  if (srq != 0) return target.post_srq_recv(srq, wr_id, region.id, offset, length);
  target.post_recv(qp.id, wr_id, region.id, offset, length);
}

void Bench::post(const Work& work) const {
  target.post_send(qp.id, work);
}

Work Bench::work(uint64_t wr_id, WorkOp op, uint32_t length, uint32_t offset) const {
  Work out;
  out.wr_id = wr_id;
  out.op = op;
  out.mr = region.id;
  out.offset = offset;
  out.length = length;
  out.remote_addr = 0x5000;
  out.rkey = 0x77;
  return out;
}

Completion Bench::completion(Nanos within) {
  tester.until(
      [this] {
        if (!waiting_.empty()) return true;
        waiting_ = target.poll(qp.id);
        return !waiting_.empty();
      },
      "a completion", within);
  Completion out = waiting_.front();
  waiting_.erase(waiting_.begin());
  return out;
}

Completion Bench::expect_completion(uint64_t wr_id, const std::string& status, Nanos within) {
  Completion out = completion(within);
  Tester::check(out.wr_id == wr_id && out.status == status,
                fmt::format("the completion is {} of work request {}, not {} of {}", out.status, out.wr_id,
                            status, wr_id));
  return out;
}

void Bench::expect_no_completion(Nanos within) {
  tester.run_for(within);
  if (waiting_.empty()) waiting_ = target.poll(qp.id);
  if (waiting_.empty()) return;
  throw RuleBroken(fmt::format("work request {} completed with {}", waiting_[0].wr_id, waiting_[0].status));
}

void Bench::expect_state(const std::string& state, Nanos within) {
  tester.until([&] { return target.query_qp(qp.id) == state; },
               fmt::format("the queue pair in state {}", state), within);
}

Match Bench::of(DataOp wanted) const {
  return [this, wanted](const Packet& p) { return connection.mine(p) && p.is(wanted); };
}

}  // namespace mroce::comply
